//===- DeviceKernel.cpp - Kernels of DeviceKernels.inc --------------------===//
//
// cuDNN's pools take no dilations and the same padding on both sides, and do
// not say which of equal maxima gets the gradient; its batch normalisation
// returns 1 / sqrt(variance + epsilon), where the plan wants the variance. So
// these kernels are the plugin's own, as are those of loss scaling and of the
// sums of replicas.
//
//===----------------------------------------------------------------------===//
#include "DeviceKernel.h"
#include "CudaKernel.h"
#include "Libraries.h"

#include <algorithm>
#include <vector>

using namespace pp::cuda;

static constexpr unsigned blockSize = 256;

/// For kernels that walk over any number of elements: a few blocks for each
/// multiprocessor of any chip.
static int64_t walkingBlocks(int64_t elements) {
  constexpr int64_t most = 1024;
  return std::min<int64_t>((elements + blockSize - 1) / blockSize, most);
}

namespace {
/// A kernel whose parameters are a shape and the tensors.
template <typename Shape> class DeviceKernel : public Kernel {
public:
  DeviceKernel(const KernelInputs &inputs, const std::string &name,
               const Shape &shape, size_t tensors, int64_t blocks,
               unsigned blockSize = ::blockSize)
      : context(inputs.context),
        function(inputs.libraries.getKernels().getFunction(name)), shape(shape),
        tensors(tensors), blocks(blocks), blockSize(blockSize) {
    if (blocks > INT32_MAX)
      throw Failure(Failure::Input, "the tensor is too large");
  }

  void execute(CUstream stream, void *const *pointers, void *) override {
    const Driver &driver = context.enter();
    std::vector<void *> arguments = {&shape};
    for (size_t i = 0; i < tensors; ++i)
      arguments.push_back(asParameter(pointers[i]));
    driver.check(driver.cuLaunchKernel(function, static_cast<unsigned>(blocks),
                                       1, 1, blockSize, 1, 1, 0, stream,
                                       arguments.data(), nullptr),
                 "cuLaunchKernel");
  }

private:
  Context &context;
  CUfunction function;
  Shape shape;
  size_t tensors;
  int64_t blocks;
  unsigned blockSize;
};
} // namespace

/// Whether a block has the maxima of a channel in its shared memory.
static bool fitsInBlock(const PoolShape &shape) {
  auto area = [](const int (&extents)[3]) {
    return int64_t(extents[0]) * extents[1] * extents[2];
  };
  return area(shape.dst) <= 12288 && area(shape.src) <= UINT16_MAX;
}

std::unique_ptr<Kernel> pp::cuda::createPool(Descriptor &descriptor,
                                             const KernelInputs &inputs) {
  const std::string &kind = descriptor.getKind();
  bool isAverage = kind.rfind("avg", 0) == 0;
  bool isBackward = kind.find("backward") != std::string::npos;
  PoolShape shape = readPool(descriptor, isAverage);
  descriptor.checkAllUsed();
  if (isBackward && !isAverage && fitsInBlock(shape))
    return std::make_unique<DeviceKernel<PoolShape>>(inputs, kind + "_planes",
                                                     shape, 3, shape.channels);
  const int (&extents)[3] = isBackward ? shape.src : shape.dst;
  int64_t elements =
      int64_t(shape.channels) * extents[0] * extents[1] * extents[2];
  return std::make_unique<DeviceKernel<PoolShape>>(
      inputs, kind, shape, isBackward && !isAverage ? 3 : 2,
      (elements + blockSize - 1) / blockSize);
}

std::unique_ptr<Kernel> pp::cuda::createBatchNorm(Descriptor &descriptor,
                                                  const KernelInputs &inputs) {
  BatchNormShape shape = readBatchNorm(descriptor);
  descriptor.checkAllUsed();
  bool isBackward = descriptor.getKind() == "batch_norm_backward";
  // A multiprocessor has one channel at a time where there are few.
  bool isLong = int64_t(shape.samples) * shape.area >= 8192;
  return std::make_unique<DeviceKernel<BatchNormShape>>(
      inputs, descriptor.getKind(), shape, isBackward ? 8 : 6, shape.channels,
      isLong ? 1024 : blockSize);
}

std::unique_ptr<Kernel> pp::cuda::createWiden(ElementType type, int64_t count,
                                              const KernelInputs &inputs) {
  return std::make_unique<DeviceKernel<WidenShape>>(
      inputs, type == ElementType::BF16 ? "widen_bf16" : "widen_f16",
      WidenShape{count}, 2, (count + blockSize - 1) / blockSize);
}

std::unique_ptr<Kernel>
pp::cuda::createCheckFinite(Descriptor &descriptor,
                            const KernelInputs &inputs) {
  FiniteShape shape{descriptor.getInteger("count", 1, INT32_MAX)};
  descriptor.checkAllUsed();
  return std::make_unique<DeviceKernel<FiniteShape>>(
      inputs, "check_finite", shape, 2, walkingBlocks(shape.count));
}

std::unique_ptr<Kernel> pp::cuda::createLossScale(Descriptor &descriptor,
                                                  const KernelInputs &inputs) {
  LossScaleShape shape = readLossScale(descriptor);
  descriptor.checkAllUsed();
  return std::make_unique<DeviceKernel<LossScaleShape>>(inputs, "loss_scale",
                                                        shape, 3, 1);
}

std::unique_ptr<Kernel> pp::cuda::createAdd(Descriptor &descriptor,
                                            const KernelInputs &inputs) {
  AddShape shape{descriptor.getInteger("count", 1, INT64_MAX)};
  descriptor.checkAllUsed();
  return std::make_unique<DeviceKernel<AddShape>>(inputs, "add", shape, 3,
                                                  walkingBlocks(shape.count));
}
