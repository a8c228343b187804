//===- ConvOwnKernels.cpp -------------------------------------------------===//
#include "cpu/ConvOwnKernels.h"
#include "cpu/ConvTensors.h"
#include "cpu/PackedWeights.h"

#include <array>

using namespace pp::runtime;

using Direction = ConvDirection;

//===----------------------------------------------------------------------===//
// Winograd's algorithm in tiles of our own
//===----------------------------------------------------------------------===//

bool pp::runtime::isInTiles(Descriptor &descriptor, KernelBuilder &builder,
                            Direction direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  auto shape = whole.inTiles(direction);
  return shape && WinogradConvolution::isPossible(*shape);
}

Division pp::runtime::divisionOfTiles(Descriptor &descriptor,
                                      KernelBuilder &builder,
                                      Direction direction, Division other) {
  const ConvShape whole(descriptor, builder, Division::None);
  const int64_t parts = builder.countParts();
  const auto shape = whole.inTiles(direction);
  // Parts of outputs would transform the same tiles, parts of tiles the same
  // weights if those are not packed, and read all of them for few. And no part
  // of tiles may copy the image.
  constexpr int64_t fewest = 12;
  const bool areReady = whole.packedBytes != 0 || other == Division::Samples ||
                        shape->outputs * parts <= shape->tiles();
  const bool areShared =
      areReady && shape->samples < parts && shape->tiles() >= fewest * parts &&
      withLanes(whole.src) == whole.src && withLanes(whole.dst) == whole.dst;
  return areShared ? Division::None : other;
}

void pp::runtime::buildTiles(const ConvShape &of, Direction direction,
                             const ConvEpilogue &epilogue,
                             KernelBuilder &builder) {
  WinogradConvolution::Shape shape = *of.inTiles(direction);
  if (!builder.isWhole() && of.division == Division::None) {
    const KernelBuilder::Range tiles = builder.share(shape.tiles());
    shape.begin = tiles.begin;
    shape.end = tiles.begin + tiles.count;
  }
  const bool isForward = direction == Direction::Forward;
  const bool isPacked = of.packedBytes != 0;
  const uint64_t weightBytes = WinogradConvolution::getWeightBytes(shape);
  if (isPacked)
    demandPacked(weightBytes, of.packedBytes);
  const auto &xDesc = isForward ? of.src : of.dst;
  const auto &yDesc = isForward ? of.dst : of.src;
  auto x = builder.addTensor(xDesc, isForward ? of.srcOffset : of.dstOffset);
  auto weights = builder.addTensor(
      isPacked ? numbersIn(weightBytes, shape.inPairs) : of.weights,
      of.weightsOffset);
  dnnl::memory bias;
  if (epilogue.hasBias)
    bias =
        builder.addTensor(KernelBuilder::dense({shape.outputs}), of.biasOffset);
  const uint64_t yOffset = isForward ? of.dstOffset : of.srcOffset;
  dnnl::memory residual;
  if (epilogue.hasResidual)
    residual =
        readAs(builder, builder.addTensor(yDesc, yOffset), withLanes(yDesc));
  auto y = builder.addResult(yDesc, yOffset);
  auto xInside = readAs(builder, x, withLanes(xDesc));
  auto yInside = writeAs(builder, y, withLanes(yDesc));
  shape.x = KernelBuilder::imagePlaces(xInside.get_desc());
  shape.y = KernelBuilder::imagePlaces(yInside.get_desc());
  auto transformed =
      isPacked ? weights : builder.addTemporary(numbersIn(weightBytes));
  const WinogradConvolution convolution(shape);
  auto scratchpad =
      builder.addTemporary(numbersIn(convolution.getScratchpadBytes()));
  builder.addWork([=] {
    auto at = [](const dnnl::memory &memory) {
      return static_cast<float *>(memory.get_data_handle());
    };
    if (!isPacked)
      WinogradConvolution::transformWeights(shape, weights.get_data_handle(),
                                            direction,
                                            transformed.get_data_handle());
    const ConvSummands summands = {epilogue.hasBias ? at(bias) : nullptr,
                                   epilogue.hasResidual ? at(residual)
                                                        : nullptr};
    convolution.run(xInside.get_data_handle(), transformed.get_data_handle(),
                    summands, epilogue, yInside.get_data_handle(),
                    at(scratchpad));
  });
  writeBack(builder, yInside, y);
}

