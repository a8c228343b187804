//===- ConvKernels.cpp - `conv_forward`, `conv_backward_data` -------------===//
#include "cpu/ConvGroupKernels.h"
#include "cpu/ConvInputPieces.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvOwnKernels.h"
#include "cpu/ConvPixelProduct.h"
#include "cpu/GroupConvolution.h"
#include "cpu/PackedWeights.h"
#include "cpu/PlaneProduct.h"
#include "cpu/SignalConvolution.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

using namespace pp::runtime;

using dnnl::convolution_backward_data;
using dnnl::convolution_forward;

using Direction = ConvDirection;

/// `residual` describes what is added.
static dnnl::primitive_attr
attributesOf(const ConvEpilogue &epilogue,
             const KernelBuilder::MemoryDesc &residual) {
  // A copy of the builder's would be the same object.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  if (epilogue.hasResidual)
    operations.append_binary(dnnl::algorithm::binary_add, residual);
  if (epilogue.activation == ConvEpilogue::Relu)
    operations.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  else if (epilogue.activation == ConvEpilogue::Clip)
    operations.append_eltwise(1, dnnl::algorithm::eltwise_clip, epilogue.low,
                              epilogue.high);
  attributes.set_post_ops(operations);
  return attributes;
}

namespace {
/// A forward convolution and what follows it. All have the layouts that the
/// convolution alone would have, as which weights are packed.
struct ConvForward {
  using Desc = convolution_forward::primitive_desc;
  Desc plain; ///< with the bias
  /// And with the residual and the activation; empty where the library does not
  /// have these, or there are none.
  std::optional<Desc> fused;
  /// Whether these follow pixels that are still in a cache.
  bool isFinishedInCache = false;
  bool isAsFast = true; ///< whether what is used is the code of the convolution

  ConvForward(ConvShape &shape, const ConvEpilogue &epilogue,
              KernelBuilder &builder);
};
} // namespace

ConvForward::ConvForward(ConvShape &shape, const ConvEpilogue &epilogue,
                         KernelBuilder &builder)
    : plain(describeForward(shape, builder)) {
  if (epilogue.isEmpty())
    return;
  if (epilogue.activation != ConvEpilogue::None &&
      shape.dst.data_type() != KernelBuilder::Type::f32)
    throw DescriptorError("activation: only of f32");
  const std::string code = plain.impl_info_str();
  KernelBuilder::MemoryDesc bias;
  if (epilogue.hasBias)
    bias = KernelBuilder::dense({shape.outputChannels});
  auto make = [&](const dnnl::primitive_attr &attributes) -> Desc {
    return {{dnnl::prop_kind::forward_training, shape.algorithm,
             plain.src_desc(), plain.weights_desc(), bias, plain.dst_desc(),
             shape.strides, shape.dilations, shape.padLow, shape.padHigh},
            attributes,
            builder.getEngine()};
  };
  if (epilogue.hasBias) {
    plain = make(builder.getAttributes());
    if (!shape.isReliable(/*isWeightGradient=*/false))
      demandPlainCode(plain);
  }
  isAsFast = plain.impl_info_str() == code;
  if (epilogue.isBiasAlone())
    return;
  const bool isSameCode = isAsFast;
  isAsFast = false;
  // oneDNN 2.6's plain code finds the residual where a plain tensor has it.
  if (!shape.isReliable(/*isWeightGradient=*/false) ||
      (epilogue.hasResidual && isPlainCode(plain)))
    return;
  try {
    Desc desc = make(attributesOf(epilogue, plain.dst_desc()));
    if (desc.impl_info_str() == code)
      fused = desc;
  } catch (const dnnl::error &error) {
    if (error.status != dnnl_unimplemented)
      throw;
  }
  isFinishedInCache = !fused && epilogue.hasResidual && shape.isPointwise() &&
                      shape.dst == plain.dst_desc();
  isAsFast = fused || (isFinishedInCache && isSameCode);
}

namespace {
/// The source as the primitive reads it, the others as they are.
struct ForwardTensors {
  dnnl::memory src, weights, bias, residual, dst;
};
} // namespace

