//===- WinogradGradient.cpp -----------------------------------------------===//
#include "cpu/WinogradGradient.h"
#include "cpu/GradientWindows.h"
#include "cpu/TiledProduct.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"

#include <algorithm>
#include <type_traits>

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

/// Whole panels of rows, of any processor.
static GradientBlocks blocksOf(const Sizes &shape) {
  return {/*outputs=*/48, /*channels=*/shape.edge == 2 ? 128 : 64};
}

//===----------------------------------------------------------------------===//
// Tiles of dY
//===----------------------------------------------------------------------===//

namespace {
/// The transformed tiles of dY as MultiplyBlock has a packed factor: for each
/// point, panels of outputs, tile by tile.
struct Panels {
  int64_t rows, tiles, ofPoint;

  Panels(const Sizes &shape, const ProductTiles &registers, int64_t tiles)
      : rows(registers.rows), tiles(tiles),
        ofPoint((shape.outputs + rows - 1) / rows * rows * tiles) {}
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

template <int edge, typename Element>
PP_INLINE void expandTilesBody(const Sizes &shape, const Panels &panels,
                               const Element *dy, int64_t first, int64_t count,
                               float *to) {
  constexpr int points = (edge + 2) * (edge + 2);
  for (int64_t number = 0; number < count; ++number) {
    const Tile tile(shape, first + number);
    for (int64_t output = 0; output < shape.outputs; output += lanes) {
      alignas(64) float numbers[points][lanes];
      Lanes all[points];
      expandTile<edge>(shape, dy + shape.y.offsetOfChannel(output), tile, all);
      for (int64_t point = 0; point < points; ++point)
        store(numbers[point], all[point]);
      // What of them belongs to each panel.
      for (int64_t begin = 0; begin < lanes;) {
        int64_t row = (output + begin) % panels.rows;
        int64_t length = std::min(lanes - begin, panels.rows - row);
        float *at = to + (output + begin - row) * panels.tiles +
                    number * panels.rows + row;
        const float *from = numbers[0] + begin;
        // Those of panels of 12 rows.
        if (length == 4)
          copyLanes<points>(from, Length<4>(), at, panels.ofPoint);
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
  void (*writeWindows)(const Sizes &shape, const GradientBlock &block,
                       const float *sums, float *gradient, bool isAdded);
};
} // namespace

#define PP_FOR_PROCESSOR(name, features, isWide)                               \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void readTiles##name(               \
      const Sizes &shape, const Rows &rows, const void *x, int64_t first,      \
      int64_t count, float *to) {                                              \
    readTilesBody<edge>(shape, rows, static_cast<const Element *>(x), first,   \
                        count, to);                                            \
  }                                                                            \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void expandTiles##name(             \
      const Sizes &shape, const Panels &panels, const void *dy, int64_t first, \
      int64_t count, float *to) {                                              \
    expandTilesBody<edge>(shape, panels, static_cast<const Element *>(dy),     \
                          first, count, to);                                   \
  }                                                                            \
  template <int edge>                                                          \
  __attribute__((target(features))) static void writeWindows##name(            \
      const Sizes &shape, const GradientBlock &block, const float *sums,       \
      float *gradient, bool isAdded) {                                         \
    writeWindowsBody<edge, isWide>(shape, block, sums, gradient, isAdded);     \
  }                                                                            \
  template <int edge, typename Element>                                        \
  static constexpr Functions functions##name = {                               \
      readTiles##name<edge, Element>, expandTiles##name<edge, Element>,        \
      writeWindows##name<edge>};

PP_FOR_PROCESSOR(Avx2, "avx2", false)
PP_FOR_PROCESSOR(Avx512, "avx512f", true)

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

static uint64_t rowBytes(const Sizes &shape, const ProductTiles &registers) {
  Rows rows(shape, registers, chunkOf(shape));
  return alignUp(shape.points() * rows.ofPoint * sizeof(float));
}

static uint64_t panelBytes(const Sizes &shape, const ProductTiles &registers) {
  Panels panels(shape, registers, chunkOf(shape));
  return alignUp(shape.points() * panels.ofPoint * sizeof(float));
}

uint64_t WinogradGradient::getScratchpadBytes() const {
  if (shape.inPairs)
    return WinogradPairGradient(shape, isAdded).getScratchpadBytes();
  const bool isOneChunk = chunkOf(shape) == shape.tiles();
  return rowBytes(shape, registers) + panelBytes(shape, registers) +
         alignUp(blocksOf(shape).countSums(shape, isOneChunk) * sizeof(float));
}

void WinogradGradient::run(const void *x, const void *dy, float *gradient,
                           void *scratchpad) const {
  if (shape.inPairs)
    return WinogradPairGradient(shape, isAdded)
        .run(static_cast<const uint16_t *>(x),
             static_cast<const uint16_t *>(dy), gradient,
             static_cast<char *>(scratchpad));
  auto *bytes = static_cast<char *>(scratchpad);
  auto *numbers = reinterpret_cast<float *>(bytes);
  bytes += rowBytes(shape, registers);
  auto *factors = reinterpret_cast<float *>(bytes);
  bytes += panelBytes(shape, registers);
  const Functions &work = functionsFor(shape, registers);
  const int64_t chunk = chunkOf(shape), tiles = shape.tiles();
  for (int64_t first = 0; first < tiles; first += chunk) {
    const int64_t count = std::min(chunk, tiles - first);
    const Rows rows(shape, registers, count);
    const Panels panels(shape, registers, count);
    work.readTiles(shape, rows, x, first, count, numbers);
    work.expandTiles(shape, panels, dy, first, count, factors);
    auto *sums = reinterpret_cast<float *>(bytes);
    blocksOf(shape).forEach(shape, [&](const GradientBlock &block) {
      for (int64_t point = 0; point < shape.points(); ++point)
        registers.multiplyBlock(
            factors + point * panels.ofPoint + block.output * count,
            /*aStride=*/0, numbers + point * rows.ofPoint + block.channel,
            lanes, rows.pitch, block.outputs, block.channels, count,
            sums + point * block.ofPoint(), block.channels,
            /*isAdded=*/first > 0);
      if (first + count == tiles)
        work.writeWindows(shape, block, sums, gradient, isAdded);
      if (chunk != tiles)
        sums += shape.points() * block.ofPoint();
    });
  }
}
