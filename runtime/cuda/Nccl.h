//===- Nccl.h - The functions of NCCL -------------------------------------===//
#ifndef PP_RUNTIME_CUDA_NCCL_H
#define PP_RUNTIME_CUDA_NCCL_H

#include "SharedLibrary.h"

#include <nccl.h>

#define PP_NCCL_FUNCTIONS(X)                                                   \
  X(ncclCommAbort)                                                             \
  X(ncclCommDestroy)                                                           \
  X(ncclCommFinalize)                                                          \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclGetErrorString)                                                        \
  X(ncclGetUniqueId)                                                           \
  X(ncclGroupEnd)                                                              \
  X(ncclGroupStart)                                                            \
  X(ncclRecv)                                                                  \
  X(ncclSend)

namespace pp::cuda {

class Nccl {
public:
  Nccl();

// A declaration takes no parentheses:
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define PP_DECLARE(name) decltype(&::name) name;
  PP_NCCL_FUNCTIONS(PP_DECLARE)
#undef PP_DECLARE

  /// Throws Failure(System) unless the result is success or "in progress".
  void check(ncclResult_t result, const char *what) const;

private:
  SharedLibrary library;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_NCCL_H
