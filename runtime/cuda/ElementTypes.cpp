//===- ElementTypes.cpp ---------------------------------------------------===//
#include "ElementTypes.h"

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

ProductTypes pp::cuda::readProductTypes(Descriptor &descriptor, size_t result) {
  ProductTypes product;
  if (descriptor.has("types")) {
    auto words = descriptor.getWords("types", 3, {"f32", "bf16", "f16"});
    for (size_t i = 0; i < 3; ++i)
      product.types[i] = words[i] == "bf16"  ? ElementType::BF16
                         : words[i] == "f16" ? ElementType::F16
                                             : ElementType::F32;
  }
  ElementType factor = product.types[result == 0 ? 1 : 0];
  for (size_t i = 0; i < 3; ++i)
    if (product.types[i] != factor &&
        (i != result || product.types[i] != ElementType::F32))
      throw DescriptorError(
          "types=" + descriptor.getText("types") +
          ": expected factors of one type, and a result of that type or f32");
  if (descriptor.has("compute")) {
    descriptor.getWords("compute", 1, {"tf32"});
    if (factor != ElementType::F32)
      throw DescriptorError("compute=tf32: the factors are not f32");
    product.allowsTf32 = true;
  }
  return product;
}