static void addForward(const ConvForward &forward, const ConvEpilogue &epilogue,
                       const ForwardTensors &tensors, KernelBuilder &builder) {
  const ConvForward::Desc &desc = forward.plain;
  auto weightsInside = readAs(builder, tensors.weights, desc.weights_desc());
  auto dstInside = writeAs(builder, tensors.dst, desc.dst_desc());
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC, tensors.src},
      {DNNL_ARG_WEIGHTS, weightsInside},
      {DNNL_ARG_DST, dstInside}};
  if (epilogue.hasBias)
    arguments.push_back({DNNL_ARG_BIAS, tensors.bias});
  dnnl::memory residual;
  if (epilogue.hasResidual)
    residual = readAs(builder, tensors.residual, desc.dst_desc());
  const bool hidesNaN = epilogue.activation != ConvEpilogue::None;
  const bool isFused =
      forward.fused && (!hidesNaN || KernelBuilder::canGuard());
  if (isFused) {
    auto all = arguments;
    if (epilogue.hasResidual)
      all.push_back(
          {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, residual});
    builder.addPrimitive(convolution_forward(*forward.fused),
                         forward.fused->scratchpad_desc(), all);
    if (hidesNaN)
      builder.guardNext(2);
  }
  if (!isFused || hidesNaN)
    builder.addPrimitive(convolution_forward(desc), desc.scratchpad_desc(),
                         arguments);
  if (hidesNaN || (epilogue.hasResidual && !isFused))
    // Dense in any layout; a part has memory of its own.
    builder.addWork([epilogue, residual, dstInside] {
      auto *numbers = static_cast<float *>(dstInside.get_data_handle());
      const uint64_t count = dstInside.get_desc().get_size() / sizeof(float);
      const void *from = residual ? residual.get_data_handle() : nullptr;
      epilogue.finish(numbers, {nullptr, static_cast<const float *>(from)},
                      count);
    });
  writeBack(builder, dstInside, tensors.dst);
}

/// How many outputs are computed at once. For one image of a few hundred
/// pixels, oneDNN 2.6 adds up many channels of a window of one place in another
/// order where there are more outputs, so that parts of them would have other
/// bits; so few are also as fast (measured on Cascade Lake).
static int64_t countOutputsAtOnce(const ConvShape &shape, int64_t samples) {
  constexpr int64_t most = 256, manyInputs = 512;
  constexpr int64_t fewPixels = 49, manyPixels = 784;
  auto countPlaces = [](const KernelBuilder::MemoryDesc &desc) {
    const KernelBuilder::Dims dims = desc.dims();
    return std::accumulate(dims.begin() + 2, dims.end(), int64_t(1),
                           std::multiplies<>());
  };
  const int64_t pixels = countPlaces(shape.dst);
  const bool isOther = samples == 1 && shape.groups == 1 &&
                       countPlaces(shape.weights) == 1 &&
                       shape.layout.starts_with("blocked") &&
                       shape.src.data_type() == KernelBuilder::Type::f32 &&
                       shape.src.dims()[1] >= manyInputs &&
                       pixels > fewPixels && pixels < manyPixels;
  return isOther ? most : shape.outputChannels;
}

/// How many pixels are computed at once, and finished while a cache has them:
/// at least as many bytes as the weights are, which each time reads.
static int64_t countPixelsAtOnce(const ConvShape &shape,
                                 const ConvForward &forward) {
  constexpr uint64_t fewest = 256 << 10; // bytes
  const uint64_t bytes =
      std::max(fewest, uint64_t(forward.plain.weights_desc().get_size()));
  const int64_t pixels = shape.countPixels();
  const uint64_t times = (shape.dst.get_size() + bytes - 1) / bytes;
  return (pixels + times - 1) / times;
}

namespace {
/// Some outputs of a convolution, or some pixels. Offsets are from its tensors.
struct ConvPiece {
  ConvShape shape;
  ConvForward forward;
};
} // namespace

/// The pieces that are computed one after the other; none where it is one.
static std::vector<ConvPiece> takeApart(const ConvShape &shape,
                                        const ConvForward &forward,
                                        const ConvEpilogue &epilogue,
                                        int64_t samples,
                                        KernelBuilder &builder) {
  const bool arePixels = forward.isFinishedInCache;
  const int64_t all = arePixels ? shape.countPixels() : shape.outputChannels;
  const int64_t most = arePixels ? countPixelsAtOnce(shape, forward)
                                 : countOutputsAtOnce(shape, samples);
  std::vector<ConvPiece> pieces;
  for (int64_t begin = 0; most < all && begin < all; begin += most) {
    const KernelBuilder::Range range{begin, std::min(most, all - begin)};
    ConvShape some = shape;
    some.srcOffset = some.weightsOffset = some.biasOffset = some.dstOffset = 0;
    if (arePixels)
      some.takePixels(range);
    else
      some.takeOutputs(range);
    const ConvForward own(some, epilogue, builder);
    // All pixels read the same weights.
    if (arePixels && own.plain.weights_desc() != forward.plain.weights_desc())
      return {};
    pieces.push_back({some, own});
  }
  return pieces;
}

