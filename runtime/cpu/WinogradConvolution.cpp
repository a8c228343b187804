//===- WinogradConvolution.cpp --------------------------------------------===//
#include "cpu/WinogradConvolution.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/TiledProduct.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;
using Sizes = WinogradConvolution::Shape;
using Direction = WinogradConvolution::Direction;

#define PP_INLINE __attribute__((always_inline)) static inline

static constexpr int64_t lanes = WinogradConvolution::multiple;
static_assert(lanes == panelColumns);
/// Terms and outputs at a time.
static constexpr int64_t termBlock = 256, outputBlock = 64;

/// Tiles at a time: their numbers, and the products of a block of outputs, stay
/// in L2 (measured on Zen 4), but weights that no cache holds are read seldom.
static int64_t chunkOf(const Sizes &shape) {
  constexpr uint64_t cached = 16 << 20;
  bool isCached = WinogradConvolution::getWeightBytes(shape) <= cached;
  return std::min<int64_t>(shape.tiles(), isCached ? 24 : 96);
}

/// A number for each of 16 channels; the compiler divides it among registers.
using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));
using Words = uint32_t __attribute__((vector_size(lanes * sizeof(uint32_t))));
using Halves = uint16_t __attribute__((vector_size(lanes * sizeof(uint16_t))));

/// Types of elements; that of bf16 is its bits.
using Long = float;
using Short = uint16_t;

PP_INLINE Lanes load(const Long *from) {
  Lanes result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}
