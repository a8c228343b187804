//===- WinogradTiles.h - Tiles of images, transformed ---------------------===//
//
// What WinogradConvolution and WinogradGradient have in common: the transforms
// of rows and columns, and of tiles of x. Included by files that compile
// functions for several processors, into which everything here is inlined.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_WINOGRADTILES_H
#define PP_RUNTIME_CPU_WINOGRADTILES_H

#include "cpu/ChannelLanes.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/TransposeRows.h"
#include "cpu/WinogradConvolution.h"

#include <cstring>

namespace pp::runtime::winograd {

using Sizes = WinogradConvolution::Shape;

inline constexpr int64_t lanes = WinogradConvolution::multiple;
static_assert(lanes == panelColumns);

/// A number for each of 16 channels.
using Lanes = LanesOf<lanes>;

/// Types of elements; that of bf16 is its bits.
using Long = float;
using Short = uint16_t;

template <typename Element> PP_INLINE Lanes load(const Element *from) {
  return loadLanes<lanes>(from);
}
template <typename Element>
PP_INLINE void store(Element *to, const Lanes &value) {
  storeLanes<lanes>(to, value);
}

/// Calls `make` with the edge of the tiles and the type of elements as template
/// arguments.
template <typename Function>
decltype(auto) withTypes(const Sizes &shape, Function make) {
  if (shape.edge == 2)
    return shape.isShort ? make.template operator()<2, Short>()
                         : make.template operator()<2, Long>();
  return shape.isShort ? make.template operator()<4, Short>()
                       : make.template operator()<4, Long>();
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

/// The matrices for tiles of `edge` x `edge`, and for the gradient of a window
/// those transposed; results are `step` apart. A
/// vector has a number for each of some channels. Sums have one order, and what
/// includes this is compiled without contraction.
template <int edge> struct Transform;

/// Of the points 0, 1, -1 and infinity.
template <> struct Transform<2> {
  /// Three numbers of a window become four.
  template <typename Vector>
  PP_INLINE void window(const Vector &a, const Vector &b, const Vector &c,
                        Vector *to, int64_t step) {
    // Halves are exact.
    Vector sum = a + c;
    to[0] = a;
    to[step] = (sum + b) * 0.5F;
    to[2 * step] = (sum - b) * 0.5F;
    to[3 * step] = c;
  }
  /// Four numbers of x, which may lie where the results go.
  template <typename Vector>
  PP_INLINE void pixels(const Vector *from, Vector *to, int64_t step) {
    Vector a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
    to[0] = a - c;
    to[step] = b + c;
    to[2 * step] = c - b;
    to[3 * step] = b - d;
  }
  /// Two numbers of y from four.
  template <typename Vector>
  PP_INLINE void sums(const Vector *from, int64_t fromStep, Vector *to,
                      int64_t step) {
    Vector a = from[0], b = from[fromStep], c = from[2 * fromStep],
           d = from[3 * fromStep];
    to[0] = a + b + c;
    to[step] = b - c - d;
  }
  /// Four numbers from two of the gradient of y.
  template <typename Vector>
  PP_INLINE void expand(const Vector *from, int64_t fromStep, Vector *to,
                        int64_t step) {
    Vector a = from[0], b = from[fromStep];
    to[0] = a;
    to[step] = a + b;
    to[2 * step] = a - b;
    to[3 * step] = -b;
  }
  /// Three numbers of the gradient of a window from four.
  template <typename Vector>
  PP_INLINE void windowSums(const Vector *from, int64_t fromStep, Vector *to,
                            int64_t step) {
    Vector b = from[fromStep], c = from[2 * fromStep];
    Vector sum = (b + c) * 0.5F;
    to[0] = from[0] + sum;
    to[step] = (b - c) * 0.5F;
    to[2 * step] = sum + from[3 * fromStep];
  }
};

/// Of the points 0, a, -a, b, -b and infinity: with 5/8 and 3/2, errors of
/// rounding are half of those with 1 and 2, and the largest a quarter
/// (measured; Barabasz, Anderson, Soodhalter, Gregg, "Error Analysis and
/// Improving the Accuracy of Winograd Convolution for Deep Neural Networks",
/// arXiv 1803.10986). All factors of pixels are exact.
template <> struct Transform<4> {
  static constexpr float a = 0.625F, b = 1.5F, aa = a * a, bb = b * b;

  static constexpr float byA = 1 / (2 * aa * (aa - bb)),
                         byB = 1 / (2 * bb * (bb - aa));

  template <typename Vector>
  PP_INLINE void window(const Vector &g0, const Vector &g1, const Vector &g2,
                        Vector *to, int64_t step) {
    Vector evenA = (g0 + g2 * aa) * byA, oddA = g1 * (a * byA);
    Vector evenB = (g0 + g2 * bb) * byB, oddB = g1 * (b * byB);
    to[0] = g0 * (1 / (aa * bb));
    to[step] = evenA + oddA;
    to[2 * step] = evenA - oddA;
    to[3 * step] = evenB + oddB;
    to[4 * step] = evenB - oddB;
    to[5 * step] = g2;
  }
  template <typename Vector>
  PP_INLINE void pixels(const Vector *from, Vector *to, int64_t step) {
    Vector d0 = from[0], d1 = from[step], d2 = from[2 * step],
           d3 = from[3 * step], d4 = from[4 * step], d5 = from[5 * step];
    Vector evenA = d4 - d2 * bb, oddA = (d3 - d1 * bb) * a;
    Vector evenB = d4 - d2 * aa, oddB = (d3 - d1 * aa) * b;
    to[0] = d0 * (aa * bb) - d2 * (aa + bb) + d4;
    to[step] = evenA + oddA;
    to[2 * step] = evenA - oddA;
    to[3 * step] = evenB + oddB;
    to[4 * step] = evenB - oddB;
    to[5 * step] = d1 * (aa * bb) - d3 * (aa + bb) + d5;
  }
  template <typename Vector>
  PP_INLINE void sums(const Vector *from, int64_t fromStep, Vector *to,
                      int64_t step) {
    Vector m1 = from[fromStep], m2 = from[2 * fromStep],
           m3 = from[3 * fromStep], m4 = from[4 * fromStep];
    Vector evenA = m1 + m2, oddA = m1 - m2, evenB = m3 + m4, oddB = m3 - m4;
    to[0] = from[0] + evenA + evenB;
    to[step] = oddA * a + oddB * b;
    to[2 * step] = evenA * aa + evenB * bb;
    to[3 * step] = oddA * (a * aa) + oddB * (b * bb) + from[5 * fromStep];
  }
  template <typename Vector>
  PP_INLINE void expand(const Vector *from, int64_t fromStep, Vector *to,
                        int64_t step) {
    Vector y0 = from[0], y1 = from[fromStep], y2 = from[2 * fromStep],
           y3 = from[3 * fromStep];
    Vector evenA = y0 + y2 * aa, oddA = (y1 + y3 * aa) * a;
    Vector evenB = y0 + y2 * bb, oddB = (y1 + y3 * bb) * b;
    to[0] = y0;
    to[step] = evenA + oddA;
    to[2 * step] = evenA - oddA;
    to[3 * step] = evenB + oddB;
    to[4 * step] = evenB - oddB;
    to[5 * step] = y3;
  }
  template <typename Vector>
  PP_INLINE void windowSums(const Vector *from, int64_t fromStep, Vector *to,
                            int64_t step) {
    Vector m1 = from[fromStep], m2 = from[2 * fromStep],
           m3 = from[3 * fromStep], m4 = from[4 * fromStep];
    Vector evenA = (m1 + m2) * byA, oddA = (m1 - m2) * (a * byA);
    Vector evenB = (m3 + m4) * byB, oddB = (m3 - m4) * (b * byB);
    to[0] = from[0] * (1 / (aa * bb)) + evenA + evenB;
    to[step] = oddA + oddB;
    to[2 * step] = evenA * aa + evenB * bb + from[5 * fromStep];
  }
};

/// The numbers of all points, of a window of 3 x 3.
template <int edge>
PP_INLINE void transformWindow(const Lanes *window, Lanes *to) {
  constexpr int side = edge + 2;
  Lanes rows[3][side];
  for (int64_t i = 0; i < 3; ++i)
    Transform<edge>::window(window[3 * i], window[3 * i + 1], window[3 * i + 2],
                            rows[i], 1);
  for (int64_t i = 0; i < side; ++i)
    Transform<edge>::window(rows[0][i], rows[1][i], rows[2][i], to + i, side);
}

//===----------------------------------------------------------------------===//
// Windows of 3 x 3 in memory, without AVX-512
//===----------------------------------------------------------------------===//

inline constexpr int64_t windowSize = 9, halfLanes = 8;

/// 16 windows that are `stride` numbers apart become 16 numbers of each place.
__attribute__((target("avx2"))) inline void
readWindowsAvx2(const float *from, int64_t stride, float *numbers) {
  for (int64_t half = 0; half < lanes; half += halfLanes) {
    HalfRows rows;
    for (int64_t i = 0; i < halfLanes; ++i, from += stride) {
      rows[i] = _mm256_loadu_ps(from);
      numbers[halfLanes * lanes + half + i] = from[halfLanes];
    }
    transposeRows(rows);
    for (int64_t i = 0; i < halfLanes; ++i)
      _mm256_storeu_ps(numbers + i * lanes + half, rows[i]);
  }
}

/// The other way, to windows that lie one after the other.
__attribute__((target("avx2"))) inline void
writeWindowsAvx2(const float *numbers, float *to) {
  for (int64_t half = 0; half < lanes; half += halfLanes) {
    HalfRows rows;
    for (int64_t i = 0; i < halfLanes; ++i)
      rows[i] = _mm256_loadu_ps(numbers + i * lanes + half);
    transposeRows(rows);
    for (int64_t i = 0; i < halfLanes; ++i, to += windowSize) {
      _mm256_storeu_ps(to, rows[i]);
      to[halfLanes] = numbers[halfLanes * lanes + half + i];
    }
  }
}

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
  // From row to row, from point to point, and from 16 channels to the next.
  int64_t pitch, ofPoint, ofPanel = lanes;

  Rows(const Sizes &shape, const ProductTiles &registers, int64_t tiles)
      // Rows that are a power of two apart would share places of the cache.
      : pitch(shape.channels + lanes),
        ofPoint((tiles + registers.rows - 1) / registers.rows * registers.rows *
                pitch) {}
  Rows(int64_t pitch, int64_t ofPoint, int64_t ofPanel)
      : pitch(pitch), ofPoint(ofPoint), ofPanel(ofPanel) {}
};

template <typename Vector>
inline constexpr int widthOf = sizeof(Vector) / sizeof(float);

/// Transforms the channels of a vector of a tile: the numbers of all points.
template <int edge, typename Element, typename Vector>
PP_INLINE void transformTile(const Sizes &shape, const Element *x,
                             const Tile &tile, Vector *to) {
  constexpr int side = edge + 2, width = widthOf<Vector>;
  Vector pixels[side * side];
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
        pixels[side * i + j] = loadLanes<width>(corner + i * down + j * right);
  } else {
    for (int64_t i = 0; i < side; ++i)
      for (int64_t j = 0; j < side; ++j) {
        bool isPixel = top + i >= 0 && top + i < shape.height &&
                       left + j >= 0 && left + j < shape.width;
        pixels[side * i + j] =
            isPixel ? loadLanes<width>(corner + i * down + j * right)
                    : Vector{};
      }
  }
  for (int64_t j = 0; j < side; ++j)
    Transform<edge>::pixels(pixels + j, pixels + j, side);
  for (int64_t i = 0; i < side; ++i)
    Transform<edge>::pixels(pixels + side * i, to + side * i, 1);
}

