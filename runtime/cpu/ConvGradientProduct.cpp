//===- ConvGradientProduct.cpp --------------------------------------------===//
#include "cpu/ConvGradientProduct.h"
#include "cpu/Processor.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <type_traits>

using namespace pp::runtime;

bool ConvGradientProduct::isPreferred(const Shape &shape) {
  constexpr int64_t leastWeights = 1 << 18;
  // The library's products of bf16 are twice as fast, or more.
  bool isFast = shape.isShort && hasFastBFloat16();
  // Of 8 images of 7 x 7 pixels, the library's code for Intel takes 1.1 to 1.75
  // times as long, and for AVX2 1.05 to 1.3; of more pixels, less.
  const int64_t mostOfFloats = isFromIntel() || !hasAvx512() ? 512 : 256;
  const int64_t mostPixels = !isFast ? mostOfFloats : hasMatrixTiles() ? 0 : 64;
  return TiledProduct::isPossible() && shape.columns() % panelColumns == 0 &&
         shape.pixels() <= mostPixels &&
         // What the windows see takes no more memory than the weights.
         shape.pixels() <= shape.outputs &&
         shape.outputs * shape.columns() >= leastWeights;
}

static TiledProduct makeProduct(const ConvGradientProduct::Shape &shape,
                                bool isReadInPlace) {
  TiledProduct::Matrix a, b, c;
  a.rowStride = isReadInPlace ? shape.dy.block : shape.pixels();
  a.columnStride = isReadInPlace ? shape.dy.axes.back() : 1;
  b.rowStride = panelColumns;
  b.columnStride = 1;
  c.rowStride = shape.columns();
  c.columnStride = 1;
  TiledProduct product({}, shape.outputs, shape.pixels(), shape.columns(), a, b,
                       c, shape.isAdded);
  product.setPacked();
  return product;
}

ConvGradientProduct::ConvGradientProduct(const Shape &shape)
    : shape(shape), product(makeProduct(shape, isReadInPlace())) {}

bool ConvGradientProduct::Shape::isUniform() const {
  int64_t step = dy.axes.back();
  for (size_t axis = result.size(); axis-- > 0;) {
    if (result[axis] > 1 && dy.axes[axis] != step)
      return false;
    step *= result[axis];
  }
  return samples == 1 || dy.sample == step;
}

MatrixTileProduct ConvGradientProduct::productOfPairs() const {
  MatrixTileProduct result(shape.outputs, shape.pixels(), shape.columns(),
                           /*a=*/{shape.pixels(), 1}, /*b=*/{0, 0},
                           /*c=*/{shape.columns(), 1}, /*isShort=*/false,
                           shape.isAdded, *pairs);
  result.setPacked();
  return result;
}

uint64_t ConvGradientProduct::columnBytes() const {
  return pairs ? productOfPairs().getPackedBytes()
               : alignUp(shape.pixels() * shape.columns() * sizeof(float));
}

uint64_t ConvGradientProduct::rowBytes() const {
  const size_t element = pairs ? sizeof(uint16_t) : sizeof(float);
  return isReadInPlace() ? 0
                         : alignUp(shape.pixels() * shape.outputs * element);
}

uint64_t ConvGradientProduct::getScratchpadBytes() const {
  return columnBytes() + rowBytes() +
         (pairs ? productOfPairs().getScratchpadBytes()
                : product.getScratchpadBytes());
}

template <typename Target, typename Element>
static Target convert(Element value) {
  if constexpr (std::is_same_v<Target, Element>)
    return value;
  else
    return fromShortFloat(DataType::BF16, value);
}

namespace {
/// The pixels of a row of the result that see a pixel of x at one place of the
/// window: [first, last).
struct Seen {
  int64_t first, last;

  Seen(int64_t begin, int64_t stride, int64_t extent, int64_t count)
      : first(std::min(count, begin < 0 ? (stride - 1 - begin) / stride : 0)),
        last(begin < extent
                 ? std::clamp((extent - 1 - begin) / stride + 1, first, count)
                 : first) {}
};
} // namespace