void pp::runtime::buildPackTiles(const ConvShape &of, Direction direction,
                                 KernelBuilder &builder) {
  const WinogradConvolution::Shape shape = *of.inTiles(direction);
  if (of.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(WinogradConvolution::getWeightBytes(shape), of.packedBytes);
  builder.setFunction(
      describePacking(of, shape.inPairs ? DataType::BF16 : DataType::F32),
      [=](void *const *tensors, void *) {
        WinogradConvolution::transformWeights(shape, tensors[0], direction,
                                              tensors[1]);
      });
}

//===----------------------------------------------------------------------===//
// Few pixels
//===----------------------------------------------------------------------===//

bool pp::runtime::isForwardInPairs(Descriptor &descriptor,
                                   KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  const auto pairs = whole.forwardPairs();
  return pairs && PairConvolution::isPreferred(*pairs);
}

void pp::runtime::buildPairs(const ConvShape &of, const ConvEpilogue &epilogue,
                             KernelBuilder &builder) {
  const PairConvolution convolution(*of.forwardPairs());
  const PairConvolution::Shape shape = *of.forwardPairs();
  const bool isPacked = of.packedBytes != 0;
  const uint64_t weightBytes = PairConvolution::getWeightBytes(shape);
  if (isPacked)
    demandPacked(weightBytes, of.packedBytes);
  const uint64_t ownBytes = isPacked ? 0 : alignUp(weightBytes);
  const std::array<uint64_t, 4> offsets = {of.srcOffset, of.weightsOffset,
                                           of.biasOffset, of.dstOffset};
  builder.setFunction(
      describeTensors(of, Direction::Forward, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor, int of) {
          return static_cast<char *>(tensors[tensor]) + offsets[of];
        };
        auto *weights = reinterpret_cast<uint16_t *>(at(1, 1));
        auto *own = static_cast<char *>(scratchpad);
        if (!isPacked)
          PairConvolution::packWeights(shape, weights,
                                       reinterpret_cast<uint16_t *>(own));
        convolution.run(
            reinterpret_cast<uint16_t *>(at(0, 0)),
            isPacked ? weights : reinterpret_cast<uint16_t *>(own),
            epilogue.hasBias ? reinterpret_cast<float *>(at(2, 2)) : nullptr,
            epilogue,
            reinterpret_cast<uint16_t *>(at(epilogue.hasBias ? 3 : 2, 3)),
            own + ownBytes);
      },
      ownBytes + convolution.getScratchpadBytes());
}

/// Numbers of bf16, so many bytes behind the first of a tensor.
static uint16_t *shortsAt(void *tensor, uint64_t offset) {
  return reinterpret_cast<uint16_t *>(static_cast<char *>(tensor) + offset);
}

void pp::runtime::buildPackPairs(const ConvShape &of, KernelBuilder &builder) {
  const PairConvolution::Shape shape = *of.forwardPairs();
  if (of.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(PairConvolution::getWeightBytes(shape), of.packedBytes);
  builder.setFunction(
      describePacking(of, DataType::BF16),
      [shape, plain = of.plainWeightsOffset,
       packed = of.weightsOffset](void *const *tensors, void *) {
        PairConvolution::packWeights(shape, shortsAt(tensors[0], plain),
                                     shortsAt(tensors[1], packed));
      });
}

//===----------------------------------------------------------------------===//
// Matrix tiles
//===----------------------------------------------------------------------===//

bool pp::runtime::isInMatrixTiles(Descriptor &descriptor,
                                  KernelBuilder &builder, Direction direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  auto sizes = whole.matrixTiles();
  return sizes && ConvTiles::isPreferred(*sizes, direction);
}

ConvTiles pp::runtime::makeMatrixTiles(const ConvShape &shape,
                                       Direction direction) {
  return {*shape.matrixTiles(), direction, matrixTilesAmx};
}

void pp::runtime::buildMatrixTiles(const ConvShape &shape, Direction direction,
                                   const ConvEpilogue &epilogue,
                                   KernelBuilder &builder) {
  const ConvTiles tiles = makeMatrixTiles(shape, direction);
  const bool isForward = direction == Direction::Forward;
  const bool isPacked = shape.packedBytes != 0;
  const uint64_t weightBytes = tiles.getWeightBytes();
  if (isPacked)
    demandPacked(weightBytes, shape.packedBytes);
  auto from = isForward ? builder.addTensor(shape.src, shape.srcOffset)
                        : builder.addTensor(shape.dst, shape.dstOffset);
  auto weights = builder.addTensor(
      isPacked ? numbersIn(weightBytes, /*areShort=*/true) : shape.weights,
      shape.weightsOffset);
  dnnl::memory bias;
  if (epilogue.hasBias)
    bias = builder.addTensor(KernelBuilder::dense({shape.outputChannels}),
                             shape.biasOffset);
  auto to = isForward ? builder.addResult(shape.dst, shape.dstOffset)
                      : builder.addResult(shape.src, shape.srcOffset);
  auto scratchpad =
      builder.addTemporary(numbersIn(tiles.getScratchpadBytes(isPacked)));
  builder.addWork([=] {
    auto at = [](const dnnl::memory &memory) {
      return static_cast<uint16_t *>(memory.get_data_handle());
    };
    const auto *summand = static_cast<const float *>(
        epilogue.hasBias ? bias.get_data_handle() : nullptr);
    if (isPacked)
      tiles.runPacked(at(from), at(weights), summand, epilogue, at(to),
                      at(scratchpad));
    else
      tiles.run(at(from), at(weights), summand, epilogue, at(to),
                at(scratchpad));
  });
}

void pp::runtime::buildPackMatrixTiles(const ConvShape &shape,
                                       Direction direction,
                                       KernelBuilder &builder) {
  const ConvTiles tiles = makeMatrixTiles(shape, direction);
  if (shape.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(tiles.getWeightBytes(), shape.packedBytes);
  builder.setFunction(
      describePacking(shape, DataType::BF16),
      [tiles, plain = shape.plainWeightsOffset,
       packed = shape.weightsOffset](void *const *tensors, void *) {
        tiles.packWeights(shortsAt(tensors[0], plain),
                          shortsAt(tensors[1], packed));
      });
}
