//===- WinogradConvolution.cpp --------------------------------------------===//
#include "cpu/WinogradConvolution.h"
#include "cpu/MatrixBlocks.h"
#include "cpu/PairProduct.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"
#include "cpu/WindowLanes.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"

#include <algorithm>
#include <type_traits>

using namespace pp::runtime;
using namespace pp::runtime::winograd;

/// Terms at a time.
static constexpr int64_t termBlock = 256;

/// Tiles at a time: their numbers, and the products of a block of outputs, stay
/// in L2 (measured on Zen 4), but weights that no cache holds are read seldom,
/// and so are all where L2 holds little of either (Zen 3: 5 to 20 % less time).
static int64_t chunkOf(const Sizes &shape) {
  constexpr uint64_t cached = 16 << 20;
  const bool isCached =
      hasAvx512() && WinogradConvolution::getWeightBytes(shape) <= cached;
  return isCached ? 24 : 96;
}

/// For the last ones, weights are read once, and not again for a few (measured
/// on Cascade Lake).
static int64_t mostAtOnce(const Sizes &shape) {
  constexpr int64_t last = 64;
  return std::max(chunkOf(shape), last);
}

/// Bytes of weights that are read from the third cache or from memory.
static constexpr uint64_t large = 4 << 20;

/// Whether weights are: those of a second chunk may still be in the second
/// cache (measured on Zen 5).
static bool areFar(const Sizes &shape) {
  constexpr uint64_t inCache = 1 << 20;
  constexpr int64_t few = 96;
  const uint64_t bytes = WinogradConvolution::getWeightBytes(shape);
  return bytes > large || (bytes > inCache && shape.tiles() <= few);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Whether transformed weights are streamed past the caches.
template <int edge> static bool areStreamed(const Sizes &shape, float *to) {
  // Sixteen points do not get into each other's way in a cache.
  return edge == 4 && WinogradConvolution::getWeightBytes(shape) > large &&
         reinterpret_cast<uintptr_t>(to) % 64 == 0;
}

/// For each 16 outputs and each channel: the numbers of all points. Streamed
/// past the caches, `to` is a multiple of 64.
template <int edge>
PP_INLINE void storePoints(const Lanes *window, int64_t channels,
                           bool isStreamed, float *to) {
  Lanes all[(edge + 2) * (edge + 2)];
  transformWindow<edge>(window, all);
  for (const Lanes &point : all) {
    if (isStreamed)
      __builtin_nontemporal_store(point, reinterpret_cast<Lanes *>(to));
    else
      store(to, point);
    to += channels * lanes;
  }
}

template <int edge, typename Element, Direction direction>
__attribute__((target("avx2"))) static void
transformWeightsAvx2(const Sizes &shape, const void *weights, float *to) {
  const WindowStrides<direction> strides(shape);
  const bool isStreamed = areStreamed<edge>(shape, to);
  const int64_t ofOutputs = shape.points() * shape.channels;
  for (int64_t output = 0; output < shape.outputs; output += lanes)
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      Lanes window[9];
      readWindow(static_cast<const Element *>(weights) +
                     output * strides.output + channel * strides.channel,
                 strides, window);
      storePoints<edge>(window, shape.channels, isStreamed,
                        to + output * ofOutputs + channel * lanes);
    }
  if (isStreamed)
    endStreaming();
}

template <int edge, typename Element, Direction direction>
PP_AVX512 static void transformWeightsAvx512(const Sizes &shape,
                                             const void *weights, float *to) {
  const WindowStrides<direction> strides(shape);
  const bool isStreamed = areStreamed<edge>(shape, to);
  const int64_t ofOutputs = shape.points() * shape.channels;
  for (int64_t output = 0; output < shape.outputs; output += lanes)
    for (int64_t channel = 0; channel < shape.channels; channel += 2) {
      Lanes window[9], next[9];
      const Element *from = static_cast<const Element *>(weights) +
                            output * strides.output + channel * strides.channel;
      if constexpr (std::is_same_v<Element, Short>) {
        readWindowsAvx512(from, strides, window, next);
      } else {
        readWindowAvx512(from, strides, window);
        readWindowAvx512(from + strides.channel, strides, next);
      }
      float *at = to + output * ofOutputs + channel * lanes;
      storePoints<edge>(window, shape.channels, isStreamed, at);
      storePoints<edge>(next, shape.channels, isStreamed, at + lanes);
    }
  if (isStreamed)
    endStreaming();
}

//===----------------------------------------------------------------------===//
// For each processor
//===----------------------------------------------------------------------===//

namespace {
struct Functions {
  /// In each direction.
  void (*transformWeights[2])(const Sizes &shape, const void *weights,
                              float *to);
  void (*readTiles)(const Sizes &shape, const Rows &rows, const void *x,
                    int64_t first, int64_t count, float *panels);
  /// From the summands of the first output on; `offset` is where y has it, in
  /// elements.
  void (*writeTiles)(const Sizes &shape, const float *products, int64_t pitch,
                     int64_t first, int64_t count, const ConvSummands &summands,
                     const ConvEpilogue &epilogue, void *y, int64_t offset);
};
} // namespace

