//===- WinogradPairConvolution.cpp ----------------------------------------===//
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/WindowLanes.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"
#include "plan/DataType.h"

#include <algorithm>

using namespace pp::runtime;
using namespace pp::runtime::winograd;

static constexpr int64_t points = 16;
static_assert(lanes == pairColumns);

/// Tiles at a time: their numbers, and the products of a block of outputs, stay
/// in L2. As many rows as a tile of registers has go into it, and a power of
/// two does not.
static int64_t chunkOf(const Sizes &shape) {
  return std::min<int64_t>(shape.lastTile() - shape.begin, 72);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

template <Direction direction>
PP_DOT static void transformWindows(const Sizes &shape, const uint16_t *weights,
                                    uint16_t *to) {
  const WindowStrides<direction> strides(shape);
  const int64_t channels = shape.channels;
  for (int64_t output = 0; output < shape.outputs; output += lanes)
    for (int64_t channel = 0; channel < channels; channel += 2) {
      Lanes window[9], next[9], first[points], second[points];
      readWindowsAvx512(weights + output * strides.output +
                            channel * strides.channel,
                        strides, window, next);
      transformWindow<2>(window, first);
      transformWindow<2>(next, second);
      uint16_t *at = to + output * points * channels + channel * lanes;
      for (int64_t point = 0; point < points; ++point, at += channels * lanes)
        storePairs(at, first[point], second[point]);
    }
}

void WinogradPairConvolution::transformWeights(const Shape &shape,
                                               const uint16_t *weights,
                                               Direction direction,
                                               uint16_t *to) {
  auto *transform = direction == Direction::Forward
                        ? transformWindows<Direction::Forward>
                        : transformWindows<Direction::Backward>;
  transform(shape, weights, to);
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

namespace {
/// For each point a row of channels for each tile. Rows that are a power of two
/// apart would share places of the cache.
struct PairRows {
  int64_t pitch, ofPoint;

  PairRows(const Sizes &shape, int64_t tiles)
      : pitch(shape.channels + 2 * lanes), ofPoint(tiles * pitch) {}
  uint64_t bytes() const {
    return alignUp(points * ofPoint * sizeof(uint16_t));
  }
};
} // namespace

PP_DOT static void readTiles(const Sizes &shape, const PairRows &rows,
                             const uint16_t *x, int64_t first, int64_t count,
                             uint16_t *to) {
  for (int64_t number = 0; number < count; ++number, to += rows.pitch) {
    const Tile tile(shape, first + number);
    for (int64_t channel = 0; channel < shape.channels; channel += lanes) {
      Lanes all[points];
      transformTile<2>(shape, x + shape.x.offsetOfChannel(channel), tile, all);
      for (int64_t point = 0; point < points; ++point)
        storeShort(to + point * rows.ofPoint + channel, all[point]);
    }
  }
}

PP_DOT static void writeTiles(const Sizes &shape, const float *products,
                              int64_t pitch, int64_t first, int64_t count,
                              const float *bias, const ConvEpilogue &epilogue,
                              uint16_t *y) {
  writeTilesBody<2, lanes>(shape, products, pitch, first, count, {bias},
                           epilogue, y);
}

uint64_t WinogradPairConvolution::getScratchpadBytes() const {
  const int64_t chunk = chunkOf(shape);
  return PairRows(shape, chunk).bytes() +
         points * chunk * outputBlock * sizeof(float);
}

void WinogradPairConvolution::run(const uint16_t *x, const uint16_t *weights,
                                  const float *bias,
                                  const ConvEpilogue &epilogue, uint16_t *y,
                                  char *scratchpad) const {
  const int64_t chunk = chunkOf(shape);
  auto *numbers = reinterpret_cast<uint16_t *>(scratchpad);
  auto *products =
      reinterpret_cast<float *>(scratchpad + PairRows(shape, chunk).bytes());
  const int64_t ofPoint = shape.channels * lanes, ofPanel = points * ofPoint;
  for (int64_t first = shape.begin; first < shape.lastTile(); first += chunk) {
    const int64_t count = std::min(chunk, shape.lastTile() - first);
    const int64_t pitch = count * outputBlock;
    const PairRows rows(shape, count);
    readTiles(shape, rows, x, first, count, numbers);
    for (int64_t output = 0; output < shape.outputs; output += outputBlock) {
      const int64_t outputs = std::min(outputBlock, shape.outputs - output);
      for (int64_t point = 0; point < points; ++point)
        multiplyPairs({numbers + point * rows.ofPoint, rows.pitch, 2,
                       weights + output / lanes * ofPanel + point * ofPoint,
                       ofPanel, shape.channels / 2},
                      count, outputs, products + point * pitch, outputBlock,
                      /*isAdded=*/false);
      for (int64_t lane = 0; lane < outputs; lane += lanes)
        writeTiles(shape, products + lane, pitch, first, count,
                   bias ? bias + output + lane : nullptr, epilogue,
                   y + shape.y.offsetOfChannel(output + lane));
    }
  }
}
