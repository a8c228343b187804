//===- WinogradPairGradient.cpp -------------------------------------------===//
#include "cpu/GradientWindows.h"
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"
#include "plan/DataType.h"

#include <algorithm>
#include <utility>

using namespace pp::runtime;
using namespace pp::runtime::winograd;

static constexpr int64_t points = 16;
static_assert(lanes == pairColumns);

/// Tiles at a time. With few channels they and all sums stay in L2; with many,
/// a pass over the sums costs more than tiles that leave it. Of the channels
/// alone, so that parts of outputs have the order of the whole.
static int64_t chunkOf(const Sizes &shape) {
  constexpr int64_t fewChannels = 64, inL2 = 96 * fewChannels, most = 392;
  const bool isFew = shape.channels <= fewChannels;
  return std::min(shape.tiles(), isFew ? inL2 / shape.channels / 2 * 2 : most);
}

/// Whether sums are of so few tiles that they should not leave L1.
static bool isSmall(const Sizes &shape) {
  constexpr int64_t few = 64;
  return chunkOf(shape) == shape.tiles() && shape.tiles() <= few;
}

static GradientBlocks blocksOf(const Sizes &shape, int64_t microbatches) {
  if (!isSmall(shape))
    return {/*outputs=*/64, /*channels=*/128};
  constexpr int64_t outputs = 8, channels = 32;
  return {outputs, channels,
          GradientBlocks::together(shape, microbatches, channels,
                                   sizeof(uint16_t))};
}

namespace {
/// The transformed tiles of an image as multiplyPairs() has its factors: for
/// each point, panels of 16 channels, pair of tiles after pair of tiles; of few
/// tiles, for each panel all points.
struct PairPanels {
  int64_t pairs, ofPanel, ofPoint, size;

  PairPanels(const Sizes &shape, int64_t channels, int64_t tiles)
      : pairs((tiles + 1) / 2) {
    // An odd number of cache lines: what is a power of two apart would share
    // places of the cache.
    const int64_t line = 2 * lanes, panels = channels / lanes;
    if (isSmall(shape)) {
      ofPoint = pairs * line;
      ofPanel = (points * pairs | 1) * line;
      size = panels * ofPanel;
    } else {
      ofPanel = pairs * line;
      ofPoint = (panels * pairs | 1) * line;
      size = points * ofPoint;
    }
  }
  uint64_t bytes() const { return alignUp(size * sizeof(uint16_t)); }
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

PP_DOT static void addWindows(const Sizes &shape, const GradientBlock &block,
                              const float *sums, const GradientTurn &turn,
                              float *windows, float *gradient) {
  addWindowsBody<2, /*isWide=*/true>(shape, block, sums, turn, windows,
                                     gradient);
}

bool WinogradPairGradient::isOfFewTiles() const { return isSmall(shape); }

uint64_t WinogradPairGradient::getScratchpadBytes(int64_t microbatches) const {
  const int64_t chunk = chunkOf(shape);
  const GradientBlocks blocks = blocksOf(shape, microbatches);
  return microbatches * (PairPanels(shape, shape.channels, chunk).bytes() +
                         PairPanels(shape, shape.outputs, chunk).bytes()) +
         (blocks.countSums(shape, chunk == shape.tiles()) +
          blocks.countWindows(microbatches)) *
             sizeof(float);
}

void WinogradPairGradient::run(std::span<const GradientFactors> factors,
                               float *gradient, bool isAdded,
                               char *scratchpad) const {
  const auto microbatches = static_cast<int64_t>(factors.size());
  const int64_t chunk = chunkOf(shape), tiles = shape.tiles();
  const GradientBlocks blocks = blocksOf(shape, microbatches);
  const uint64_t ofTiles = PairPanels(shape, shape.channels, chunk).bytes();
  const uint64_t ofMicrobatch =
      ofTiles + PairPanels(shape, shape.outputs, chunk).bytes();
  char *const panels =
      std::exchange(scratchpad, scratchpad + microbatches * ofMicrobatch);
  auto tilesOf = [&](int64_t microbatch) {
    return reinterpret_cast<uint16_t *>(panels + microbatch * ofMicrobatch);
  };
  auto gradientsOf = [&](int64_t microbatch) {
    return reinterpret_cast<uint16_t *>(panels + microbatch * ofMicrobatch +
                                        ofTiles);
  };
  auto *const windows = reinterpret_cast<float *>(scratchpad);
  auto *const firstSums = windows + blocks.countWindows(microbatches);
  for (int64_t first = 0; first < tiles; first += chunk) {
    const int64_t count = std::min(chunk, tiles - first);
    const PairPanels ofX(shape, shape.channels, count);
    const PairPanels ofDy(shape, shape.outputs, count);
    for (int64_t i = 0; i < microbatches; ++i) {
      readTiles(shape, ofX, static_cast<const uint16_t *>(factors[i].x), first,
                count, tilesOf(i));
      expandTiles(shape, ofDy, static_cast<const uint16_t *>(factors[i].dy),
                  first, count, gradientsOf(i));
    }
    float *sums = firstSums;
    blocks.forEach(shape, [&](const GradientBlock &block) {
      const int64_t ofPoint = block.ofPoint();
      if (isSmall(shape))
        askForWindows(shape, block, gradient);
      for (int64_t i = 0; i < microbatches; ++i) {
        auto multiply = [&](int64_t point, const PairProducts &products) {
          for (int64_t row = 0; row < block.outputs; row += lanes) {
            const int64_t output = block.output + row;
            PairFactors of{gradientsOf(i) + point * ofDy.ofPoint +
                               output / lanes * ofDy.ofPanel +
                               output % lanes * 2,
                           /*aRow=*/2,
                           /*aPair=*/2 * lanes,
                           tilesOf(i) + point * ofX.ofPoint +
                               block.channel / lanes * ofX.ofPanel,
                           ofX.ofPanel,
                           ofX.pairs};
            multiplyPairs(of, std::min(lanes, block.outputs - row),
                          block.channels,
                          sums + point * ofPoint + row * block.channels,
                          block.channels, /*isAdded=*/first > 0, products);
          }
        };
        if (isSmall(shape))
          multiply(0, {points, ofDy.ofPoint, ofX.ofPoint, ofPoint});
        else
          for (int64_t point = 0; point < points; ++point)
            multiply(point, {});
        if (first + count == tiles)
          addWindows(
              shape, block, sums,
              {/*isFirst=*/i == 0, /*isLast=*/i + 1 == microbatches, isAdded},
              windows, gradient);
      }
      if (chunk != tiles)
        sums += points * ofPoint;
    });
  }
}
