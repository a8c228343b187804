//===- ConvInputTiles.cpp -------------------------------------------------===//
#include "cpu/ConvInputTiles.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

using namespace pp::runtime;

bool ConvInputTiles::isPossible(const Shape &shape) {
  return shape.isShort && shape.outputs % matrixTileTerms == 0 &&
         shape.x.isChannelsLast() && shape.dy.isChannelsLast();
}

bool ConvInputTiles::isPreferred(const Shape &shape) {
  bool hasStrides = shape.strides != ImageAxes{1, 1, 1};
  bool isPointwise = shape.window == ImageAxes{1, 1, 1};
  return hasMatrixTiles() && isPossible(shape) && (hasStrides || isPointwise);
}

ConvInputTiles::ConvInputTiles(const Shape &shape, const MatrixTiles &tiles)
    : shape(shape), tiles(tiles), classes(findClasses()) {}

std::vector<ConvInputTiles::Class> ConvInputTiles::findClasses() const {
  std::vector<Class> result;
  for (int64_t index = 0; index < countOf(shape.strides); ++index) {
    Class some;
    some.first = splitIndex(index, shape.strides);
    for (size_t axis = 0; axis < 3; ++axis)
      some.count[axis] =
          (shape.image[axis] - some.first[axis] + shape.strides[axis] - 1) /
          shape.strides[axis];
    if (*std::min_element(some.count.begin(), some.count.end()) <= 0)
      continue;
    for (int64_t place = 0; place < windowSize(); ++place) {
      Class::Place seen{place, {}};
      const ImageAxes in = splitIndex(place, shape.window);
      bool isSeen = true;
      for (size_t axis = 0; axis < 3; ++axis) {
        // The pixel of the result times the stride.
        int64_t at = some.first[axis] + shape.padding[axis] -
                     in[axis] * shape.dilations[axis];
        isSeen &= at % shape.strides[axis] == 0;
        seen.begin[axis] = at / shape.strides[axis];
      }
      if (isSeen)
        some.places.push_back(seen);
    }
    result.push_back(std::move(some));
  }
  return result;
}

uint64_t ConvInputTiles::weightBytes() const {
  return windowSize() == 1
             ? 0
             : alignUp(shape.outputs * shape.columns() * sizeof(uint16_t));
}

int64_t ConvInputTiles::countPixels() const {
  int64_t most = 0;
  for (const Class &some : classes)
    most = std::max(most, shape.samples * countOf(some.count));
  return most;
}

uint64_t ConvInputTiles::pixelBytes() const {
  return alignUp(countPixels() * sizeof(Pixel));
}

uint64_t ConvInputTiles::rowBytes() const {
  return alignUp(countPixels() * sizeof(int64_t));
}

MatrixTileProduct ConvInputTiles::makeProduct(const Class &some) const {
  return {shape.samples * countOf(some.count),
          static_cast<int64_t>(some.places.size()) * shape.outputs,
          shape.channels,
          /*a=*/{0, 0},
          /*b=*/{0, 0},
          /*c=*/{0, 1},
          /*isShort=*/true,
          /*isAdded=*/false,
          tiles};
}

uint64_t ConvInputTiles::getScratchpadBytes() const {
  uint64_t most = 0;
  for (const Class &some : classes)
    if (!some.places.empty())
      most = std::max(most, makeProduct(some).getScratchpadBytes());
  return weightBytes() + pixelBytes() + rowBytes() + most;
}

void ConvInputTiles::runClass(const Class &some, const uint16_t *dy,
                              const uint16_t *weights, uint16_t *dx,
                              char *scratchpad) const {
  auto *pixels = reinterpret_cast<Pixel *>(scratchpad);
  auto *rows = reinterpret_cast<int64_t *>(scratchpad + pixelBytes());
  const int64_t size = countOf(some.count), count = shape.samples * size;
  const int64_t outputs = shape.outputs, channels = shape.channels;
  for (int64_t i = 0; i < count; ++i) {
    Pixel &pixel = pixels[i];
    pixel = {splitIndex(i % size, some.count), i / size * shape.dy.sample};
    rows[i] = i / size * shape.x.sample;
    for (size_t axis = 0; axis < 3; ++axis) {
      int64_t at = pixel.index[axis];
      pixel.dy += at * shape.dy.axes[axis];
      rows[i] +=
          (some.first[axis] + at * shape.strides[axis]) * shape.x.axes[axis];
    }
  }
  if (some.places.empty()) {
    for (int64_t i = 0; i < count; ++i)
      std::memset(dx + rows[i], 0, channels * sizeof(uint16_t));
    return;
  }
  // Where dY begins for a pixel of the class at a place; negative outside.
  auto find = [&](const Pixel &pixel, const Class::Place &place) {
    int64_t offset = pixel.dy;
    for (size_t axis = 0; axis < 3; ++axis) {
      int64_t result = pixel.index[axis] + place.begin[axis];
      if (result < 0 || result >= shape.result[axis])
        return int64_t(-1);
      offset += place.begin[axis] * shape.dy.axes[axis];
    }
    return offset;
  };
  // Calls pack(place, first output, terms, offset in `to`) for each place.
  auto forEachPlace = [&](int64_t term, int64_t terms, const auto &pack) {
    for (int64_t at = term; at < term + terms;) {
      const int64_t end = std::min((at / outputs + 1) * outputs, term + terms);
      pack(some.places[at / outputs], at % outputs, end - at,
           (at - term) / matrixTileTerms * matrixTileBytes);
      at = end;
    }
  };
  auto packA = [&](int64_t row, int64_t lanes, int64_t term, int64_t terms,
                   char *to, int64_t panelBytes) {
    for (int64_t lane = 0; lane < lanes;
         lane += matrixTileLanes, to += panelBytes)
      forEachPlace(
          term, terms,
          [&](const Class::Place &place, int64_t output, int64_t length,
              int64_t at) {
            std::array<int64_t, matrixTileLanes> offsets;
            for (int64_t i = 0; i < matrixTileLanes; ++i)
              offsets[i] =
                  lane + i < lanes ? find(pixels[row + lane + i], place) : -1;
            for (int64_t i = 0; i < length; i += matrixTileTerms)
              packRowTile(dy + output + i, offsets.data(),
                          to + at + i / matrixTileTerms * matrixTileBytes);
          });
  };
  auto packB = [&](int64_t column, int64_t columns, int64_t term, int64_t terms,
                   char *to, int64_t panelBytes) {
    forEachPlace(term, terms,
                 [&](const Class::Place &place, int64_t output, int64_t length,
                     int64_t at) {
                   packColumns(
                       weights + (place.index * outputs + output) * channels +
                           column,
                       {channels, 1}, length, columns, to + at, panelBytes);
                 });
  };
  makeProduct(some).run(packA, packB, dx, rows,
                        scratchpad + pixelBytes() + rowBytes());
}

void ConvInputTiles::run(const uint16_t *dy, const uint16_t *weights,
                         uint16_t *dx, void *scratchpad) const {
  auto *transposed = static_cast<uint16_t *>(scratchpad);
  char *bytes = static_cast<char *>(scratchpad) + weightBytes();
  const int64_t places = windowSize(), channels = shape.channels;
  if (places > 1) {
    const uint16_t *from = weights;
    for (int64_t output = 0; output < shape.outputs; ++output)
      for (int64_t channel = 0; channel < channels; ++channel)
        for (int64_t place = 0; place < places; ++place)
          transposed[(place * shape.outputs + output) * channels + channel] =
              *from++;
    weights = transposed;
  }
  for (const Class &some : classes)
    runClass(some, dy, weights, dx, bytes);
}
