//===- WinogradPairGradient.cpp -------------------------------------------===//
#include "cpu/MatrixBlocks.h"
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"
#include "plan/DataType.h"

#include <algorithm>
#include <array>

using namespace pp::runtime;
using namespace pp::runtime::winograd;

static constexpr int64_t points = 16;
static_assert(lanes == pairColumns);

/// Outputs and channels whose sums stay in L2 for all points.
static constexpr int64_t outputsAtOnce = 64, channelsAtOnce = 128;

/// Tiles at a time. With few channels they and all sums stay in L2; with many,
/// a pass over the sums costs more than tiles that leave it. Of the channels
/// alone, so that parts of outputs have the order of the whole.
static int64_t chunkOf(const Sizes &shape) {
  constexpr int64_t fewChannels = 64, inL2 = 96 * fewChannels, most = 392;
  const bool isFew = shape.channels <= fewChannels;
  return std::min(shape.tiles(), isFew ? inL2 / shape.channels / 2 * 2 : most);
}

/// The numbers of all sums, or of those of a block where they are not needed
/// for longer.
static int64_t countSums(const Sizes &shape) {
  const bool isOnce = chunkOf(shape) == shape.tiles();
  return points * (isOnce ? std::min(outputsAtOnce, shape.outputs) *
                                std::min(channelsAtOnce, shape.channels)
                          : shape.outputs * shape.channels);
}

namespace {
/// The transformed tiles of an image as multiplyPairs() has its factors: for
/// each point, panels of 16 channels, pair of tiles after pair of tiles.
struct PairPanels {
  int64_t pairs, ofPanel, ofPoint;

  PairPanels(int64_t channels, int64_t tiles)
      : pairs((tiles + 1) / 2), ofPanel(pairs * 2 * lanes),
        // An odd number of cache lines: points that are a power of two apart
        // would share places of the cache.
        ofPoint((channels / lanes * pairs | 1) * 2 * lanes) {}
  uint64_t bytes() const {
    return alignUp(points * ofPoint * sizeof(uint16_t));
  }
};
} // namespace

/// `transform` writes the numbers of 16 channels of a tile.
template <typename Transform>
PP_DOT_INLINE void writePairs(const Sizes &shape, const PairPanels &panels,
                              int64_t channels, int64_t first, int64_t count,
                              uint16_t *to, const Transform &transform) {
  for (int64_t number = 0; number < count; number += 2) {
    const Tile one(shape, first + number), other(shape, first + number + 1);
    const bool isPair = number + 1 < count;
    for (int64_t channel = 0; channel < channels; channel += lanes) {
      Lanes a[points], b[points] = {};
      transform(channel, one, a);
      if (isPair)
        transform(channel, other, b);
      uint16_t *at = to + channel / lanes * panels.ofPanel + number * lanes;
      for (int64_t point = 0; point < points; ++point, at += panels.ofPoint)
        storePairs(at, a[point], b[point]);
    }
  }
}

PP_DOT static void readTiles(const Sizes &shape, const PairPanels &panels,
                             const uint16_t *x, int64_t first, int64_t count,
                             uint16_t *to) {
  writePairs(shape, panels, shape.channels, first, count, to,
             [&](int64_t channel, const Tile &tile, Lanes *all)
                 __attribute__((always_inline)) PP_DOT {
                   transformTile<2>(shape, x + shape.x.offsetOfChannel(channel),
                                    tile, all);
                 });
}

PP_DOT static void expandTiles(const Sizes &shape, const PairPanels &panels,
                               const uint16_t *dy, int64_t first, int64_t count,
                               uint16_t *to) {
  writePairs(shape, panels, shape.outputs, first, count, to,
             [&](int64_t output, const Tile &tile, Lanes *all)
                 __attribute__((always_inline)) PP_DOT {
                   expandTile<2>(shape, dy + shape.y.offsetOfChannel(output),
                                 tile, all);
                 });
}

/// From a row of sums for each point, `ofPoint` apart: 16 windows.
PP_INLINE void sumWindows(const float *sums, int64_t ofPoint, float *window) {
  constexpr int side = 4;
  Lanes all[points], rows[3][side], result[9];
  for (int64_t point = 0; point < points; ++point)
    all[point] = load(sums + ofPoint * point);
  for (int64_t j = 0; j < side; ++j)
    Transform<2>::windowSums(all + j, side, rows[0] + j, side);
  for (int64_t i = 0; i < 3; ++i)
    Transform<2>::windowSums(rows[i], 1, result + i * 3, 1);
  for (int64_t i = 0; i < 9; ++i)
    store(window + i * lanes, result[i]);
}