/// Writes them `pitch` apart, of `width` channels.
template <int edge, int width, typename Element>
PP_INLINE void readTile(const Sizes &shape, const Element *x, const Tile &tile,
                        float *to, int64_t pitch) {
  LanesOf<width> all[(edge + 2) * (edge + 2)];
  transformTile<edge>(shape, x, tile, all);
  for (const LanesOf<width> &point : all) {
    storeLanes<width>(to, point);
    to += pitch;
  }
}

/// As many channels as a register has, so that what is transformed stays in
/// registers.
template <int edge, int width, typename Element>
PP_INLINE void readTilesBody(const Sizes &shape, const Rows &rows,
                             const Element *x, int64_t first, int64_t count,
                             float *to) {
  for (int64_t number = 0; number < count; ++number, to += rows.pitch) {
    const Tile tile(shape, first + number);
    for (int64_t channel = 0; channel < shape.channels; channel += width)
      readTile<edge, width>(
          shape, x + shape.x.offsetOfChannel(channel), tile,
          to + channel / lanes * rows.ofPanel + channel % lanes, rows.ofPoint);
  }
}

/// Transforms the outputs of a vector of a tile of dY: the numbers of all
/// points.
template <int edge, typename Element, typename Vector>
PP_INLINE void expandTile(const Sizes &shape, const Element *dy,
                          const Tile &tile, Vector *to) {
  constexpr int side = edge + 2, width = widthOf<Vector>;
  const int64_t down = shape.y.axes[1], right = shape.y.axes[2];
  const Element *corner =
      dy + tile.sample * shape.y.sample + tile.row * down + tile.column * right;
  Vector pixels[edge][edge], rows[side][edge];
  for (int64_t i = 0; i < edge; ++i)
    for (int64_t j = 0; j < edge; ++j) {
      bool isPixel =
          tile.row + i < shape.rows && tile.column + j < shape.columns;
      pixels[i][j] =
          isPixel ? loadLanes<width>(corner + i * down + j * right) : Vector{};
    }
  for (int64_t j = 0; j < edge; ++j)
    Transform<edge>::expand(pixels[0] + j, edge, rows[0] + j, edge);
  for (int64_t i = 0; i < side; ++i)
    Transform<edge>::expand(rows[i], 1, to + i * side, 1);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Outputs whose products are made at a time.
inline constexpr int64_t outputBlock = 64;

template <typename Vector>
PP_INLINE void finish(const Vector &value, const ConvEpilogue &epilogue,
                      Long *to) {
  storeLanes<widthOf<Vector>>(to, value);
  epilogue.apply(to, widthOf<Vector>);
}
template <typename Vector>
PP_INLINE void finish(const Vector &value, const ConvEpilogue &epilogue,
                      Short *to) {
  constexpr int width = widthOf<Vector>;
  float numbers[width];
  storeLanes<width>(numbers, value);
  epilogue.apply(numbers, width);
  storeLanes<width>(to, loadLanes<width>(numbers));
}

/// Of the outputs of a vector, from the products of all points: those of a
/// point are `pitch` apart. A bias has a number for each output; a residual
/// lies as y does.
template <int edge, int width, typename Element>
PP_INLINE void writeTile(const Sizes &shape, const float *products,
                         int64_t pitch, const Tile &tile,
                         const ConvSummands &summands,
                         const ConvEpilogue &epilogue, Element *y) {
  using Vector = LanesOf<width>;
  constexpr int side = edge + 2, points = side * side;
  const float *bias = summands.bias, *residual = summands.residual;
  const Vector shift = bias ? loadLanes<width>(bias) : Vector{};
  Vector all[points], rows[edge][side], pixels[edge][edge];
  for (int64_t point = 0; point < points; ++point)
    all[point] = loadLanes<width>(products + point * pitch);
  for (int64_t j = 0; j < side; ++j)
    Transform<edge>::sums(all + j, side, rows[0] + j, side);
  for (int64_t i = 0; i < edge; ++i)
    Transform<edge>::sums(rows[i], 1, pixels[i], 1);
  for (int64_t i = 0; i < edge; ++i)
    for (int64_t j = 0; j < edge; ++j) {
      int64_t row = tile.row + i, column = tile.column + j;
      if (row >= shape.rows || column >= shape.columns)
        continue;
      const int64_t place = tile.sample * shape.y.sample +
                            row * shape.y.axes[1] + column * shape.y.axes[2];
      Vector sum = bias ? pixels[i][j] + shift : pixels[i][j];
      if (residual)
        sum += loadLanes<width>(residual + place);
      finish(sum, epilogue, y + place);
    }
}

/// Of 16 outputs; `products` are of the first tile.
template <int edge, int width, typename Element>
PP_INLINE void writeTilesBody(const Sizes &shape, const float *products,
                              int64_t pitch, int64_t first, int64_t count,
                              const ConvSummands &summands,
                              const ConvEpilogue &epilogue, Element *y) {
  for (int64_t number = 0; number < count; ++number) {
    const Tile tile(shape, first + number);
    for (int64_t lane = 0; lane < lanes; lane += width) {
      const int64_t offset = shape.y.offsetOfChannel(lane);
      const ConvSummands own = {summands.bias ? summands.bias + lane : nullptr,
                                summands.residual ? summands.residual + offset
                                                  : nullptr};
      writeTile<edge, width>(shape, products + number * outputBlock + lane,
                             pitch, tile, own, epilogue, y + offset);
    }
  }
}

} // namespace pp::runtime::winograd

#endif // PP_RUNTIME_CPU_WINOGRADTILES_H