/// Whether it is computed along a signal; pairs of bf16 are faster where there
/// are any.
static bool isOfSignals(Descriptor &descriptor, KernelBuilder &builder,
                        Direction direction) {
  return SignalConvolution::isPreferred(
             ConvShape(descriptor, builder, Division::None), direction) &&
         !isInMatrixTiles(descriptor, builder, direction) &&
         !(direction == Direction::Forward &&
           isForwardInPairs(descriptor, builder));
}

/// Whether it is a product of planes, and no other.
static bool isOfPlanes(Descriptor &descriptor, KernelBuilder &builder,
                       Direction direction) {
  return isPlaneProduct(ConvShape(descriptor, builder, Division::None),
                        direction) &&
         !isPixelProduct(descriptor, builder, direction) &&
         !packsForPixelProduct(descriptor, builder, direction);
}

void pp::runtime::buildConvForward(Descriptor &descriptor,
                                   KernelBuilder &builder) {
  const ConvEpilogue epilogue(descriptor);
  const ConvShape whole(descriptor, builder, Division::None);
  if (GroupConvolution::isPreferred(whole, Direction::Forward))
    return buildGroupConvolution(whole, Direction::Forward, epilogue, builder);
  if (auto windows = findForwardWindows(descriptor, builder);
      windows && !epilogue.hasResidual)
    return buildDepthwise(*windows, Direction::Forward, epilogue, descriptor,
                          builder);
  if (isOfSignals(descriptor, builder, Direction::Forward))
    return buildSignalConvolution(
        ConvShape(descriptor, builder, Division::None), Direction::Forward,
        epilogue, builder);
  if (isOfPlanes(descriptor, builder, Direction::Forward))
    return buildPlaneProduct(whole, Direction::Forward, epilogue, builder);
  const bool isInOwnTiles = isInTiles(descriptor, builder, Direction::Forward);
  const bool isInPairs = isForwardInPairs(descriptor, builder);
  const bool isOfMatrices =
      isInMatrixTiles(descriptor, builder, Direction::Forward);
  Division division = Division::SamplesOrOutputs;
  if (isInOwnTiles)
    division =
        divisionOfTiles(descriptor, builder, Direction::Forward, division);
  const bool isProduct =
      isPixelProduct(descriptor, builder, Direction::Forward);
  if (isProduct)
    division = Division::None;
  ConvShape shape(descriptor, builder, division);
  const int64_t samples = descriptor.getDims("src")[0];
  if (epilogue.hasResidual && shape.dst.data_type() != KernelBuilder::Type::f32)
    throw DescriptorError("residual: only of f32");
  if (isInOwnTiles)
    return buildTiles(shape, Direction::Forward, epilogue, builder);
  if (isInPairs)
    return buildPairs(shape, epilogue, builder);
  if (isOfMatrices)
    return buildMatrixTiles(shape, Direction::Forward, epilogue, builder);
  if (isProduct)
    return buildPixelProduct(shape, Direction::Forward, epilogue, builder);
  ConvForward forward(shape, epilogue, builder);
  const ConvForward::Desc &desc = forward.plain;
  demandEqualParts(shape, desc);
  demandShownBits(shape, builder);
  ForwardTensors all;
  all.src = readAs(builder, builder.addTensor(shape.src, shape.srcOffset),
                   desc.src_desc());
  all.weights = addWeights(shape, desc, builder);
  if (epilogue.hasBias)
    all.bias = builder.addTensor(desc.bias_desc(), shape.biasOffset);
  if (epilogue.hasResidual)
    all.residual = builder.addTensor(shape.dst, shape.dstOffset);
  all.dst = builder.addResult(shape.dst, shape.dstOffset);
  const std::vector<ConvPiece> pieces =
      takeApart(shape, forward, epilogue, samples, builder);
  if (pieces.empty())
    return addForward(forward, epilogue, all, builder);
  const bool arePixels = forward.isFinishedInCache;
  if (arePixels)
    all.weights = readAs(builder, all.weights, desc.weights_desc());
  for (const auto &[some, own] : pieces) {
    ForwardTensors part;
    part.src = arePixels ? builder.addView(all.src, some.src, some.srcOffset)
                         : readAs(builder, all.src, own.plain.src_desc());
    const bool areAsTheyAre = !arePixels && some.packedBytes == 0;
    part.weights = builder.addView(
        all.weights, areAsTheyAre ? some.weights : own.plain.weights_desc(),
        some.weightsOffset);
    if (epilogue.hasBias)
      part.bias =
          builder.addView(all.bias, own.plain.bias_desc(), some.biasOffset);
    if (epilogue.hasResidual)
      part.residual = builder.addView(all.residual, some.dst, some.dstOffset);
    part.dst = builder.addView(all.dst, some.dst, some.dstOffset);
    addForward(own, epilogue, part, builder);
  }
}

