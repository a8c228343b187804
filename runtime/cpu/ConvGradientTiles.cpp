//===- ConvGradientTiles.cpp ----------------------------------------------===//
#include "cpu/ConvGradientTiles.h"
#include "cpu/MatrixBlocks.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <array>
#include <vector>

using namespace pp::runtime;

/// Whether dY is a matrix with a row for each pixel.
static bool isMatrix(const ConvGradientTiles::Shape &shape) {
  return shape.dy.isChannelsLast() && shape.isUniform();
}

bool ConvGradientTiles::isPossible(const Shape &shape) {
  return shape.isShort && shape.channels % matrixTileLanes == 0 &&
         shape.x.hasTogether(matrixTileLanes) &&
         (isMatrix(shape) || (shape.outputs % matrixTileLanes == 0 &&
                              shape.dy.hasTogether(matrixTileLanes)));
}

bool ConvGradientTiles::isPreferred(const Shape &shape) {
  return shortTiles() && isPossible(shape);
}

bool ConvGradientTiles::addsInPlace(const Shape &shape) {
  return isPreferred(shape) && (hasMatrixTiles() || countOf(shape.window) > 1);
}

ConvGradientTiles::ConvGradientTiles(const Shape &shape,
                                     const MatrixTiles &tiles)
    : shape(shape), product(shape.outputs, shape.pixels(), shape.columns(),
                            /*a=*/{0, 0}, /*b=*/{0, 0},
                            /*c=*/{shape.columns(), 1}, /*isShort=*/false,
                            shape.isAdded, tiles) {
  if (windowSize() > 1)
    product.setTaken(windowSize() * matrixTileLanes);
}

uint64_t ConvGradientTiles::getScratchpadBytes() const {
  return product.getScratchpadBytes();
}

namespace {
/// The pixels of the result that the terms of a tile are.
struct TilePixels {
  static constexpr int64_t terms = matrixTileTerms;

  /// Where what they see of x begins, if the window begins at the first pixel
  /// of x; and their gradients in dY. Of the place in x, along each axis.
  std::array<int64_t, terms> x, dy;
  std::array<std::array<int32_t, terms>, 3> axes;

  TilePixels(const ConvGradientTiles::Shape &shape, int64_t first,
             int64_t count);
};
} // namespace

TilePixels::TilePixels(const ConvGradientTiles::Shape &shape, int64_t first,
                       int64_t count) {
  const int64_t size = countOf(shape.result);
  int64_t sample = first / size;
  ImageAxes pixel = splitIndex(first % size, shape.result);
  for (int64_t term = 0; term < terms; ++term) {
    x[term] = sample * shape.x.sample;
    dy[term] = term < count ? sample * shape.dy.sample : -1;
    for (size_t axis = 0; axis < pixel.size(); ++axis) {
      const int64_t at = pixel[axis] * shape.strides[axis];
      // No place of the window brings what is no term into x.
      axes[axis][term] =
          static_cast<int32_t>(term < count ? at : INT32_MIN / 2);
      x[term] += at * shape.x.axes[axis];
      if (term < count)
        dy[term] += pixel[axis] * shape.dy.axes[axis];
    }
    for (size_t axis = pixel.size(); axis-- > 0;) {
      if (++pixel[axis] < shape.result[axis])
        break;
      pixel[axis] = 0;
      sample += axis == 0;
    }
  }
}

/// What these pixels see of x at a place of the window, and where that begins;
/// negative where it is padding.
__attribute__((target("avx512f,avx512vl"))) static void
findSeen(const ConvGradientTiles::Shape &shape, const TilePixels &pixels,
         int64_t place, int64_t *offsets) {
  const ImageAxes in = splitIndex(place, shape.window);
  std::array<int32_t, 3> shift;
  std::array<uint32_t, 3> extent;
  int64_t begin = 0;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    const int64_t at = in[axis] * shape.dilations[axis] - shape.padding[axis];
    shift[axis] = static_cast<int32_t>(at);
    extent[axis] = static_cast<uint32_t>(shape.image[axis]);
    begin += at * shape.x.axes[axis];
  }
  auto isInside = [&](size_t axis, int64_t term) {
    return static_cast<uint32_t>(pixels.axes[axis][term] + shift[axis]) <
           extent[axis];
  };
  for (int64_t term = 0; term < matrixTileTerms; ++term) {
    const bool isSeen = static_cast<int>(isInside(0, term)) &
                        static_cast<int>(isInside(1, term)) &
                        static_cast<int>(isInside(2, term));
    offsets[term] = isSeen ? pixels.x[term] + begin : -1;
  }
}

void ConvGradientTiles::packRows(const uint16_t *dy, int64_t row, int64_t rows,
                                 int64_t term, int64_t terms, char *to,
                                 int64_t panelBytes) const {
  if (isMatrix(shape)) {
    const MatrixStrides strides{1, shape.dy.axes.back()};
    runtime::packRows(dy + row + term * strides.column, strides, rows, terms,
                      to, panelBytes);
    return;
  }
  for (const int64_t end = term + terms; term < end;
       term += matrixTileTerms, to += matrixTileBytes) {
    const TilePixels pixels(shape, term, end - term);
    for (int64_t lane = 0; lane < rows; lane += matrixTileLanes)
      packTermsOfRows(dy + shape.dy.offsetOfChannel(row + lane),
                      pixels.dy.data(), matrixTileTerms * shape.dy.axes.back(),
                      to + lane / matrixTileLanes * panelBytes);
  }
}