/// The gradients of `channels` windows of an output.
PP_DOT static void makeWindows(const float *sums, int64_t ofPoint,
                               int64_t channels, float *to) {
  float window[9 * lanes];
  std::array<const float *, 9> columns;
  for (int64_t i = 0; i < 9; ++i)
    columns[i] = window + i * lanes;
  for (int64_t channel = 0; channel < channels; channel += lanes) {
    sumWindows(sums + channel, ofPoint, window);
    writeColumns(columns.data(), 9, /*offset=*/0, to + channel * 9);
  }
}

uint64_t WinogradPairGradient::getScratchpadBytes() const {
  const int64_t chunk = chunkOf(shape);
  return PairPanels(shape.channels, chunk).bytes() +
         PairPanels(shape.outputs, chunk).bytes() +
         countSums(shape) * sizeof(float);
}

void WinogradPairGradient::writeWindows(const float *sums, int64_t output,
                                        int64_t outputs, int64_t channel,
                                        int64_t channels,
                                        float *gradient) const {
  constexpr int64_t perLine = 64 / sizeof(float);
  const int64_t rowSize = shape.channels * 9, size = channels * 9;
  alignas(64) float line[channelsAtOnce * 9];
  for (int64_t row = output; row < output + outputs; ++row) {
    float *to = gradient + row * rowSize + channel * 9;
    // Rows lie too far apart for the processor to expect the next one.
    if (row + 1 < shape.outputs)
      for (int64_t at = 0; at < size; at += perLine)
        __builtin_prefetch(to + rowSize + at, 1);
    makeWindows(sums + (row - output) * channels, outputs * channels, channels,
                line);
    writeRow(line, size, to, /*stride=*/1, isAdded);
  }
}

void WinogradPairGradient::run(const uint16_t *x, const uint16_t *dy,
                               float *gradient, char *scratchpad) const {
  const int64_t chunk = chunkOf(shape), tiles = shape.tiles();
  auto *numbers = reinterpret_cast<uint16_t *>(scratchpad);
  scratchpad += PairPanels(shape.channels, chunk).bytes();
  auto *factors = reinterpret_cast<uint16_t *>(scratchpad);
  scratchpad += PairPanels(shape.outputs, chunk).bytes();
  auto *allSums = reinterpret_cast<float *>(scratchpad);
  const bool isOneChunk = chunk == tiles;
  for (int64_t first = 0; first < tiles; first += chunk) {
    const int64_t count = std::min(chunk, tiles - first);
    const bool isLast = first + count == tiles;
    const PairPanels ofX(shape.channels, count), ofDy(shape.outputs, count);
    readTiles(shape, ofX, x, first, count, numbers);
    expandTiles(shape, ofDy, dy, first, count, factors);
    float *sums = allSums;
    for (int64_t output = 0; output < shape.outputs; output += outputsAtOnce)
      for (int64_t channel = 0; channel < shape.channels;
           channel += channelsAtOnce) {
        const int64_t outputs = std::min(outputsAtOnce, shape.outputs - output);
        const int64_t channels =
            std::min(channelsAtOnce, shape.channels - channel);
        const int64_t ofPoint = outputs * channels;
        for (int64_t point = 0; point < points; ++point)
          for (int64_t row = 0; row < outputs; row += lanes)
            multiplyPairs(
                {factors + point * ofDy.ofPoint +
                     (output + row) / lanes * ofDy.ofPanel,
                 /*aRow=*/2, /*aPair=*/2 * lanes,
                 numbers + point * ofX.ofPoint + channel / lanes * ofX.ofPanel,
                 ofX.ofPanel, ofX.pairs},
                lanes, channels, sums + point * ofPoint + row * channels,
                channels,
                /*isAdded=*/first > 0);
        if (isLast)
          writeWindows(sums, output, outputs, channel, channels, gradient);
        if (!isOneChunk)
          sums += points * ofPoint;
      }
  }
}
