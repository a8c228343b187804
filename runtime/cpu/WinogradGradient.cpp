//===- WinogradGradient.cpp -----------------------------------------------===//
#include "cpu/WinogradGradient.h"
#include "cpu/GradientWindows.h"
#include "cpu/TiledProduct.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"

#include <algorithm>
#include <type_traits>
#include <utility>

using namespace pp::runtime;
using namespace pp::runtime::winograd;

/// Terms of the products at a time: fewer where the sums and what is
/// transformed then fit into a second-level cache. Of as many outputs as
/// channels, so that parts of outputs have the order of the whole.
static int64_t chunkOf(const Sizes &shape) {
  constexpr int64_t most = 48, fewer = 32, cache = 1 << 20;
  const int64_t ofPoints = shape.points() * sizeof(float);
  const int64_t sums = ofPoints * shape.channels * shape.channels;
  const int64_t factors = ofPoints * 2 * shape.channels * most;
  const bool fits = sums + factors <= cache;
  return std::min(shape.tiles(), fits || sums > cache ? most : fewer);
}

/// Whether sums are of so few tiles that they should not leave L1.
static bool isSmall(const Sizes &shape) {
  return chunkOf(shape) == shape.tiles();
}

/// Whole panels of rows.
static GradientBlocks blocksOf(const Sizes &shape,
                               const ProductTiles &registers,
                               int64_t microbatches) {
  if (!isSmall(shape)) // of any processor
    return {/*outputs=*/48, /*channels=*/shape.edge == 2 ? 128 : 64};
  const int64_t channels = shape.edge == 2 ? 32 : 64;
  return {
      registers.rows, channels,
      GradientBlocks::together(shape, microbatches, channels, sizeof(float))};
}

//===----------------------------------------------------------------------===//
// Tiles of dY
//===----------------------------------------------------------------------===//

namespace {
/// The transformed tiles of dY as MultiplyBlock has a packed factor: for each
/// point, panels of outputs, tile by tile; of few tiles, for each panel all
/// points.
struct Panels {
  int64_t rows, ofPanel, ofPoint, size;

  Panels(const Sizes &shape, const ProductTiles &registers, int64_t tiles)
      : rows(registers.rows) {
    const int64_t panel = rows * tiles;
    const int64_t count = (shape.outputs + rows - 1) / rows;
    size = shape.points() * count * panel;
    ofPanel = isSmall(shape) ? shape.points() * panel : panel;
    ofPoint = isSmall(shape) ? panel : count * panel;
  }
};
} // namespace

template <int64_t length>
using Length = std::integral_constant<int64_t, length>;

/// Copies some lanes of each point; with a number that is known, by as few
/// moves.
template <int points, typename Count>
PP_INLINE void copyLanes(const float *from, Count count, float *to,
                         int64_t ofPoint) {
  for (int64_t point = 0; point < points; ++point, from += lanes, to += ofPoint)
    std::memcpy(to, from, count * sizeof(float));
}

