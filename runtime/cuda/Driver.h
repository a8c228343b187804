//===- Driver.h - The functions of libcuda.so.1 ---------------------------===//
//
// The driver is opened when a device is, so a machine without one can load the
// plugin and gets a message that says what is missing.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_DRIVER_H
#define PP_RUNTIME_CUDA_DRIVER_H

#include "Failure.h"

#include <cuda.h>

// Names as in cuda.h, whose macros select the version of each function.
#define PP_DRIVER_FUNCTIONS(X)                                                 \
  X(cuCtxSetCurrent)                                                           \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetAttribute)                                                      \
  X(cuDeviceGetCount)                                                          \
  X(cuDeviceGetName)                                                           \
  X(cuDevicePrimaryCtxRelease)                                                 \
  X(cuDevicePrimaryCtxRetain)                                                  \
  X(cuDriverGetVersion)                                                        \
  X(cuEventCreate)                                                             \
  X(cuEventDestroy)                                                            \
  X(cuEventElapsedTime)                                                        \
  X(cuEventQuery)                                                              \
  X(cuEventRecord)                                                             \
  X(cuEventSynchronize)                                                        \
  X(cuGetErrorString)                                                          \
  X(cuGraphDestroy)                                                            \
  X(cuGraphExecDestroy)                                                        \
  X(cuGraphGetNodes)                                                           \
  X(cuGraphInstantiate)                                                        \
  X(cuGraphLaunch)                                                             \
  X(cuGraphUpload)                                                             \
  X(cuInit)                                                                    \
  X(cuIpcCloseMemHandle)                                                       \
  X(cuIpcGetEventHandle)                                                       \
  X(cuIpcGetMemHandle)                                                         \
  X(cuIpcOpenEventHandle)                                                      \
  X(cuIpcOpenMemHandle)                                                        \
  X(cuLaunchHostFunc)                                                          \
  X(cuLaunchKernel)                                                            \
  X(cuMemAlloc)                                                                \
  X(cuMemFree)                                                                 \
  X(cuMemFreeHost)                                                             \
  X(cuMemGetInfo)                                                              \
  X(cuMemHostAlloc)                                                            \
  X(cuMemHostGetDevicePointer)                                                 \
  X(cuMemcpyAsync)                                                             \
  X(cuMemsetD8Async)                                                           \
  X(cuModuleGetFunction)                                                       \
  X(cuModuleLoadDataEx)                                                        \
  X(cuModuleUnload)                                                            \
  X(cuPointerGetAttributes)                                                    \
  X(cuStreamBeginCapture)                                                      \
  X(cuStreamCreate)                                                            \
  X(cuStreamDestroy)                                                           \
  X(cuStreamEndCapture)                                                        \
  X(cuStreamSynchronize)                                                       \
  X(cuStreamWaitEvent)                                                         \
  X(cuStreamWaitValue64)                                                       \
  X(cuStreamWriteValue64)

namespace pp::cuda {

struct Driver {
// A declaration takes no parentheses:
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define PP_DECLARE(name) decltype(&::name) name;
  PP_DRIVER_FUNCTIONS(PP_DECLARE)
#undef PP_DECLARE

  /// Throws Failure(Internal): `what`: the driver's text.
  void check(CUresult result, const char *what) const;
  const char *describe(CUresult result) const;
};

/// Opens and initialises the driver on the first call. Throws Failure(Usage)
/// where there is none, it is too old, or it finds no GPU.
const Driver &getDriver();

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_DRIVER_H
