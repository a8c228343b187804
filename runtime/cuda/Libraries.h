//===- Libraries.h - cuBLASLt, cuDNN and NVRTC, when they are needed ------===//
#ifndef PP_RUNTIME_CUDA_LIBRARIES_H
#define PP_RUNTIME_CUDA_LIBRARIES_H

#include "Module.h"

#include <memory>
#include <mutex>

namespace pp::cuda {

class Blas;
class Dnn;
class Nccl;

/// The libraries as one GPU uses them. Each is loaded by the first kernel that
/// wants it. Any thread may call the functions.
class Libraries {
public:
  explicit Libraries(Context &context);
  ~Libraries();

  // These throw Failure(Usage) where the library is missing.
  Blas &getBlas();
  Dnn &getDnn();
  Nccl &getNccl();
  /// The kernels of DeviceKernels.inc.
  Module &getKernels();

private:
  Context &context;
  std::mutex mutex;
  std::unique_ptr<Blas> blas;
  std::unique_ptr<Dnn> dnn;
  std::unique_ptr<Nccl> nccl;
  std::unique_ptr<Module> kernels;
};

/// PTX for an architecture ("90" for sm_90) from the kernels' source.
std::string compileDeviceKernels(int architecture);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_LIBRARIES_H
