//===- ConvGroupKernels.cpp -----------------------------------------------===//
#include "cpu/ConvGroupKernels.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvTensors.h"
#include "cpu/DepthwiseConvolution.h"
#include "cpu/DepthwiseGradient.h"
#include "cpu/Processor.h"
#include "cpu/SharedAxis.h"

#include <string_view>

using namespace pp::runtime;

/// Sizes for code of our own, where that is faster (measured on Zen 5): where
/// the library has no generated code for these tensors as they lie, but for
/// groups of eight, where its code is not right (Emerald Rapids: three to five
/// times as fast as the product that it has then), and for gradients of weights
/// but those of single channels with up to nine places from bf16 or plain
/// tensors. `make` makes a primitive of the whole kernel.
template <typename Make>
static std::optional<depthwise::Shape>
findWindows(const ConvShape &whole, KernelBuilder::Type weightsType,
            bool isWeightGradient, const Make &make) {
  constexpr int64_t fewPlaces = 9, manyChannels = 8;
  auto sizes = whole.windowsOfChannels(weightsType);
  if (!sizes)
    return std::nullopt;
  const int64_t group = sizes->groupChannels;
  // For AVX2 the library adds up small windows in half the time where channels
  // lie in blocks of 8 (Zen 3).
  const bool isSlow =
      whole.layout != "plain" && (hasAvx512() || whole.layout != "blocked8");
  if (isWeightGradient && ((!sizes->isShort && isSlow) || group > 1 ||
                           countOf(sizes->window) > fewPlaces))
    return sizes;
  if (!whole.isReliable(isWeightGradient))
    return sizes;
  if (!isWeightGradient && group >= manyChannels)
    return std::nullopt;
  // Of several planes, the library's code is for eight channels of a group, of
  // which one is there, or plain loops (Zen 3: three to 24 times as long).
  if (sizes->window[0] > 1)
    return sizes;
  if (whole.hasSlowTypes())
    return sizes;
  try {
    // Not a product for each group either (Emerald Rapids: 64 channels of 56 x
    // 56 in pairs, every second pixel, 2.6 ms for 0.5).
    const auto desc = make();
    const std::string_view name = desc.impl_info_str();
    if (!name.starts_with("ref") && name.find("gemm") == name.npos)
      return std::nullopt;
  } catch (const dnnl::error &error) {
    if (error.status != dnnl_unimplemented)
      throw;
  }
  return sizes;
}

/// Where the library has generated code for AVX2, but rows with all channels of
/// a pixel are too long for it (Zen 3): in gradients of images from planes of
/// more than nine places, which take 1.2 to 1.8 times our time, and of many
/// channels of large images, which take 1.1 to 1.5 times.
static std::optional<depthwise::Shape> findLongRows(const ConvShape &whole,
                                                    ConvDirection direction) {
  const auto sizes = whole.windowsOfChannels(whole.src.data_type());
  if (!sizes || sizes->groupChannels > 1 || sizes->isShort || hasAvx512() ||
      whole.layout != "channels_last")
    return std::nullopt;
  constexpr int64_t fewPlaces = 9, manyChannels = 128, someChannels = 48;
  constexpr int64_t pixelsOf14 = 196, pixelsOf28 = 784, pixelsOf56 = 3136;
  const int64_t places = countOf(sizes->window);
  const int64_t pixels = countOf(sizes->image);
  const bool isLarge = places <= fewPlaces && sizes->channels >= manyChannels &&
                       pixels >= pixelsOf56;
  const bool isOfPlanes = places > fewPlaces && sizes->window[1] > 1 &&
                          sizes->channels >= someChannels &&
                          countOf(sizes->result) >= pixelsOf14 &&
                          sizes->samples * pixels >= pixelsOf28;
  if (isLarge || (isOfPlanes && direction == ConvDirection::Backward))
    return sizes;
  return std::nullopt;
}

std::optional<depthwise::Shape>
pp::runtime::findForwardWindows(Descriptor &descriptor,
                                KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (auto sizes = findLongRows(whole, ConvDirection::Forward))
    return sizes;
  return findWindows(whole, whole.src.data_type(), /*isWeightGradient=*/false,
                     [&] { return whole.forward(builder); });
}

std::optional<depthwise::Shape>
pp::runtime::findBackwardWindows(Descriptor &descriptor,
                                 KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (auto sizes = findLongRows(whole, ConvDirection::Backward))
    return sizes;
  return findWindows(whole, whole.src.data_type(), /*isWeightGradient=*/false,
                     [&] { return makeBackwardData(whole, builder); });
}

std::optional<depthwise::Shape>
pp::runtime::findGradientWindows(const ConvShape &whole,
                                 KernelBuilder &builder) {
  return findWindows(whole, KernelBuilder::Type::f32,
                     /*isWeightGradient=*/true,
                     [&] { return makeBackwardWeights(whole, builder); });
}

static depthwise::Part partOf(const depthwise::Shape &shape, int64_t rows,
                              KernelBuilder &builder) {
  depthwise::Part part{{0, shape.blocks()}, {0, shape.samples}, {0, rows}};
  const SharedAxis axis = findSharedAxis(
      {part.samples.count, part.blocks.count, rows}, shape.isChannelsLast(),
      shape.samples * countOf(shape.result), builder.countParts());
  auto &shared = axis == SharedAxis::Samples    ? part.samples
                 : axis == SharedAxis::Channels ? part.blocks
                                                : part.rows;
  const auto share = builder.share(shared.count);
  shared = {share.begin, share.count};
  return part;
}

void pp::runtime::buildDepthwise(const depthwise::Shape &shape,
                                 ConvDirection direction,
                                 const ConvEpilogue &epilogue,
                                 Descriptor &descriptor,
                                 KernelBuilder &builder) {
  DepthwiseConvolution convolution(shape, direction);
  const ConvShape whole(descriptor, builder, Division::None);
  const auto part = partOf(shape, convolution.countRows(), builder);
  const uint64_t bytes = convolution.getScratchpadBytes();
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [convolution, epilogue, part](void *const *tensors, void *scratchpad) {
        const auto *bias =
            static_cast<const float *>(epilogue.hasBias ? tensors[2] : nullptr);
        convolution.run(tensors[0], tensors[1], bias, epilogue,
                        tensors[epilogue.hasBias ? 3 : 2], part, scratchpad);
      },
      bytes);
}

void pp::runtime::buildDepthwiseGradient(const depthwise::Shape &shape,
                                         const ConvShape &whole,
                                         KernelBuilder &builder) {
  DepthwiseGradient gradient(shape, whole.isAdded);
  const auto share = builder.share(shape.blocks());
  const uint64_t bytes = gradient.getScratchpadBytes();
  builder.setFunction(
      describeGradientTensors(whole),
      [gradient, share](void *const *tensors, void *scratchpad) {
        gradient.run(tensors[0], tensors[1], static_cast<float *>(tensors[2]),
                     share.begin, share.count, scratchpad);
      },
      bytes);
}
