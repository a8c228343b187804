//===- ConvGradientTiles.cpp ----------------------------------------------===//
#include "cpu/ConvGradientTiles.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <array>

using namespace pp::runtime;

bool ConvGradientTiles::isPossible(const Shape &shape) {
  return shape.isShort && shape.channels % matrixTileLanes == 0 &&
         shape.x.isChannelsLast() && shape.dy.isChannelsLast() &&
         shape.isUniform();
}

bool ConvGradientTiles::isPreferred(const Shape &shape) {
  return hasMatrixTiles() && isPossible(shape);
}

ConvGradientTiles::ConvGradientTiles(const Shape &shape,
                                     const MatrixTiles &tiles)
    : shape(shape),
      product(shape.outputs, shape.pixels(), shape.columns(),
              /*a=*/{1, shape.dy.axes.back()}, /*b=*/{0, 0},
              /*c=*/{shape.columns(), 1}, /*isShort=*/false,
              /*isAdded=*/windowSize() == 1 && shape.isAdded, tiles) {}

uint64_t ConvGradientTiles::sumBytes() const {
  return windowSize() == 1
             ? 0
             : alignUp(shape.outputs * shape.columns() * sizeof(float));
}

uint64_t ConvGradientTiles::getScratchpadBytes() const {
  return sumBytes() + product.getScratchpadBytes();
}

void ConvGradientTiles::findPixels(int64_t place, int64_t first, int64_t last,
                                   int64_t *offsets) const {
  const int64_t width = shape.result[2];
  const ImageAxes in = splitIndex(place, shape.window);
  auto at = [&](size_t axis, int64_t pixel) {
    return pixel * shape.strides[axis] + in[axis] * shape.dilations[axis] -
           shape.padding[axis];
  };
  auto isInside = [&](size_t axis, int64_t value) {
    return value >= 0 && value < shape.image[axis];
  };
  const int64_t size = countOf(shape.result);
  while (first < last) {
    const int64_t sample = first / size;
    const auto [i, j, k] = splitIndex(first % size, shape.result);
    const int64_t z = at(0, i), y = at(1, j);
    const bool isSeen = isInside(0, z) && isInside(1, y);
    const int64_t row =
        sample * shape.x.sample + z * shape.x.axes[0] + y * shape.x.axes[1];
    const int64_t end = std::min(width, k + last - first);
    for (int64_t pixel = k; pixel < end; ++pixel) {
      int64_t x = at(2, pixel);
      *offsets++ =
          isSeen && isInside(2, x) ? row + x * shape.x.axes[2] : int64_t(-1);
    }
    first += end - k;
  }
}

void ConvGradientTiles::run(const void *x, const void *dy, float *gradient,
                            void *scratchpad) const {
  auto *sums = static_cast<float *>(scratchpad);
  const int64_t channels = shape.channels, places = windowSize();
  constexpr int64_t terms = matrixTileTerms;
  auto pack = [&](int64_t column, int64_t columns, int64_t firstTerm,
                  int64_t count, char *to, int64_t panelBytes) {
    for (const int64_t end = column + columns; column < end;) {
      const int64_t place = column / channels;
      const int64_t last = std::min(end, (place + 1) * channels);
      for (int64_t term = 0; term < count; term += terms) {
        std::array<int64_t, terms> offsets;
        const int64_t some = std::min(terms, count - term);
        findPixels(place, firstTerm + term, firstTerm + term + some,
                   offsets.data());
        std::fill(offsets.begin() + some, offsets.end(), -1);
        char *tile = to + term / terms * matrixTileBytes;
        for (int64_t i = column; i < last;
             i += matrixTileLanes, tile += panelBytes)
          packColumnTile(static_cast<const uint16_t *>(x) + i % channels,
                         offsets.data(), tile);
      }
      to += (last - column) / matrixTileLanes * panelBytes;
      column = last;
    }
  };
  product.run(static_cast<const uint16_t *>(dy), pack,
              places == 1 ? gradient : sums,
              static_cast<char *>(scratchpad) + sumBytes());
  if (places == 1)
    return;
  for (int64_t output = 0; output < shape.outputs; ++output)
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t place = 0; place < places; ++place, ++gradient)
        *gradient = (shape.isAdded ? *gradient : 0) +
                    sums[(output * places + place) * channels + channel];
}
