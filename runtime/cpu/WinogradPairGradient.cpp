//===- WinogradPairGradient.cpp -------------------------------------------===//
#include "cpu/GradientWindows.h"
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"
#include "plan/DataType.h"

#include <algorithm>

using namespace pp::runtime;
using namespace pp::runtime::winograd;

static constexpr int64_t points = 16;
static_assert(lanes == pairColumns);

static constexpr GradientBlocks blocks = {/*outputs=*/64, /*channels=*/128};

/// Tiles at a time. With few channels they and all sums stay in L2; with many,
/// a pass over the sums costs more than tiles that leave it. Of the channels
/// alone, so that parts of outputs have the order of the whole.
static int64_t chunkOf(const Sizes &shape) {
  constexpr int64_t fewChannels = 64, inL2 = 96 * fewChannels, most = 392;
  const bool isFew = shape.channels <= fewChannels;
  return std::min(shape.tiles(), isFew ? inL2 / shape.channels / 2 * 2 : most);
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

PP_DOT static void writeWindows(const Sizes &shape, const GradientBlock &block,
                                const float *sums, float *gradient,
                                bool isAdded) {
  writeWindowsBody<2, /*isWide=*/true>(shape, block, sums, gradient, isAdded);
}

uint64_t WinogradPairGradient::getScratchpadBytes() const {
  const int64_t chunk = chunkOf(shape);
  return PairPanels(shape.channels, chunk).bytes() +
         PairPanels(shape.outputs, chunk).bytes() +
         blocks.countSums(shape, chunk == shape.tiles()) * sizeof(float);
}

void WinogradPairGradient::run(const uint16_t *x, const uint16_t *dy,
                               float *gradient, char *scratchpad) const {
  const int64_t chunk = chunkOf(shape), tiles = shape.tiles();
  auto *numbers = reinterpret_cast<uint16_t *>(scratchpad);
  scratchpad += PairPanels(shape.channels, chunk).bytes();
  auto *factors = reinterpret_cast<uint16_t *>(scratchpad);
  scratchpad += PairPanels(shape.outputs, chunk).bytes();
  for (int64_t first = 0; first < tiles; first += chunk) {
    const int64_t count = std::min(chunk, tiles - first);
    const PairPanels ofX(shape.channels, count), ofDy(shape.outputs, count);
    readTiles(shape, ofX, x, first, count, numbers);
    expandTiles(shape, ofDy, dy, first, count, factors);
    auto *sums = reinterpret_cast<float *>(scratchpad);
    blocks.forEach(shape, [&](const GradientBlock &block) {
      const int64_t ofPoint = block.ofPoint();
      for (int64_t point = 0; point < points; ++point)
        for (int64_t row = 0; row < block.outputs; row += lanes)
          multiplyPairs({factors + point * ofDy.ofPoint +
                             (block.output + row) / lanes * ofDy.ofPanel,
                         /*aRow=*/2, /*aPair=*/2 * lanes,
                         numbers + point * ofX.ofPoint +
                             block.channel / lanes * ofX.ofPanel,
                         ofX.ofPanel, ofX.pairs},
                        lanes, block.channels,
                        sums + point * ofPoint + row * block.channels,
                        block.channels, /*isAdded=*/first > 0);
      if (first + count == tiles)
        writeWindows(shape, block, sums, gradient, isAdded);
      if (chunk != tiles)
        sums += points * ofPoint;
    });
  }
}
