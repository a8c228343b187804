//===- ConvKernels.cpp - `conv_forward`, `conv_backward_data` -------------===//
#include "cpu/ConvGroupKernels.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvOwnKernels.h"
#include "cpu/PackedWeights.h"

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

static dnnl::primitive_attr attributesOf(const ConvEpilogue &epilogue) {
  // A copy of the builder's would be the same object.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
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
  /// And with the activation; empty where the library does not have that.
  std::optional<Desc> fused;
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
  if (epilogue.activation == ConvEpilogue::None)
    return;
  isAsFast = false;
  if (!shape.isReliable(/*isWeightGradient=*/false))
    return;
  try {
    Desc desc = make(attributesOf(epilogue));
    if (desc.impl_info_str() != code)
      return;
    fused = desc;
    isAsFast = true;
  } catch (const dnnl::error &error) {
    if (error.status != dnnl_unimplemented)
      throw;
  }
}

namespace {
/// The source as the primitive reads it, the others as they are.
struct ForwardTensors {
  dnnl::memory src, weights, bias, dst;
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
  if (forward.fused && KernelBuilder::canGuard()) {
    builder.addPrimitive(convolution_forward(*forward.fused),
                         forward.fused->scratchpad_desc(), arguments);
    builder.guardNext(2);
  }
  builder.addPrimitive(convolution_forward(desc), desc.scratchpad_desc(),
                       arguments);
  if (epilogue.activation != ConvEpilogue::None)
    // Dense in any layout; a part has memory of its own.
    builder.addWork([epilogue, dstInside] {
      epilogue.apply(static_cast<float *>(dstInside.get_data_handle()),
                     dstInside.get_desc().get_size() / sizeof(float));
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

void pp::runtime::buildConvForward(Descriptor &descriptor,
                                   KernelBuilder &builder) {
  if (auto windows = findForwardWindows(descriptor, builder))
    return buildDepthwise(*windows, Direction::Forward,
                          ConvEpilogue(descriptor), descriptor, builder);
  const bool isInOwnTiles = isInTiles(descriptor, builder, Direction::Forward);
  const bool isInPairs = isForwardInPairs(descriptor, builder);
  const bool isOfMatrices =
      isInMatrixTiles(descriptor, builder, Direction::Forward);
  Division division = Division::SamplesOrOutputs;
  if (isInOwnTiles)
    division =
        divisionOfTiles(descriptor, builder, Direction::Forward, division);
  ConvShape shape(descriptor, builder, division);
  const int64_t samples = descriptor.getDims("src")[0];
  ConvEpilogue epilogue(descriptor);
  if (isInOwnTiles)
    return buildTiles(shape, Direction::Forward, epilogue, builder);
  if (isInPairs)
    return buildPairs(shape, epilogue, builder);
  if (isOfMatrices)
    return buildMatrixTiles(shape, Direction::Forward, epilogue, builder);
  ConvForward forward(shape, epilogue, builder);
  const ConvForward::Desc &desc = forward.plain;
  demandEqualParts(shape, desc);
  ForwardTensors all;
  all.src = readAs(builder, builder.addTensor(shape.src, shape.srcOffset),
                   desc.src_desc());
  all.weights = addWeights(shape, desc, builder);
  if (epilogue.hasBias)
    all.bias = builder.addTensor(desc.bias_desc(), shape.biasOffset);
  all.dst = builder.addResult(shape.dst, shape.dstOffset);
  const int64_t outputs = shape.outputChannels;
  const int64_t most = countOutputsAtOnce(shape, samples);
  if (most >= outputs)
    return addForward(forward, epilogue, all, builder);
  for (int64_t begin = 0; begin < outputs; begin += most) {
    ConvShape some = shape;
    some.takeOutputs({begin, std::min(most, outputs - begin)});
    const ConvForward ofSome(some, epilogue, builder);
    const ConvForward::Desc &own = ofSome.plain;
    ForwardTensors part;
    part.src = readAs(builder, all.src, own.src_desc());
    part.weights = builder.addView(
        all.weights, some.packedBytes ? own.weights_desc() : some.weights,
        some.weightsOffset);
    if (epilogue.hasBias)
      part.bias = builder.addView(all.bias, own.bias_desc(), some.biasOffset);
    part.dst = builder.addView(all.dst, some.dst, some.dstOffset);
    addForward(ofSome, epilogue, part, builder);
  }
}

bool pp::runtime::isConvFused(Descriptor &descriptor, KernelBuilder &builder) {
  ConvEpilogue epilogue(descriptor);
  if (findForwardWindows(descriptor, builder) ||
      isInTiles(descriptor, builder, Direction::Forward) ||
      isForwardInPairs(descriptor, builder) ||
      isInMatrixTiles(descriptor, builder, Direction::Forward))
    return true;
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  return ConvForward(shape, epilogue, builder).isAsFast;
}

void pp::runtime::buildConvBackwardData(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  if (auto windows = findBackwardWindows(descriptor, builder))
    return buildDepthwise(*windows, Direction::Backward, {}, descriptor,
                          builder);
  bool isInOwnTiles = isInTiles(descriptor, builder, Direction::Backward);
  bool isOfMatrices = isInMatrixTiles(descriptor, builder, Direction::Backward);
  Division division = Division::Samples;
  if (isInOwnTiles)
    division =
        divisionOfTiles(descriptor, builder, Direction::Backward, division);
  ConvShape shape(descriptor, builder, division);
  if (isInOwnTiles)
    return buildTiles(shape, Direction::Backward, {}, builder);
  if (isOfMatrices)
    return buildMatrixTiles(shape, Direction::Backward, {}, builder);
  auto desc = describeBackwardData(shape, builder);
  demandEqualParts(shape, desc);
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
  if (isInTiles(descriptor, builder, Direction::Forward))
    return buildPackTiles(ConvShape(descriptor, builder, Division::None),
                          Direction::Forward, builder);
  // Outputs lie after outputs.
  const bool isInPairs = isForwardInPairs(descriptor, builder);
  const bool isOfMatrices =
      isInMatrixTiles(descriptor, builder, Direction::Forward);
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
  if (isInTiles(descriptor, builder, Direction::Backward))
    return buildPackTiles(ConvShape(descriptor, builder, Division::None),
                          Direction::Backward, builder);
  if (isInMatrixTiles(descriptor, builder, Direction::Backward))
    return buildPackMatrixTiles(ConvShape(descriptor, builder, Division::None),
                                Direction::Backward, builder);
  ConvShape shape(descriptor, builder, Division::None);
  auto desc = describeBackwardData(shape, builder);
  buildPack(shape.weights, desc.weights_desc(), shape.packedBytes, builder);
}

uint64_t pp::runtime::measurePackedConvForward(Descriptor &descriptor,
                                               KernelBuilder &builder) {
  if (findForwardWindows(descriptor, builder))
    return 0;
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  if (isInTiles(descriptor, builder, Direction::Forward))
    return WinogradConvolution::getWeightBytes(
        *shape.inTiles(Direction::Forward));
  if (isForwardInPairs(descriptor, builder))
    return PairConvolution::getWeightBytes(*shape.forwardPairs());
  if (isInMatrixTiles(descriptor, builder, Direction::Forward))
    return makeMatrixTiles(shape, Direction::Forward).getWeightBytes();
  auto desc = describeForward(shape, builder);
  return measurePacked(shape.weights, desc.weights_desc());
}

uint64_t pp::runtime::measurePackedConvBackwardData(Descriptor &descriptor,
                                                    KernelBuilder &builder) {
  if (findBackwardWindows(descriptor, builder))
    return 0;
  ConvShape shape(descriptor, builder, Division::Samples);
  if (isInTiles(descriptor, builder, Direction::Backward))
    return WinogradConvolution::getWeightBytes(
        *shape.inTiles(Direction::Backward));
  if (isInMatrixTiles(descriptor, builder, Direction::Backward))
    return makeMatrixTiles(shape, Direction::Backward).getWeightBytes();
  auto desc = describeBackwardData(shape, builder);
  return measurePacked(shape.weights, desc.weights_desc());
}
