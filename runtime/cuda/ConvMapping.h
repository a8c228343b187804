//===- ConvMapping.h - `conv_*` as cuDNN wants it -------------------------===//
#ifndef PP_RUNTIME_CUDA_CONVMAPPING_H
#define PP_RUNTIME_CUDA_CONVMAPPING_H

#include "ElementTypes.h"

namespace pp::cuda {

/// cuDNN takes two or three spatial dimensions, and pads both sides of one by
/// the same; a convolution with one dimension gets a leading one of extent 1.
struct ConvMapping {
  std::vector<int> src, weights, dst; // all dimensions
  std::vector<int> srcStrides, dstStrides;
  std::vector<int> pad, strides, dilations;
  int groups;
  bool hasBias;
  ElementType srcType, weightsType, dstType;
  bool allowsTf32;
};

/// Reads `conv_*`. Throws DescriptorError for a descriptor that is wrong, or
/// that needs more padding behind than in front.
ConvMapping mapConv(runtime::Descriptor &descriptor);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_CONVMAPPING_H
