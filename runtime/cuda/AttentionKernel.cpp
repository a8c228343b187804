//===- AttentionKernel.cpp - `attention_*` --------------------------------===//
#include "AttentionGraph.h"
#include "CudaKernel.h"
#include "Dnn.h"
#include "Libraries.h"
#include "Workspace.h"

using namespace pp::cuda;

namespace {

class AttentionKernel : public Kernel {
public:
  AttentionKernel(const AttentionMapping &map, const KernelInputs &inputs)
      : context(inputs.context), dnn(inputs.libraries.getDnn()),
        handle(dnn.getHandle()),
        graph(map, {dnn.getLibrary(), context.getArchitecture(), handle}),
        workspace(inputs.scratchpad) {
    uint64_t wanted = graph.getWorkspaceBytes();
    if (wanted > workspace.getBytes())
      throw Failure(Failure::Input,
                    "cuDNN's attention wants " + std::to_string(wanted) +
                        " bytes of scratchpad, but the plan leaves it only " +
                        std::to_string(workspace.getBytes()) +
                        "; compile the model with --fuse-attention=never");
  }

  void execute(CUstream stream, void *const *tensors,
               void *scratchpad) override {
    context.enter();
    dnn.check(dnn.cudnnSetStream(handle, stream), "cudnnSetStream");
    graph.execute(handle, tensors, workspace.in(scratchpad));
  }

private:
  Context &context;
  Dnn &dnn;
  cudnnHandle_t handle;
  AttentionGraph graph;
  Workspace workspace;
};

} // namespace

std::unique_ptr<Kernel> pp::cuda::createAttention(Descriptor &descriptor,
                                                  const KernelInputs &inputs) {
  AttentionMapping map = mapAttention(descriptor);
  descriptor.checkAllUsed();
  return std::make_unique<AttentionKernel>(map, inputs);
}