void ConvGradientTiles::packColumns(const uint16_t *x, int64_t column,
                                    int64_t columns, int64_t term,
                                    int64_t terms, char *to,
                                    int64_t panelBytes) const {
  const int64_t places = windowSize();
  const int64_t begin = column / matrixTileLanes;
  const int64_t end = begin + columns / matrixTileLanes;
  const int64_t ahead =
      matrixTileTerms * shape.strides.back() * shape.x.axes.back();
  for (const int64_t last = term + terms; term < last;
       term += matrixTileTerms, to += matrixTileBytes) {
    const TilePixels pixels(shape, term, last - term);
    for (int64_t first = begin; first < std::min(end, begin + places);
         ++first) {
      std::array<int64_t, matrixTileTerms> offsets;
      findSeen(shape, pixels, first % places, offsets.data());
      for (int64_t panel = first; panel < end; panel += places)
        packColumnTile(
            x + shape.x.offsetOfChannel(panel / places * matrixTileLanes),
            offsets.data(), ahead, to + (panel - begin) * panelBytes);
    }
  }
}

void ConvGradientTiles::run(const void *x, const void *dy, float *gradient,
                            void *scratchpad) const {
  auto *factor = static_cast<const uint16_t *>(dy);
  auto packA = [&](int64_t row, int64_t rows, int64_t term, int64_t terms,
                   char *to, int64_t panelBytes) {
    packRows(factor, row, rows, term, terms, to, panelBytes);
  };
  auto packB = [&](int64_t column, int64_t columns, int64_t term, int64_t terms,
                   char *to, int64_t panelBytes) {
    packColumns(static_cast<const uint16_t *>(x), column, columns, term, terms,
                to, panelBytes);
  };
  auto take = [&](int64_t row, int64_t rows, int64_t column, int64_t columns,
                  const float *blocks) {
    writeGradientSums(shape, row, rows, column, columns, blocks, shape.isAdded,
                      gradient);
  };
  if (windowSize() == 1)
    product.run(packA, packB, gradient, /*rows=*/nullptr, scratchpad);
  else
    product.run(packA, packB, take, scratchpad);
}

void pp::runtime::writeGradientSums(const ConvGradientTiles::Shape &shape,
                                    int64_t row, int64_t rows, int64_t column,
                                    int64_t columns, const float *blocks,
                                    bool isAdded, float *gradient) {
  constexpr int64_t width = matrixBlockLanes;
  const int64_t places = countOf(shape.window);
  std::vector<const float *> panels;
  for (int64_t at = 0; at < columns; at += matrixTileLanes)
    panels.push_back(blocks + at / width * width * width + at % width);
  // As where the product writes.
  constexpr int64_t large = 1 << 19; // numbers
  const bool isStreamed = !isAdded &&
                          shape.outputs * shape.columns() >= large &&
                          reinterpret_cast<uintptr_t>(gradient) % 64 == 0;
  // Pieces of rows become whole cache lines first: what is read just after a
  // part of its line was written waits.
  std::vector<float> line(columns);
  // Rows lie too far apart for the processor to expect the next one.
  constexpr int64_t ahead = 8;
  for (int64_t i = 0; i < rows; ++i) {
    for (size_t panel = 0; panel < panels.size(); panel += places)
      writeColumns(&panels[panel], places, i * width,
                   &line[panel * matrixTileLanes]);
    float *to = gradient + (row + i) * shape.columns() + column;
    if (isAdded && row + i + ahead < shape.outputs)
      for (int64_t at = 0; at < columns; at += matrixTileLanes)
        __builtin_prefetch(to + ahead * shape.columns() + at);
    if (isStreamed)
      streamRow(line.data(), columns, to);
    else
      writeRow(line.data(), columns, to, /*stride=*/1, isAdded);
  }
  if (isStreamed)
    endStreaming();
}

std::optional<ConvGradientSums>
ConvGradientSums::find(const Shape &shape, int64_t most,
                       const MatrixTiles &tiles) {
  const MatrixProductSizes sizes{shape.outputs, shape.pixels(),
                                 shape.columns()};
  const int64_t atOnce = MatrixTileSums::atOnce(sizes, most);
  if (!shape.isAdded || atOnce < 2)
    return std::nullopt;
  MatrixTileSums sums(sizes, atOnce, tiles);
  const ConvGradientTiles one(shape, tiles);
  if (one.windowSize() > 1)
    sums.setTaken(one.windowSize() * matrixTileLanes);
  return ConvGradientSums(one, sums);
}

void ConvGradientSums::run(std::span<const Factors> factors, float *gradient,
                           bool isFirst, void *scratchpad) const {
  const int64_t pixels = one.shape.pixels();
  const MatrixTileSums::Products products{
      static_cast<int64_t>(factors.size()),
      [&](int64_t i, int64_t row, int64_t rows, char *to, int64_t panelBytes) {
        one.packRows(static_cast<const uint16_t *>(factors[i].b), row, rows,
                     /*term=*/0, pixels, to, panelBytes);
      },
      [&](int64_t i, int64_t column, int64_t columns, char *to,
          int64_t panelBytes) {
        one.packColumns(static_cast<const uint16_t *>(factors[i].a), column,
                        columns, /*term=*/0, pixels, to, panelBytes);
      },
      isFirst};
  auto take = [&](int64_t row, int64_t rows, int64_t column, int64_t columns,
                  const float *blocks, bool isAdded) {
    writeGradientSums(one.shape, row, rows, column, columns, blocks, isAdded,
                      gradient);
  };
  if (one.windowSize() == 1)
    sums.run(products, gradient, {one.shape.columns(), 1}, scratchpad);
  else
    sums.run(products, take, scratchpad);
}
