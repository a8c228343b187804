//===- DeviceKernel.h - Shapes that DeviceKernels.inc works on ------------===//
#ifndef PP_RUNTIME_CUDA_DEVICEKERNEL_H
#define PP_RUNTIME_CUDA_DEVICEKERNEL_H

#include "cpu/Descriptor.h"

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

/// Reads the keys of a pool. Throws DescriptorError.
PoolShape readPool(runtime::Descriptor &descriptor, bool isAverage);
BatchNormShape readBatchNorm(runtime::Descriptor &descriptor);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_DEVICEKERNEL_H
