//===- ConvInputPieces.cpp ------------------------------------------------===//
#include "cpu/ConvInputPieces.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvTensors.h"

#include <algorithm>

using namespace pp::runtime;

using Pieces = std::vector<ConvInputPiece>;
using MemoryDesc = KernelBuilder::MemoryDesc;
using Range = KernelBuilder::Range;
using Type = KernelBuilder::Type;

/// As many as two and four threads share evenly.
static int64_t countPieces(const ConvShape &whole) {
  // Of one block each, products of single places are slower.
  const int64_t channels = whole.src.dims()[1], block = whole.channelBlock();
  const int64_t places = KernelBuilder::elementCount(whole.weights.dims()) /
                         (channels * whole.outputChannels);
  if (channels >= 8 * block)
    return 4;
  return channels >= (places == 1 ? 4 : 2) * block ? 2 : 1;
}

static bool isInPieces(const ConvShape &whole) {
  // Products that a core does in 20 us.
  constexpr int64_t leastWork = 1 << 20;
  const auto isFloat = [](const MemoryDesc &desc) {
    return desc.data_type() == Type::f32;
  };
  return whole.isOfOneImage() && whole.groups == 1 && isFloat(whole.src) &&
         isFloat(whole.weights) && isFloat(whole.dst) &&
         whole.algorithm == dnnl::algorithm::convolution_direct &&
         whole.tileEdge == 0 &&
         KernelBuilder::elementCount(whole.weights.dims()) *
                 whole.countPixels() >=
             leastWork &&
         whole.isReliable(/*isWeightGradient=*/false);
}

Pieces pp::runtime::findInputPieces(const ConvShape &whole,
                                    KernelBuilder &builder) {
  if (!isInPieces(whole))
    return {};
  const int64_t channels = whole.src.dims()[1], block = whole.channelBlock();
  const int64_t blocks = (channels + block - 1) / block;
  const int64_t count = countPieces(whole);
  Pieces pieces;
  uint64_t bytes = 0;
  for (int64_t i = 0; count > 1 && i < count; ++i) {
    const int64_t begin = blocks * i / count * block;
    const int64_t end = std::min(blocks * (i + 1) / count * block, channels);
    ConvShape shape = whole;
    shape.takeInputs({begin, end - begin});
    auto desc = describeBackwardData(shape, builder);
    if (isPlainCode(desc))
      return {};
    pieces.push_back({shape, desc, bytes});
    bytes += desc.weights_desc().get_size();
  }
  const auto sameDst = [&](const ConvInputPiece &piece) {
    return piece.desc.diff_dst_desc() == pieces.front().desc.diff_dst_desc();
  };
  return std::all_of(pieces.begin(), pieces.end(), sameDst) ? pieces : Pieces();
}

/// The bytes of all packed weights.
static uint64_t sumOfWeights(const Pieces &pieces) {
  return pieces.back().packedOffset +
         pieces.back().desc.weights_desc().get_size();
}

uint64_t pp::runtime::measurePackedInputPieces(const Pieces &pieces) {
  const auto gains = [](const ConvInputPiece &piece) {
    return measurePacked(piece.shape.weights, piece.desc.weights_desc()) != 0;
  };
  const uint64_t bytes = sumOfWeights(pieces);
  return std::all_of(pieces.begin(), pieces.end(), gains) && bytes <= INT32_MAX
             ? bytes
             : 0;
}

/// The pieces of a part; none where there are more parts than pieces.
static Range sharePieces(const Pieces &pieces, KernelBuilder &builder) {
  const int64_t count = pieces.size();
  if (builder.isWhole())
    return {0, count};
  const Range share =
      builder.share(std::max<int64_t>(count, builder.countParts()));
  const int64_t begin = std::min(share.begin, count);
  return {begin, std::min(share.begin + share.count, count) - begin};
}

static MemoryDesc packedWeights(const ConvShape &whole, const Pieces &pieces) {
  const uint64_t bytes = sumOfWeights(pieces);
  demandPacked(bytes, whole.packedBytes);
  return numbersIn(bytes);
}

void pp::runtime::buildPackInputPieces(const ConvShape &whole,
                                       const Pieces &pieces,
                                       KernelBuilder &builder) {
  if (whole.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  auto from = builder.addTensor(whole.weights);
  auto to = builder.addResult(packedWeights(whole, pieces));
  const Range share = sharePieces(pieces, builder);
  for (int64_t i = share.begin; i < share.begin + share.count; ++i) {
    const auto &[shape, gradient, packedOffset] = pieces[i];
    const MemoryDesc packed = gradient.weights_desc();
    dnnl::reorder::primitive_desc desc(builder.getEngine(), shape.weights,
                                       builder.getEngine(), packed,
                                       builder.getAttributes());
    builder.addPrimitive(
        dnnl::reorder(desc), desc.scratchpad_desc(),
        {{DNNL_ARG_FROM,
          builder.addView(from, shape.weights, shape.plainWeightsOffset)},
         {DNNL_ARG_TO, builder.addView(to, packed, packedOffset)}});
  }
}

void pp::runtime::buildInputPieces(const ConvShape &whole, const Pieces &pieces,
                                   KernelBuilder &builder) {
  const bool isPacked = whole.packedBytes != 0;
  auto diffDst = builder.addTensor(whole.dst);
  auto weights = builder.addTensor(isPacked ? packedWeights(whole, pieces)
                                            : whole.weights);
  auto diffSrc = builder.addResult(whole.src);
  const Range share = sharePieces(pieces, builder);
  if (share.count == 0)
    return;
  auto diffDstInside =
      readAs(builder, diffDst, pieces.front().desc.diff_dst_desc());
  for (int64_t i = share.begin; i < share.begin + share.count; ++i) {
    const auto &[shape, desc, packedOffset] = pieces[i];
    auto own =
        isPacked
            ? builder.addView(weights, desc.weights_desc(), packedOffset)
            : builder.addView(weights, shape.weights, shape.plainWeightsOffset);
    auto part = builder.addView(diffSrc, shape.src, shape.srcOffset);
    auto ownInside = readAs(builder, own, desc.weights_desc());
    auto partInside = writeAs(builder, part, desc.diff_src_desc());
    builder.addPrimitive(dnnl::convolution_backward_data(desc),
                         desc.scratchpad_desc(),
                         {{DNNL_ARG_DIFF_DST, diffDstInside},
                          {DNNL_ARG_WEIGHTS, ownInside},
                          {DNNL_ARG_DIFF_SRC, partInside}});
    writeBack(builder, partInside, part);
  }
}