/// A panel has 16 columns of the matrix; a column is a channel of x and a place
/// of the window. `together` channels, which lie side by side, are read at a
/// time.
template <int64_t together, typename Element, typename Target, typename Place>
void ConvGradientProduct::writeColumns(const Element *x, Target *panels,
                                       Place place) const {
  const auto &[depth, height, width] = shape.result;
  const int64_t places = countOf(shape.window);
  auto isInside = [&](size_t axis, int64_t at) {
    return at >= 0 && at < shape.image[axis];
  };
  auto write = [&](int64_t channel, int64_t index) {
    std::array<Target *, together> columns;
    for (int64_t i = 0; i < together; ++i)
      columns[i] = panels + place((channel + i) * places + index, 0);
    const Axes in = splitIndex(index, shape.window);
    Axes begin; // of the window that sees the first pixel of the result
    for (size_t axis = 0; axis < begin.size(); ++axis)
      begin[axis] = in[axis] * shape.dilations[axis] - shape.padding[axis];
    const Seen seen(begin[2], shape.strides[2], shape.image[2], width);
    const int64_t step = shape.strides[2] * shape.x.axes[2];
    int64_t pixel = 0;
    auto put = [&](auto value) {
      const int64_t at = place(0, pixel++);
#pragma unroll
      for (int64_t i = 0; i < together; ++i)
        columns[i][at] = value(i);
    };
    auto putZeros = [&](int64_t count) {
      for (; count > 0; --count)
        put([](int64_t) { return Target(0); });
    };
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t i = 0; i < depth; ++i)
        for (int64_t j = 0; j < height; ++j) {
          const int64_t z = begin[0] + i * shape.strides[0];
          const int64_t y = begin[1] + j * shape.strides[1];
          if (!isInside(0, z) || !isInside(1, y)) {
            putZeros(width);
            continue;
          }
          const int64_t at = sample * shape.x.sample +
                             shape.x.offsetOfChannel(channel) +
                             z * shape.x.axes[0] + y * shape.x.axes[1] +
                             begin[2] * shape.x.axes[2];
          putZeros(seen.first);
          for (int64_t k = seen.first; k < seen.last; ++k)
            put([from = x + at + k * step](int64_t channel) {
              return convert<Target>(from[channel]);
            });
          putZeros(width - seen.last);
        }
  };
  for (int64_t channel = 0; channel < shape.channels; channel += together)
    for (int64_t index = 0; index < places; ++index)
      write(channel, index);
}

template <typename Element, typename Target, typename Place>
void ConvGradientProduct::writeColumns(const Element *x, Target *panels,
                                       Place place) const {
  constexpr int64_t lanes = 16;
  if (shape.channels % lanes == 0 && shape.x.hasTogether(lanes))
    writeColumns<lanes>(x, panels, place);
  else
    writeColumns<1>(x, panels, place);
}

/// dY with all pixels of a channel in a row.
template <typename Element, typename Target>
void ConvGradientProduct::writeRows(const Element *dy, Target *rows) const {
  const auto &[depth, height, width] = shape.result;
  for (int64_t output = 0; output < shape.outputs; ++output)
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t i = 0; i < depth; ++i)
        for (int64_t j = 0; j < height; ++j) {
          const Element *from = dy + shape.dy.offsetOfChannel(output) +
                                sample * shape.dy.sample +
                                i * shape.dy.axes[0] + j * shape.dy.axes[1];
          for (int64_t k = 0; k < width; ++k)
            *rows++ = convert<Target>(from[k * shape.dy.axes[2]]);
        }
}

void ConvGradientProduct::runInPairs(const uint16_t *x, const uint16_t *dy,
                                     float *gradient, char *scratchpad) const {
  auto *panels = reinterpret_cast<uint16_t *>(scratchpad);
  auto *rows = reinterpret_cast<uint16_t *>(scratchpad + columnBytes());
  const int64_t panelSize =
      matrixPanelBytes(shape.pixels(), 1) / sizeof(uint16_t);
  constexpr int64_t tileSize = matrixTileBytes / sizeof(uint16_t);
  // The last tile of a panel ends behind the last pixel.
  for (int64_t panel = 1; panel <= shape.columns() / panelColumns; ++panel)
    std::fill_n(panels + panel * panelSize - tileSize, tileSize, 0);
  writeColumns(x, panels, [=](int64_t column, int64_t pixel) {
    return column / panelColumns * panelSize + column % panelColumns * 2 +
           pixel / matrixTileTerms * tileSize +
           pixel % matrixTileTerms / 2 * (2 * panelColumns) + pixel % 2;
  });
  writeRows(dy, rows);
  productOfPairs().run(rows, panels, gradient,
                       scratchpad + columnBytes() + rowBytes());
}

void ConvGradientProduct::run(const void *x, const void *dy, float *gradient,
                              void *scratchpad) const {
  auto *bytes = static_cast<char *>(scratchpad);
  if (pairs)
    return runInPairs(static_cast<const uint16_t *>(x),
                      static_cast<const uint16_t *>(dy), gradient, bytes);
  auto *panels = reinterpret_cast<float *>(bytes);
  auto *rows = reinterpret_cast<float *>(bytes + columnBytes());
  auto write = [&]<typename Element>(const Element *from) {
    writeColumns(from, panels, [this](int64_t column, int64_t pixel) {
      return (column / panelColumns * shape.pixels() + pixel) * panelColumns +
             column % panelColumns;
    });
    if (!isReadInPlace())
      writeRows(static_cast<const Element *>(dy), rows);
  };
  if (shape.isShort)
    write(static_cast<const uint16_t *>(x));
  else
    write(static_cast<const float *>(x));
  product.run(isReadInPlace() ? dy : rows, panels, gradient,
              bytes + columnBytes() + rowBytes());
}
