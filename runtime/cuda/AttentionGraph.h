//===- AttentionGraph.h - Attention by cuDNN's graphs ---------------------===//
//
// Hides cudnn-frontend, which takes most of a minute to compile, behind the few
// functions that are needed.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_ATTENTIONGRAPH_H
#define PP_RUNTIME_CUDA_ATTENTIONGRAPH_H

#include "AttentionMapping.h"

#define NV_CUDNN_DISABLE_WARNINGS
#include <cudnn.h>

#include <memory>

namespace pp::cuda {

/// What a plan is made for.
struct AttentionTarget {
  void *library; // libcudnn, of dlopen
  int architecture;
  cudnnHandle_t handle;        // of the GPU, or null
  std::string properties = {}; // of a GPU that is not there, in cuDNN's JSON
};

/// One kernel of cuDNN that gives the same bits every time.
class AttentionGraph {
public:
  /// Chooses and builds it. Throws Failure(Input) where cuDNN has none,
  /// Failure(Usage) where cuDNN is too old or the plugin was built without
  /// cudnn-frontend.
  AttentionGraph(const AttentionMapping &map, const AttentionTarget &target);
  ~AttentionGraph();

  uint64_t getWorkspaceBytes() const;
  /// Gives the work to the handle's stream; allocates nothing on the GPU. The
  /// workspace is aligned to 256 bytes. Throws Failure(Internal).
  void execute(cudnnHandle_t handle, void *const *tensors, void *workspace);

private:
  struct Plan;
  std::unique_ptr<Plan> plan;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_ATTENTIONGRAPH_H