#define PP_FOR_PROCESSOR(name, features, width)                                \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void readTiles##name(               \
      const Sizes &shape, const Rows &rows, const void *x, int64_t first,      \
      int64_t count, float *panels) {                                          \
    readTilesBody<edge, width>(shape, rows, static_cast<const Element *>(x),   \
                               first, count, panels);                          \
  }                                                                            \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void writeTiles##name(              \
      const Sizes &shape, const float *products, int64_t pitch, int64_t first, \
      int64_t count, const ConvSummands &summands,                             \
      const ConvEpilogue &epilogue, void *y, int64_t offset) {                 \
    writeTilesBody<edge, width>(shape, products, pitch, first, count,          \
                                summands, epilogue,                            \
                                static_cast<Element *>(y) + offset);           \
  }                                                                            \
  template <int edge, typename Element>                                        \
  static constexpr Functions functions##name = {                               \
      {transformWeights##name<edge, Element, Direction::Forward>,              \
       transformWeights##name<edge, Element, Direction::Backward>},            \
      readTiles##name<edge, Element>,                                          \
      writeTiles##name<edge, Element>};

PP_FOR_PROCESSOR(Avx2, "avx2", 8)
PP_FOR_PROCESSOR(Avx512, "avx512f", 16)

static const Functions &functionsFor(const Sizes &shape,
                                     const ProductTiles &registers) {
  return withTypes(shape,
                   [&]<int edge, typename Element>() -> const Functions & {
                     return &registers == &productTilesAvx512
                                ? functionsAvx512<edge, Element>
                                : functionsAvx2<edge, Element>;
                   });
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

int64_t WinogradConvolution::channelsTogether() {
  return hasAvx512() ? multiple : multiple / 2;
}

bool WinogradConvolution::isPossible(const Shape &shape) {
  const bool hasInstructions =
      shape.inPairs ? hasPairProducts() : TiledProduct::isPossible();
  return hasInstructions && shape.channels % multiple == 0 &&
         shape.outputs % multiple == 0;
}

void WinogradConvolution::transformWeights(const Shape &shape,
                                           const void *weights,
                                           Direction direction, void *to,
                                           const ProductTiles &registers) {
  if (shape.inPairs)
    return WinogradPairConvolution::transformWeights(
        shape, static_cast<const uint16_t *>(weights), direction,
        static_cast<uint16_t *>(to));
  functionsFor(shape, registers)
      .transformWeights[direction == Direction::Backward](
          shape, weights, static_cast<float *>(to));
}

static int64_t mostInPart(const Sizes &shape) {
  return std::min(shape.lastTile() - shape.begin, mostAtOnce(shape));
}

static uint64_t rowBytes(const Sizes &shape, const ProductTiles &registers) {
  Rows rows(shape, registers, mostInPart(shape));
  return alignUp(shape.points() * rows.ofPoint * sizeof(float));
}

uint64_t WinogradConvolution::getScratchpadBytes() const {
  if (shape.inPairs)
    return WinogradPairConvolution(shape).getScratchpadBytes();
  return rowBytes(shape, registers) +
         shape.points() * mostInPart(shape) * outputBlock * sizeof(float);
}

void WinogradConvolution::run(const void *x, const void *transformed,
                              const ConvSummands &summands,
                              const ConvEpilogue &epilogue, void *y,
                              void *scratchpad) const {
  if (shape.inPairs)
    return WinogradPairConvolution(shape).run(
        static_cast<const uint16_t *>(x),
        static_cast<const uint16_t *>(transformed), summands.bias, epilogue,
        static_cast<uint16_t *>(y), static_cast<char *>(scratchpad));
  auto *weights = static_cast<const float *>(transformed);
  auto *numbers = static_cast<float *>(scratchpad);
  auto *products = reinterpret_cast<float *>(static_cast<char *>(scratchpad) +
                                             rowBytes(shape, registers));
  const Functions &work = functionsFor(shape, registers);
  const int64_t points = shape.points(), end = shape.lastTile();
  const int64_t weightPanel = points * shape.channels * lanes;
  MultiplyBlock *multiply =
      areFar(shape) ? registers.multiplyFar : registers.multiplyBlock;
  for (int64_t count, first = shape.begin; first < end; first += count) {
    const int64_t left = end - first;
    count = left <= mostAtOnce(shape) ? left : chunkOf(shape);
    const int64_t pitch = count * outputBlock;
    const Rows rows(shape, registers, count);
    work.readTiles(shape, rows, x, first, count, numbers);
    for (int64_t output = 0; output < shape.outputs; output += outputBlock) {
      int64_t outputs = std::min(outputBlock, shape.outputs - output);
      for (int64_t point = 0; point < points; ++point)
        for (int64_t term = 0; term < shape.channels; term += termBlock)
          multiply(numbers + point * rows.ofPoint + term, rows.pitch,
                   weights + output / lanes * weightPanel +
                       (point * shape.channels + term) * lanes,
                   weightPanel, lanes, count, outputs,
                   std::min(termBlock, shape.channels - term),
                   products + point * pitch, outputBlock, /*isAdded=*/term > 0);
      for (int64_t lane = 0; lane < outputs; lane += lanes) {
        const int64_t offset = shape.y.offsetOfChannel(output + lane);
        const ConvSummands own = {
            summands.bias ? summands.bias + output + lane : nullptr,
            summands.residual ? summands.residual + offset : nullptr};
        work.writeTiles(shape, products + lane, pitch, first, count, own,
                        epilogue, y, offset);
      }
    }
  }
}