template <int edge, int width, typename Element>
PP_INLINE void expandTilesBody(const Sizes &shape, const Panels &panels,
                               const Element *dy, int64_t first, int64_t count,
                               float *to) {
  constexpr int points = (edge + 2) * (edge + 2);
  for (int64_t number = 0; number < count; ++number) {
    const Tile tile(shape, first + number);
    for (int64_t output = 0; output < shape.outputs; output += lanes) {
      alignas(64) float numbers[points][lanes];
      for (int64_t lane = 0; lane < lanes; lane += width) {
        LanesOf<width> all[points];
        expandTile<edge>(shape, dy + shape.y.offsetOfChannel(output + lane),
                         tile, all);
        for (int64_t point = 0; point < points; ++point)
          storeLanes<width>(numbers[point] + lane, all[point]);
      }
      // What of them belongs to each panel.
      for (int64_t begin = 0; begin < lanes;) {
        int64_t row = (output + begin) % panels.rows;
        int64_t length = std::min(lanes - begin, panels.rows - row);
        float *at = to + (output + begin) / panels.rows * panels.ofPanel +
                    number * panels.rows + row;
        const float *from = numbers[0] + begin;
        // Those of panels of 6 and of 12 rows.
        if (length == 2)
          copyLanes<points>(from, Length<2>(), at, panels.ofPoint);
        else if (length == 4)
          copyLanes<points>(from, Length<4>(), at, panels.ofPoint);
        else if (length == 6)
          copyLanes<points>(from, Length<6>(), at, panels.ofPoint);
        else if (length == 8)
          copyLanes<points>(from, Length<8>(), at, panels.ofPoint);
        else if (length == 12)
          copyLanes<points>(from, Length<12>(), at, panels.ofPoint);
        else
          copyLanes<points>(from, length, at, panels.ofPoint);
        begin += length;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// For each processor
//===----------------------------------------------------------------------===//

namespace {
struct Functions {
  void (*readTiles)(const Sizes &shape, const Rows &rows, const void *x,
                    int64_t first, int64_t count, float *to);
  void (*expandTiles)(const Sizes &shape, const Panels &panels, const void *dy,
                      int64_t first, int64_t count, float *to);
  void (*addWindows)(const Sizes &shape, const GradientBlock &block,
                     const float *sums, const GradientTurn &turn,
                     float *windows, float *gradient);
};
} // namespace

#define PP_FOR_PROCESSOR(name, features, width)                                \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void readTiles##name(               \
      const Sizes &shape, const Rows &rows, const void *x, int64_t first,      \
      int64_t count, float *to) {                                              \
    readTilesBody<edge, width>(shape, rows, static_cast<const Element *>(x),   \
                               first, count, to);                              \
  }                                                                            \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void expandTiles##name(             \
      const Sizes &shape, const Panels &panels, const void *dy, int64_t first, \
      int64_t count, float *to) {                                              \
    expandTilesBody<edge, width>(                                              \
        shape, panels, static_cast<const Element *>(dy), first, count, to);    \
  }                                                                            \
  template <int edge>                                                          \
  __attribute__((target(features))) static void addWindows##name(              \
      const Sizes &shape, const GradientBlock &block, const float *sums,       \
      const GradientTurn &turn, float *windows, float *gradient) {             \
    addWindowsBody<edge, (width) == lanes>(shape, block, sums, turn, windows,  \
                                           gradient);                          \
  }                                                                            \
  template <int edge, typename Element>                                        \
  static constexpr Functions functions##name = {                               \
      readTiles##name<edge, Element>, expandTiles##name<edge, Element>,        \
      addWindows##name<edge>};

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
// The gradient
//===----------------------------------------------------------------------===//

/// Of few tiles, for each 16 channels all points.
static Rows rowsOf(const Sizes &shape, const ProductTiles &registers,
                   int64_t tiles) {
  if (!isSmall(shape))
    return Rows(shape, registers, tiles);
  // An odd number of cache lines: what is a power of two apart would share
  // places of the cache.
  const int64_t ofPoint = tiles * lanes;
  return Rows(lanes, ofPoint, (shape.points() * tiles | 1) * lanes);
}

static uint64_t rowBytes(const Sizes &shape, const ProductTiles &registers) {
  const int64_t tiles = chunkOf(shape);
  const Rows rows = rowsOf(shape, registers, tiles);
  const int64_t size = isSmall(shape) ? shape.channels / lanes * rows.ofPanel
                                      : shape.points() * rows.ofPoint;
  return alignUp(size * sizeof(float));
}

static uint64_t panelBytes(const Sizes &shape, const ProductTiles &registers) {
  Panels panels(shape, registers, chunkOf(shape));
  return alignUp(panels.size * sizeof(float));
}

uint64_t WinogradGradient::getScratchpadBytes(int64_t microbatches) const {
  if (shape.inPairs)
    return WinogradPairGradient(shape).getScratchpadBytes(microbatches);
  const bool isOneChunk = chunkOf(shape) == shape.tiles();
  const GradientBlocks blocks = blocksOf(shape, registers, microbatches);
  return microbatches *
             (rowBytes(shape, registers) + panelBytes(shape, registers)) +
         alignUp((blocks.countSums(shape, isOneChunk) +
                  blocks.countWindows(microbatches)) *
                 sizeof(float));
}

void WinogradGradient::run(const void *x, const void *dy, float *gradient,
                           void *scratchpad) const {
  const Factors factors{x, dy};
  run(std::span(&factors, 1), gradient, isAdded, scratchpad);
}

void WinogradGradient::run(std::span<const Factors> factors, float *gradient,
                           bool isAdded, void *scratchpad) const {
  auto *bytes = static_cast<char *>(scratchpad);
  if (shape.inPairs)
    return WinogradPairGradient(shape).run(factors, gradient, isAdded, bytes);
  const auto microbatches = static_cast<int64_t>(factors.size());
  const uint64_t ofTiles = rowBytes(shape, registers);
  const uint64_t ofMicrobatch = ofTiles + panelBytes(shape, registers);
  char *const panelsBegin =
      std::exchange(bytes, bytes + microbatches * ofMicrobatch);
  auto tilesOf = [&](int64_t microbatch) {
    return reinterpret_cast<float *>(panelsBegin + microbatch * ofMicrobatch);
  };
  auto gradientsOf = [&](int64_t microbatch) {
    return reinterpret_cast<float *>(panelsBegin + microbatch * ofMicrobatch +
                                     ofTiles);
  };
  const GradientBlocks blocks = blocksOf(shape, registers, microbatches);
  auto *const windows = reinterpret_cast<float *>(bytes);
  float *const firstSums = windows + blocks.countWindows(microbatches);
  const Functions &work = functionsFor(shape, registers);
  const int64_t chunk = chunkOf(shape), tiles = shape.tiles();
  for (int64_t first = 0; first < tiles; first += chunk) {
    const int64_t count = std::min(chunk, tiles - first);
    const Rows rows = rowsOf(shape, registers, count);
    const Panels panels(shape, registers, count);
    for (int64_t i = 0; i < microbatches; ++i) {
      work.readTiles(shape, rows, factors[i].x, first, count, tilesOf(i));
      work.expandTiles(shape, panels, factors[i].dy, first, count,
                       gradientsOf(i));
    }
    float *sums = firstSums;
    blocks.forEach(shape, [&](const GradientBlock &block) {
      if (isSmall(shape))
        askForWindows(shape, block, gradient);
      for (int64_t i = 0; i < microbatches; ++i) {
        for (int64_t point = 0; point < shape.points(); ++point)
          registers.multiplyBlock(
              gradientsOf(i) + point * panels.ofPoint +
                  block.output / panels.rows * panels.ofPanel,
              /*aStride=*/0,
              tilesOf(i) + point * rows.ofPoint +
                  block.channel / lanes * rows.ofPanel,
              rows.ofPanel, rows.pitch, block.outputs, block.channels, count,
              sums + point * block.ofPoint(), block.channels,
              /*isAdded=*/first > 0);
        if (first + count == tiles)
          work.addWindows(
              shape, block, sums,
              {/*isFirst=*/i == 0, /*isLast=*/i + 1 == microbatches, isAdded},
              windows, gradient);
      }
      if (chunk != tiles)
        sums += shape.points() * block.ofPoint();
    });
  }
}

std::optional<WinogradGradientSums>
WinogradGradientSums::find(const WinogradGradient &one, int64_t most) {
  const bool isOfFew = one.shape.inPairs
                           ? WinogradPairGradient(one.shape).isOfFewTiles()
                           : isSmall(one.shape);
  if (!one.isAdded || !isOfFew || most < 2)
    return std::nullopt;
  return WinogradGradientSums(one, most);
}