bool pp::runtime::isConvFused(Descriptor &descriptor, KernelBuilder &builder) {
  ConvEpilogue epilogue(descriptor);
  if (GroupConvolution::isPreferred(
          ConvShape(descriptor, builder, Division::None), Direction::Forward))
    return true;
  if (findForwardWindows(descriptor, builder))
    return !epilogue.hasResidual;
  if (isOfSignals(descriptor, builder, Direction::Forward) ||
      isInTiles(descriptor, builder, Direction::Forward) ||
      isForwardInPairs(descriptor, builder) ||
      isInMatrixTiles(descriptor, builder, Direction::Forward) ||
      isPixelProduct(descriptor, builder, Direction::Forward) ||
      isOfPlanes(descriptor, builder, Direction::Forward))
    return true;
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  return ConvForward(shape, epilogue, builder).isAsFast;
}

void pp::runtime::buildConvBackwardData(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  const ConvShape given(descriptor, builder, Division::None);
  if (GroupConvolution::isPreferred(given, Direction::Backward))
    return buildGroupConvolution(given, Direction::Backward, {}, builder);
  if (auto windows = findBackwardWindows(descriptor, builder))
    return buildDepthwise(*windows, Direction::Backward, {}, descriptor,
                          builder);
  if (isOfSignals(descriptor, builder, Direction::Backward))
    return buildSignalConvolution(
        ConvShape(descriptor, builder, Division::None), Direction::Backward, {},
        builder);
  if (isOfPlanes(descriptor, builder, Direction::Backward))
    return buildPlaneProduct(given, Direction::Backward, {}, builder);
  bool isInOwnTiles = isInTiles(descriptor, builder, Direction::Backward);
  bool isOfMatrices = isInMatrixTiles(descriptor, builder, Direction::Backward);
  if (isPixelProduct(descriptor, builder, Direction::Backward))
    return buildPixelProduct(ConvShape(descriptor, builder, Division::None),
                             Direction::Backward, {}, builder);
  Division division = Division::Samples;
  if (isInOwnTiles)
    division =
        divisionOfTiles(descriptor, builder, Direction::Backward, division);
  if (!isInOwnTiles && !isOfMatrices) {
    const ConvShape whole(descriptor, builder, Division::None);
    if (const auto pieces = findInputPieces(whole, builder); !pieces.empty())
      return buildInputPieces(whole, pieces, builder);
  }
  ConvShape shape(descriptor, builder, division);
  if (isInOwnTiles)
    return buildTiles(shape, Direction::Backward, {}, builder);
  if (isOfMatrices)
    return buildMatrixTiles(shape, Direction::Backward, {}, builder);
  auto desc = describeBackwardData(shape, builder);
  demandEqualParts(shape, desc);
  demandShownBits(shape, builder);
  auto diffDst = builder.addTensor(shape.dst, shape.dstOffset);
  auto weights = addWeights(shape, desc, builder);
  auto diffSrc = builder.addResult(shape.src, shape.srcOffset);
  auto diffDstInside = readAs(builder, diffDst, desc.diff_dst_desc());
  auto weightsInside = readAs(builder, weights, desc.weights_desc());
  auto diffSrcInside = writeAs(builder, diffSrc, desc.diff_src_desc());
  builder.addPrimitive(convolution_backward_data(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_DIFF_DST, diffDstInside},
                        {DNNL_ARG_WEIGHTS, weightsInside},
                        {DNNL_ARG_DIFF_SRC, diffSrcInside}});
  writeBack(builder, diffSrcInside, diffSrc);
}

