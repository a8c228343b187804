//===- Dnn.h - The functions of cuDNN -------------------------------------===//
#ifndef PP_RUNTIME_CUDA_DNN_H
#define PP_RUNTIME_CUDA_DNN_H

#include "Context.h"
#include "SharedLibrary.h"

// For convolutions, the older interface does all that is needed in a tenth of
// the calls. Attention is only in the newer one (AttentionGraph.h).
#define NV_CUDNN_DISABLE_WARNINGS
#include <cudnn.h>

#include <map>
#include <mutex>
#include <thread>

#define PP_DNN_FUNCTIONS(X)                                                    \
  X(cudnnAddTensor)                                                            \
  X(cudnnConvolutionBackwardData)                                              \
  X(cudnnConvolutionBackwardFilter)                                            \
  X(cudnnConvolutionForward)                                                   \
  X(cudnnCreate)                                                               \
  X(cudnnCreateConvolutionDescriptor)                                          \
  X(cudnnCreateFilterDescriptor)                                               \
  X(cudnnCreateTensorDescriptor)                                               \
  X(cudnnDestroy)                                                              \
  X(cudnnDestroyConvolutionDescriptor)                                         \
  X(cudnnDestroyFilterDescriptor)                                              \
  X(cudnnDestroyTensorDescriptor)                                              \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                               \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)                              \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                             \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                            \
  X(cudnnGetConvolutionForwardAlgorithm_v7)                                    \
  X(cudnnGetConvolutionForwardWorkspaceSize)                                   \
  X(cudnnGetErrorString)                                                       \
  X(cudnnSetConvolutionGroupCount)                                             \
  X(cudnnSetConvolutionMathType)                                               \
  X(cudnnSetConvolutionNdDescriptor)                                           \
  X(cudnnSetFilterNdDescriptor)                                                \
  X(cudnnSetStream)                                                            \
  X(cudnnSetTensorNdDescriptor)

namespace pp::cuda {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

class Dnn {
public:
  explicit Dnn(Context &context);
  ~Dnn();
  Dnn(const Dnn &) = delete;
  Dnn &operator=(const Dnn &) = delete;

// A declaration takes no parentheses:
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define PP_DECLARE(name) decltype(&::name) name;
  PP_DNN_FUNCTIONS(PP_DECLARE)
#undef PP_DECLARE

  /// The calling thread's handle: a handle is for one thread at a time. Kernels
  /// keep that of the thread that makes them, which is the one that runs them.
  cudnnHandle_t getHandle();
  /// As dlopen gave it.
  void *getLibrary() const { return library.getHandle(); }
  /// Throws Failure(Internal).
  void check(cudnnStatus_t status, const char *what) const;

private:
  Context &context;
  SharedLibrary library;
  std::mutex mutex;
  std::map<std::thread::id, cudnnHandle_t> handles;
};

#pragma GCC diagnostic pop

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_DNN_H
