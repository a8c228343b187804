//===- ConvLibrary.h - The library's convolutions -------------------------===//
#ifndef PP_RUNTIME_CPU_CONVLIBRARY_H
#define PP_RUNTIME_CPU_CONVLIBRARY_H

#include "cpu/ConvShape.h"
#include "cpu/PackedWeights.h"

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace pp::runtime {

/// Whether it is code of the library that is no generated convolution: a
/// product with columns of what the windows see, or plain loops.
template <typename Desc> bool isPlainCode(const Desc &desc) {
  std::string_view name = desc.impl_info_str();
  return name.starts_with("ref") || name.find("gemm") != name.npos;
}

/// Goes on to such code.
template <typename Desc> void demandPlainCode(Desc &desc) {
  while (!isPlainCode(desc))
    if (!desc.next_impl())
      throw dnnl::error(dnnl_unimplemented, "no plain convolution");
}

/// Throws DescriptorError for a part of images in plain code: its products add
/// up in an order that depends on how many rows and columns there are (one of
/// 200,000 numbers had other bits in half of the outputs).
template <typename Desc>
void demandEqualParts(const ConvShape &shape, const Desc &desc) {
  if (shape.isOfImages && isPlainCode(desc))
    throw DescriptorError("parts: would have other bits than the whole");
}

/// The order in which the library's products add may depend on how many samples
/// there are, which trying parts out does not show where the sums are rounded
/// to 16 bits.
inline void demandShownBits(const ConvShape &shape,
                            const KernelBuilder &builder) {
  if (!builder.isWhole() && !shape.isReliable(/*isWeightGradient=*/false) &&
      shape.src.data_type() != KernelBuilder::Type::f32)
    throw DescriptorError("parts: may have other bits than the whole");
}

/// What `make` makes of the shape. Where the library has no generated code for
/// it, which is a hundred times faster than its other code, the next of these
/// is tried: the direct algorithm, copies in another layout, copies in f32.
template <typename Make>
auto describe(ConvShape &shape, const Make &make,
              bool isWeightGradient = false) {
  using Desc = decltype(make());
  if (!shape.isReliable(isWeightGradient)) {
    shape.setPlain();
    Desc desc = make();
    demandPlainCode(desc);
    return desc;
  }
  using Attempt = std::function<void()>;
  const ConvShape given = shape;
  std::vector<Attempt> attempts;
  if (shape.hasSlowTypes()) {
    attempts.push_back(
        [&] { shape.setCopied(/*widen=*/true, given.algorithm); });
    attempts.push_back([&] { shape.setCopied(/*widen=*/true); });
  }
  attempts.push_back([] {});
  if (shape.algorithm != dnnl::algorithm::convolution_direct)
    attempts.push_back(
        [&] { shape.setAlgorithm(dnnl::algorithm::convolution_direct); });
  attempts.push_back([&] { shape.setCopied(/*widen=*/false); });
  attempts.push_back([&] { shape.setCopied(/*widen=*/true); });
  std::optional<std::pair<ConvShape, Desc>> slow;
  for (const Attempt &attempt : attempts) {
    shape = given;
    attempt();
    try {
      Desc desc = make();
      if (!std::string_view(desc.impl_info_str()).starts_with("ref"))
        return desc;
      if (!slow)
        slow.emplace(shape, std::move(desc));
    } catch (const dnnl::error &e) {
      if (e.status != dnnl_unimplemented)
        throw;
    }
  }
  if (!slow)
    throw dnnl::error(dnnl_unimplemented, "no convolution of this shape");
  shape = slow->first;
  return slow->second;
}

/// The weights as the caller has them.
template <typename Desc>
dnnl::memory addWeights(const ConvShape &shape, const Desc &desc,
                        KernelBuilder &builder) {
  if (shape.packedBytes == 0)
    return builder.addTensor(shape.weights, shape.weightsOffset);
  demandPacked(desc.weights_desc().get_size(), shape.packedBytes);
  return builder.addTensor(desc.weights_desc(), shape.weightsOffset);
}

/// What describe() makes of each kind, or the library of the shape as it is.
dnnl::convolution_forward::primitive_desc
describeForward(ConvShape &shape, KernelBuilder &builder);
dnnl::convolution_backward_data::primitive_desc
makeBackwardData(const ConvShape &shape, KernelBuilder &builder);
dnnl::convolution_backward_data::primitive_desc
describeBackwardData(ConvShape &shape, KernelBuilder &builder);
dnnl::convolution_backward_weights::primitive_desc
makeBackwardWeights(const ConvShape &shape, KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVLIBRARY_H
