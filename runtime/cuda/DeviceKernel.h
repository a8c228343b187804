//===- DeviceKernel.h - Shapes that DeviceKernels.inc works on ------------===//
#ifndef PP_RUNTIME_CUDA_DEVICEKERNEL_H
#define PP_RUNTIME_CUDA_DEVICEKERNEL_H

#include "ElementTypes.h"

#include <memory>

namespace pp::cuda {

// The layouts of the structs of the same names in DeviceKernels.inc.
struct PoolShape {
  int channels;
  int src[3], dst[3], kernel[3], strides[3], dilations[3], pad[3];
  int includePad;
};
struct BatchNormShape {
  int samples, channels, area;
  float epsilon;
};

struct WidenShape {
  long long count;
};
struct FiniteShape {
  long long count;
};
struct AddShape {
  long long count;
};
struct LossScaleShape {
  int ranks, scale, skipped, interval;
};

class Kernel;
struct KernelInputs;

/// Makes f32 of `count` elements of sixteen bits; tensors: from, to.
std::unique_ptr<Kernel> createWiden(ElementType type, int64_t count,
                                    const KernelInputs &inputs);

/// Reads the keys of a pool. Throws DescriptorError.
PoolShape readPool(runtime::Descriptor &descriptor, bool isAverage);
BatchNormShape readBatchNorm(runtime::Descriptor &descriptor);
LossScaleShape readLossScale(runtime::Descriptor &descriptor);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_DEVICEKERNEL_H
