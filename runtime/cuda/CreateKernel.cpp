//===- CreateKernel.cpp - From a descriptor to its kernel -----------------===//
#include "CudaKernel.h"

using namespace pp::cuda;
using pp::runtime::DescriptorError;

namespace {
struct Kind {
  const char *name;
  std::unique_ptr<Kernel> (*create)(Descriptor &, const KernelInputs &);
};
} // namespace

static constexpr Kind kinds[] = {
    {"launch", createLaunch},
    {"copy", createCopy},
    {"matmul", createMatmul},
    {"conv_forward", createConv},
    {"conv_backward_data", createConv},
    {"conv_backward_weights", createConv},
    {"attention_forward", createAttention},
    {"attention_backward", createAttention},
    {"max_pool_forward", createPool},
    {"max_pool_backward", createPool},
    {"avg_pool_forward", createPool},
    {"avg_pool_backward", createPool},
    {"batch_norm_forward", createBatchNorm},
    {"batch_norm_backward", createBatchNorm},
    {"check_finite", createCheckFinite},
    {"loss_scale", createLossScale},
    {"add", createAdd},
};

std::unique_ptr<Kernel> pp::cuda::createKernel(const char *text,
                                               const KernelInputs &inputs) {
  try {
    Descriptor descriptor(text);
    for (const Kind &kind : kinds) {
      if (descriptor.getKind() != kind.name)
        continue;
      auto kernel = kind.create(descriptor, inputs);
      descriptor.checkAllUsed();
      return kernel;
    }
    throw DescriptorError("unknown kind '" + descriptor.getKind() + "'");
  } catch (const DescriptorError &e) {
    throw Failure(Failure::Input, e.what());
  }
}
