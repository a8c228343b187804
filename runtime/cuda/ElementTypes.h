//===- ElementTypes.h - The keys `types` and `compute` of products --------===//
#ifndef PP_RUNTIME_CUDA_ELEMENTTYPES_H
#define PP_RUNTIME_CUDA_ELEMENTTYPES_H

#include "cpu/Descriptor.h"

#include <array>

namespace pp::cuda {

enum class ElementType { F32, BF16, F16 };

inline int64_t bytesOf(ElementType type) {
  return type == ElementType::F32 ? 4 : 2;
}

/// Of the three tensors of a product, in the order of the descriptor's shapes.
struct ProductTypes {
  std::array<ElementType, 3> types{ElementType::F32, ElementType::F32,
                                   ElementType::F32};
  /// Factors of f32 may be rounded to TF32.
  bool allowsTf32 = false;
};

/// Reads the two keys; `result` is the tensor that the product makes. Throws
/// DescriptorError unless both factors have one type, and the result that type
/// or f32.
ProductTypes readProductTypes(runtime::Descriptor &descriptor, size_t result);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_ELEMENTTYPES_H