PP_INLINE Lanes load(const Short *from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<Lanes>(__builtin_convertvector(bits, Words) << 16);
}
PP_INLINE void store(Long *to, const Lanes &value) {
  std::memcpy(to, &value, sizeof(value));
}
/// Rounds to the nearest, ties to even.
PP_INLINE void store(Short *to, const Lanes &value) {
  Words bits = reinterpret_cast<Words>(value);
  Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  Words quiet = (bits >> 16) | 0x40;
  auto isNumber = reinterpret_cast<Words>(value == value);
  Halves result = __builtin_convertvector(
      (rounded & isNumber) | (quiet & ~isNumber), Halves);
  std::memcpy(to, &result, sizeof(result));
}
PP_INLINE float widen(Long value) { return value; }
PP_INLINE float widen(Short value) {
  uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

//===----------------------------------------------------------------------===//
// One row or column
//===----------------------------------------------------------------------===//

namespace {
/// The matrices G, B^T and A^T for tiles of `edge` x `edge`; results are `step`
/// apart. Sums have one order, and the file is compiled without contraction.
template <int edge> struct Transform;

/// Of the points 0, 1, -1 and infinity.
template <> struct Transform<2> {
  /// Three numbers of a window become four.
  PP_INLINE void window(const Lanes &a, const Lanes &b, const Lanes &c,
                        Lanes *to, int64_t step) {
    // Halves are exact.
    Lanes sum = a + c;
    to[0] = a;
    to[step] = (sum + b) * 0.5F;
    to[2 * step] = (sum - b) * 0.5F;
    to[3 * step] = c;
  }
  /// Four numbers of x, which may lie where the results go.
  PP_INLINE void pixels(const Lanes *from, Lanes *to, int64_t step) {
    Lanes a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
    to[0] = a - c;
    to[step] = b + c;
    to[2 * step] = c - b;
    to[3 * step] = b - d;
  }
  /// Two numbers of y from four.
  PP_INLINE void sums(const Lanes *from, int64_t fromStep, Lanes *to,
                      int64_t step) {
    Lanes a = from[0], b = from[fromStep], c = from[2 * fromStep],
          d = from[3 * fromStep];
    to[0] = a + b + c;
    to[step] = b - c - d;
  }
};

/// Of the points 0, a, -a, b, -b and infinity: with 5/8 and 3/2 errors of
/// rounding are a third of those with 1 and 2 (measured; Barabasz, Anderson,
/// Soodhalter, Gregg, "Error Analysis and Improving the Accuracy of Winograd
/// Convolution for Deep Neural Networks", arXiv 1803.10986). All factors of
/// pixels are exact.
template <> struct Transform<4> {
  static constexpr float a = 0.625F, b = 1.5F, aa = a * a, bb = b * b;

  PP_INLINE void window(const Lanes &g0, const Lanes &g1, const Lanes &g2,
                        Lanes *to, int64_t step) {
    constexpr float byA = 1 / (2 * aa * (aa - bb)),
                    byB = 1 / (2 * bb * (bb - aa));
    Lanes evenA = (g0 + g2 * aa) * byA, oddA = g1 * (a * byA);
    Lanes evenB = (g0 + g2 * bb) * byB, oddB = g1 * (b * byB);
    to[0] = g0 * (1 / (aa * bb));
    to[step] = evenA + oddA;
    to[2 * step] = evenA - oddA;
    to[3 * step] = evenB + oddB;
    to[4 * step] = evenB - oddB;
    to[5 * step] = g2;
  }
  PP_INLINE void pixels(const Lanes *from, Lanes *to, int64_t step) {
    Lanes d0 = from[0], d1 = from[step], d2 = from[2 * step],
          d3 = from[3 * step], d4 = from[4 * step], d5 = from[5 * step];
    Lanes evenA = d4 - d2 * bb, oddA = (d3 - d1 * bb) * a;
    Lanes evenB = d4 - d2 * aa, oddB = (d3 - d1 * aa) * b;
    to[0] = d0 * (aa * bb) - d2 * (aa + bb) + d4;
    to[step] = evenA + oddA;
    to[2 * step] = evenA - oddA;
    to[3 * step] = evenB + oddB;
    to[4 * step] = evenB - oddB;
    to[5 * step] = d1 * (aa * bb) - d3 * (aa + bb) + d5;
  }
  PP_INLINE void sums(const Lanes *from, int64_t fromStep, Lanes *to,
                      int64_t step) {
    Lanes m1 = from[fromStep], m2 = from[2 * fromStep], m3 = from[3 * fromStep],
          m4 = from[4 * fromStep];
    Lanes evenA = m1 + m2, oddA = m1 - m2, evenB = m3 + m4, oddB = m3 - m4;
    to[0] = from[0] + evenA + evenB;
    to[step] = oddA * a + oddB * b;
    to[2 * step] = evenA * aa + evenB * bb;
    to[3 * step] = oddA * (a * aa) + oddB * (b * bb) + from[5 * fromStep];
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

template <int edge, typename Element>
PP_INLINE void transformWeightsBody(const Sizes &shape, const Element *weights,
                                    Direction direction, float *to) {
  constexpr int side = edge + 2, points = side * side;
  const bool isBackward = direction == Direction::Backward;
  const int64_t channels = shape.channels, outputs = shape.outputs;
  const int64_t outputStride = isBackward ? 9 : 9 * channels;
  const int64_t channelStride = isBackward ? 9 * outputs : 9;
  for (int64_t output = 0; output < outputs; output += lanes)
    for (int64_t channel = 0; channel < channels; ++channel) {
      float window[9][lanes];
      const Element *from =
          weights + output * outputStride + channel * channelStride;
      for (int64_t lane = 0; lane < lanes; ++lane, from += outputStride)
        for (int64_t i = 0; i < 9; ++i)
          window[i][lane] = widen(from[isBackward ? 8 - i : i]);
      Lanes rows[3][side], all[points];
      for (int64_t i = 0; i < 3; ++i)
        Transform<edge>::window(load(window[3 * i]), load(window[3 * i + 1]),
                                load(window[3 * i + 2]), rows[i], 1);
      for (int64_t i = 0; i < side; ++i)
        Transform<edge>::window(rows[0][i], rows[1][i], rows[2][i], all + i,
                                side);
      for (int64_t point = 0; point < points; ++point)
        store(to + ((output / lanes * points + point) * channels + channel) *
                       lanes,
              all[point]);
    }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

namespace {
/// Where a tile is.
struct Tile {
  int64_t sample, row, column; // of y

  Tile(const Sizes &shape, int64_t number) {
    int64_t column = number % shape.tileColumns();
    number /= shape.tileColumns();
    sample = number / shape.tileRows();
    row = shape.edge * (number % shape.tileRows());
    this->column = shape.edge * column;
  }
};

/// What a chunk of tiles is made into: for each point, a row of channels for
/// each tile.
struct Rows {
  int64_t pitch, ofPoint; // from row to row, and from point to point

  Rows(const Sizes &shape, const ProductTiles &registers, int64_t tiles)
      // Rows that are a power of two apart would share places of the cache.
      : pitch(shape.channels + lanes),
        ofPoint((tiles + registers.rows - 1) / registers.rows * registers.rows *
                pitch) {}
};
} // namespace

/// Transforms 16 channels of a tile; the points are `pitch` apart.
template <int edge, typename Element>
PP_INLINE void readTile(const Sizes &shape, const Element *x, const Tile &tile,
                        float *to, int64_t pitch) {
  constexpr int side = edge + 2;
  Lanes pixels[side * side];
  const int64_t top = tile.row - shape.padTop,
                left = tile.column - shape.padLeft;
  const int64_t down = shape.x.axes[1], right = shape.x.axes[2];
  const Element *corner =
      x + tile.sample * shape.x.sample + top * down + left * right;
  bool isInside = top >= 0 && left >= 0 && top + side <= shape.height &&
                  left + side <= shape.width;
  if (isInside) {
    for (int64_t i = 0; i < side; ++i)
      for (int64_t j = 0; j < side; ++j)
        pixels[side * i + j] = load(corner + i * down + j * right);
  } else {
    for (int64_t i = 0; i < side; ++i)
      for (int64_t j = 0; j < side; ++j) {
        bool isPixel = top + i >= 0 && top + i < shape.height &&
                       left + j >= 0 && left + j < shape.width;
        pixels[side * i + j] =
            isPixel ? load(corner + i * down + j * right) : Lanes{};
      }
  }
  for (int64_t j = 0; j < side; ++j)
    Transform<edge>::pixels(pixels + j, pixels + j, side);
  for (int64_t i = 0; i < side; ++i) {
    Lanes row[side];
    Transform<edge>::pixels(pixels + side * i, row, 1);
    for (int64_t j = 0; j < side; ++j)
      store(to + (side * i + j) * pitch, row[j]);
  }
}

template <int edge, typename Element>
PP_INLINE void readTilesBody(const Sizes &shape, const Rows &rows,
                             const Element *x, int64_t first, int64_t count,
                             float *to) {
  for (int64_t number = 0; number < count; ++number, to += rows.pitch) {
    const Tile tile(shape, first + number);
    for (int64_t channel = 0; channel < shape.channels; channel += lanes)
      readTile<edge>(shape, x + shape.x.offsetOfChannel(channel), tile,
                     to + channel, rows.ofPoint);
  }
}

PP_INLINE void finish(const Lanes &value, const ConvEpilogue &epilogue,
                      Long *to) {
  store(to, value);
  epilogue.apply(to, lanes);
}
PP_INLINE void finish(const Lanes &value, const ConvEpilogue &epilogue,
                      Short *to) {
  float numbers[lanes];
  store(numbers, value);
  epilogue.apply(numbers, lanes);
  store(to, load(numbers));
}

/// Of 16 outputs, from the products of all points: `products` are of the first
/// tile, those of a point `pitch` apart.
template <int edge, typename Element>
PP_INLINE void writeTilesBody(const Sizes &shape, const float *products,
                              int64_t pitch, int64_t first, int64_t count,
                              const float *bias, const ConvEpilogue &epilogue,
                              Element *y) {
  constexpr int side = edge + 2, points = side * side;
  const Lanes shift = bias ? load(bias) : Lanes{};
  for (int64_t number = 0; number < count; ++number) {
    const Tile tile(shape, first + number);
    Lanes all[points], rows[edge][side], pixels[edge][edge];
    for (int64_t point = 0; point < points; ++point)
      all[point] = load(products + point * pitch + number * outputBlock);
    for (int64_t j = 0; j < side; ++j)
      Transform<edge>::sums(all + j, side, rows[0] + j, side);
    for (int64_t i = 0; i < edge; ++i)
      Transform<edge>::sums(rows[i], 1, pixels[i], 1);
    for (int64_t i = 0; i < edge; ++i)
      for (int64_t j = 0; j < edge; ++j) {
        int64_t row = tile.row + i, column = tile.column + j;
        if (row >= shape.rows || column >= shape.columns)
          continue;
        Element *to = y + tile.sample * shape.y.sample + row * shape.y.axes[1] +
                      column * shape.y.axes[2];
        finish(bias ? pixels[i][j] + shift : pixels[i][j], epilogue, to);
      }
  }
}

//===----------------------------------------------------------------------===//
// For each processor
//===----------------------------------------------------------------------===//

namespace {
struct Functions {
  void (*transformWeights)(const Sizes &shape, const void *weights,
                           Direction direction, float *to);
  void (*readTiles)(const Sizes &shape, const Rows &rows, const void *x,
                    int64_t first, int64_t count, float *panels);
  /// `offset` is that of the first output, in elements of y.
  void (*writeTiles)(const Sizes &shape, const float *products, int64_t pitch,
                     int64_t first, int64_t count, const float *bias,
                     const ConvEpilogue &epilogue, void *y, int64_t offset);
};
} // namespace

#define PP_FOR_PROCESSOR(name, features)                                       \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void transformWeights##name(        \
      const Sizes &shape, const void *weights, Direction direction,            \
      float *to) {                                                             \
    transformWeightsBody<edge>(shape, static_cast<const Element *>(weights),   \
                               direction, to);                                 \
  }                                                                            \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void readTiles##name(               \
      const Sizes &shape, const Rows &rows, const void *x, int64_t first,      \
      int64_t count, float *panels) {                                          \
    readTilesBody<edge>(shape, rows, static_cast<const Element *>(x), first,   \
                        count, panels);                                        \
  }                                                                            \
  template <int edge, typename Element>                                        \
  __attribute__((target(features))) static void writeTiles##name(              \
      const Sizes &shape, const float *products, int64_t pitch, int64_t first, \
      int64_t count, const float *bias, const ConvEpilogue &epilogue, void *y, \
      int64_t offset) {                                                        \
    writeTilesBody<edge>(shape, products, pitch, first, count, bias, epilogue, \
                         static_cast<Element *>(y) + offset);                  \
  }                                                                            \
  template <int edge, typename Element>                                        \
  static constexpr Functions functions##name = {                               \
      transformWeights##name<edge, Element>, readTiles##name<edge, Element>,   \
      writeTiles##name<edge, Element>};

PP_FOR_PROCESSOR(Avx2, "avx2")
PP_FOR_PROCESSOR(Avx512, "avx512f")

template <int edge, typename Element>
static const Functions &functionsOf(const ProductTiles &registers) {
  return &registers == &productTilesAvx512 ? functionsAvx512<edge, Element>
                                           : functionsAvx2<edge, Element>;
}

static const Functions &functionsFor(const Sizes &shape,
                                     const ProductTiles &registers) {
  if (shape.edge == 2)
    return shape.isShort ? functionsOf<2, Short>(registers)
                         : functionsOf<2, Long>(registers);
  return shape.isShort ? functionsOf<4, Short>(registers)
                       : functionsOf<4, Long>(registers);
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

bool WinogradConvolution::isPossible(const Shape &shape) {
  return TiledProduct::isPossible() && shape.channels % multiple == 0 &&
         shape.outputs % multiple == 0;
}

void WinogradConvolution::transformWeights(const Shape &shape,
                                           const void *weights,
                                           Direction direction, float *to,
                                           const ProductTiles &registers) {
  functionsFor(shape, registers)
      .transformWeights(shape, weights, direction, to);
}

static uint64_t rowBytes(const Sizes &shape, const ProductTiles &registers) {
  Rows rows(shape, registers, chunkOf(shape));
  return alignUp(shape.points() * rows.ofPoint * sizeof(float));
}

uint64_t WinogradConvolution::getScratchpadBytes() const {
  return rowBytes(shape, registers) +
         shape.points() * chunkOf(shape) * outputBlock * sizeof(float);
}

void WinogradConvolution::run(const void *x, const float *weights,
                              const float *bias, const ConvEpilogue &epilogue,
                              void *y, void *scratchpad) const {
  auto *numbers = static_cast<float *>(scratchpad);
  auto *products = reinterpret_cast<float *>(static_cast<char *>(scratchpad) +
                                             rowBytes(shape, registers));
  const Functions &work = functionsFor(shape, registers);
  const int64_t points = shape.points(), chunk = chunkOf(shape);
  const int64_t weightPanel = points * shape.channels * lanes;
  for (int64_t first = 0; first < shape.tiles(); first += chunk) {
    int64_t count = std::min(chunk, shape.tiles() - first);
    const int64_t pitch = count * outputBlock;
    const Rows rows(shape, registers, count);
    work.readTiles(shape, rows, x, first, count, numbers);
    for (int64_t output = 0; output < shape.outputs; output += outputBlock) {
      int64_t outputs = std::min(outputBlock, shape.outputs - output);
      for (int64_t point = 0; point < points; ++point)
        for (int64_t term = 0; term < shape.channels; term += termBlock)
          registers.multiplyBlock(
              numbers + point * rows.ofPoint + term, rows.pitch,
              weights + output / lanes * weightPanel +
                  (point * shape.channels + term) * lanes,
              weightPanel, lanes, count, outputs,
              std::min(termBlock, shape.channels - term),
              products + point * pitch, outputBlock, /*isAdded=*/term > 0);
      for (int64_t lane = 0; lane < outputs; lane += lanes)
        work.writeTiles(shape, products + lane, pitch, first, count,
                        bias ? bias + output + lane : nullptr, epilogue, y,
                        shape.y.offsetOfChannel(output + lane));
    }
  }
}
