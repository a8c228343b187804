//===- AttentionMapping.h - `attention_*` as cuDNN wants it ---------------===//
#ifndef PP_RUNTIME_CUDA_ATTENTIONMAPPING_H
#define PP_RUNTIME_CUDA_ATTENTIONMAPPING_H

#include "ElementTypes.h"

namespace pp::cuda {

/// Batch, heads, rows, columns; strides in elements.
struct AttentionTensor {
  std::vector<int64_t> dims, strides;
  ElementType type;
};

/// The tensors in the order of the descriptor's kind.
struct AttentionMapping {
  enum Tensor { Q, K, V, Out, Stats, DiffOut, DiffQ, DiffK, DiffV };
  std::vector<AttentionTensor> tensors; // the first five, or all for backward
  float scale;
  bool isCausal;
  bool isBackward;
};

/// Reads `attention_*`. Throws DescriptorError for a descriptor that is wrong
/// or that cuDNN cannot express: elements of f32, heads that are not whole
/// vectors of 16 bytes.
AttentionMapping mapAttention(runtime::Descriptor &descriptor);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_ATTENTIONMAPPING_H
