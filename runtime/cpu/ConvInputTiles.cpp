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
  // Emerald Rapids, 3 x 3, 8 images in a step, ms of the library and of this:
  // 7 x 7 of 512 channels 4.5 to 9 and 3.4 to 4.4; 14 x 14 of 256 1.6 to 3 and
  // 2.3 to 2.5.
  constexpr int64_t weightsOfPixel = 2048;
  bool hasStrides = shape.strides != ImageAxes{1, 1, 1};
  bool isPointwise = shape.window == ImageAxes{1, 1, 1};
  bool areFewPixels = shape.outputs * shape.columns() >=
                      weightsOfPixel * shape.samples * countOf(shape.image);
  return hasMatrixTiles() && isPossible(shape) &&
         (hasStrides || isPointwise || areFewPixels);
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
  MatrixTileProduct product(
      shape.samples * countOf(some.count),
      static_cast<int64_t>(some.places.size()) * shape.outputs, shape.channels,
      /*a=*/{0, 0}, /*b=*/{0, 0}, /*c=*/{0, 1}, /*isShort=*/true,
      /*isAdded=*/false, tiles);
  product.setPacked();
  return product;
}

uint64_t ConvInputTiles::getPackedScratchpadBytes() const {
  uint64_t most = 0;
  for (const Class &some : classes)
    if (!some.places.empty())
      most = std::max(most, makeProduct(some).getScratchpadBytes());
  return pixelBytes() + rowBytes() + most;
}

uint64_t ConvInputTiles::getScratchpadBytes() const {
  return getWeightBytes() + getPackedScratchpadBytes();
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

uint64_t ConvInputTiles::weightBytes(const Class &some) const {
  return some.places.empty() ? 0 : makeProduct(some).getPackedBytes();
}

uint64_t ConvInputTiles::getWeightBytes() const {
  uint64_t bytes = 0;
  for (const Class &some : classes)
    bytes += weightBytes(some);
  return bytes;
}

/// Asks for what comes after `count` numbers in each of 32 rows.
static inline void askForNext(const uint16_t *from, int64_t stride,
                              int64_t count) {
  constexpr int64_t line = 64 / sizeof(uint16_t);
  for (int64_t row = 0; row < matrixTileTerms; ++row)
    for (int64_t i = 0; i < count; i += line)
      __builtin_prefetch(from + row * stride + count + i);
}

void ConvInputTiles::packWeights(const Class &some, const uint16_t *weights,
                                 char *to) const {
  const int64_t places = windowSize(), row = shape.columns();
  const int64_t panelBytes = matrixPanelBytes(
      static_cast<int64_t>(some.places.size()) * shape.outputs, /*parts=*/1);
  if (places == 1)
    return packColumns(weights, {row, 1}, shape.outputs, shape.channels, to,
                       panelBytes);
  // Pairs of outputs side by side, for each place and up to 16 channels.
  auto packTiles = [&](const uint16_t *from, int64_t channels, char *panel) {
    for (int64_t pair = 0; pair < matrixTileTerms / 2; ++pair) {
      const uint16_t *low = from + 2 * pair * row, *high = low + row;
      char *tile = panel;
      for (const Class::Place &place : some.places) {
        auto *pairs = reinterpret_cast<uint32_t *>(tile + pair * 64);
        for (int64_t i = 0; i < channels; ++i)
          pairs[i] = low[i * places + place.index] |
                     uint32_t(high[i * places + place.index]) << 16;
        std::fill(pairs + channels, pairs + matrixTileLanes, 0);
        tile += shape.outputs / matrixTileTerms * matrixTileBytes;
      }
    }
  };
  for (int64_t output = 0; output < shape.outputs; output += matrixTileTerms)
    for (int64_t channel = 0; channel < shape.channels;
         channel += matrixTileLanes) {
      const uint16_t *from = weights + output * row + channel * places;
      char *panel = to + channel / matrixTileLanes * panelBytes +
                    output / matrixTileTerms * matrixTileBytes;
      askForNext(from, row, matrixTileLanes * places);
      // A count that is known is worth a loop of its own.
      if (shape.channels - channel >= matrixTileLanes)
        packTiles(from, matrixTileLanes, panel);
      else
        packTiles(from, shape.channels - channel, panel);
    }
}

void ConvInputTiles::packWeights(const uint16_t *weights, void *packed) const {
  auto *to = static_cast<char *>(packed);
  for (const Class &some : classes) {
    if (some.places.empty())
      continue;
    packWeights(some, weights, to);
    to += weightBytes(some);
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void ConvInputTiles::runClass(const Class &some, const uint16_t *dy,
                              const void *packed, uint16_t *dx,
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
  makeProduct(some).run(packA, packed, dx, rows,
                        scratchpad + pixelBytes() + rowBytes());
}

void ConvInputTiles::runPacked(const uint16_t *dy, const void *packed,
                               uint16_t *dx, void *scratchpad) const {
  const auto *from = static_cast<const char *>(packed);
  for (const Class &some : classes) {
    runClass(some, dy, from, dx, static_cast<char *>(scratchpad));
    from += weightBytes(some);
  }
}

void ConvInputTiles::run(const uint16_t *dy, const uint16_t *weights,
                         uint16_t *dx, void *scratchpad) const {
  packWeights(weights, scratchpad);
  runPacked(dy, scratchpad, dx,
            static_cast<char *>(scratchpad) + getWeightBytes());
}