void pp::runtime::buildPackConvForward(Descriptor &descriptor,
                                       KernelBuilder &builder) {
  if (!ConvEpilogue(descriptor).isEmpty())
    throw DescriptorError("bias: weights are packed for none");
  const ConvShape whole(descriptor, builder, Division::None);
  if (GroupConvolution::isPreferred(whole, Direction::Forward))
    return buildPackGroups(whole, Direction::Forward, builder);
  if (isInTiles(descriptor, builder, Direction::Forward))
    return buildPackTiles(ConvShape(descriptor, builder, Division::None),
                          Direction::Forward, builder);
  // Outputs lie after outputs.
  const bool isInPairs = isForwardInPairs(descriptor, builder);
  const bool isOfMatrices =
      isInMatrixTiles(descriptor, builder, Direction::Forward);
  if (isPixelProduct(descriptor, builder, Direction::Forward))
    return buildPackPixelProduct(ConvShape(descriptor, builder, Division::None),
                                 Direction::Forward, builder);
  ConvShape shape(descriptor, builder, Division::Outputs);
  if (isInPairs)
    return buildPackPairs(shape, builder);
  if (isOfMatrices)
    return buildPackMatrixTiles(shape, Direction::Forward, builder);
  auto desc = describeForward(shape, builder);
  buildPack(shape.weights, desc.weights_desc(), shape.packedBytes, builder,
            shape.plainWeightsOffset, shape.weightsOffset);
}

void pp::runtime::buildPackConvBackwardData(Descriptor &descriptor,
                                            KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (GroupConvolution::isPreferred(whole, Direction::Backward))
    return buildPackGroups(whole, Direction::Backward, builder);
  if (isInTiles(descriptor, builder, Direction::Backward))
    return buildPackTiles(ConvShape(descriptor, builder, Division::None),
                          Direction::Backward, builder);
  if (isInMatrixTiles(descriptor, builder, Direction::Backward))
    return buildPackMatrixTiles(ConvShape(descriptor, builder, Division::None),
                                Direction::Backward, builder);
  ConvShape shape(descriptor, builder, Division::None);
  if (isPixelProduct(descriptor, builder, Direction::Backward))
    return buildPackPixelProduct(shape, Direction::Backward, builder);
  if (const auto pieces = findInputPieces(shape, builder); !pieces.empty())
    return buildPackInputPieces(shape, pieces, builder);
  auto desc = describeBackwardData(shape, builder);
  buildPack(shape.weights, desc.weights_desc(), shape.packedBytes, builder);
}

uint64_t pp::runtime::measurePackedConvForward(Descriptor &descriptor,
                                               KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (GroupConvolution::isPreferred(whole, Direction::Forward))
    return GroupConvolution(whole, Direction::Forward).getPackedBytes();
  if (findForwardWindows(descriptor, builder) ||
      isOfSignals(descriptor, builder, Direction::Forward) ||
      isOfPlanes(descriptor, builder, Direction::Forward))
    return 0;
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  if (isInTiles(descriptor, builder, Direction::Forward))
    return WinogradConvolution::getWeightBytes(
        *shape.inTiles(Direction::Forward));
  if (isForwardInPairs(descriptor, builder))
    return PairConvolution::getWeightBytes(*shape.forwardPairs());
  if (isInMatrixTiles(descriptor, builder, Direction::Forward))
    return makeMatrixTiles(shape, Direction::Forward).getWeightBytes();
  if (packsForPixelProduct(descriptor, builder, Direction::Forward))
    return measurePackedPixelProduct(
        ConvShape(descriptor, builder, Division::None), Direction::Forward);
  auto desc = describeForward(shape, builder);
  return measurePacked(shape.weights, desc.weights_desc());
}

uint64_t pp::runtime::measurePackedConvBackwardData(Descriptor &descriptor,
                                                    KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (GroupConvolution::isPreferred(whole, Direction::Backward))
    return GroupConvolution(whole, Direction::Backward).getPackedBytes();
  if (findBackwardWindows(descriptor, builder) ||
      isOfSignals(descriptor, builder, Direction::Backward) ||
      isOfPlanes(descriptor, builder, Direction::Backward))
    return 0;
  ConvShape shape(descriptor, builder, Division::None);
  if (isInTiles(descriptor, builder, Direction::Backward))
    return WinogradConvolution::getWeightBytes(
        *shape.inTiles(Direction::Backward));
  if (isInMatrixTiles(descriptor, builder, Direction::Backward))
    return makeMatrixTiles(shape, Direction::Backward).getWeightBytes();
  if (packsForPixelProduct(descriptor, builder, Direction::Backward))
    return measurePackedPixelProduct(shape, Direction::Backward);
  if (const auto pieces = findInputPieces(shape, builder); !pieces.empty())
    return measurePackedInputPieces(pieces);
  auto desc = describeBackwardData(shape, builder);
  return measurePacked(shape.weights, desc.weights_desc());
}
