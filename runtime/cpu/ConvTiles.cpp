//===- ConvTiles.cpp ------------------------------------------------------===//
#include "cpu/ConvTiles.h"
#include "cpu/PairWeights.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

using namespace pp::runtime;

bool ConvTiles::isPossible(const Shape &shape, ConvDirection direction) {
  const bool isForward = direction == ConvDirection::Forward;
  const int64_t read = isForward ? shape.channels : shape.outputs;
  return shape.isShort && read % matrixTileTerms == 0 &&
         (!isForward || shape.outputs % matrixTileLanes == 0) &&
         shape.x.isChannelsLast() && shape.dy.isChannelsLast();
}

bool ConvTiles::isPreferred(const Shape &shape, ConvDirection direction) {
  // Emerald Rapids, gradients, 3 x 3, 8 images in a step, ms of the library and
  // of this: 7 x 7 of 512 channels 4.5 to 9 and 3.4 to 4.4; 14 x 14 of 256 1.6
  // to 3 and 2.3 to 2.5. Convolutions, and of weights that are packed once: 3.4
  // and 2.4, 2.5 and 2.0; of one image 1.3 and 0.8, both 0.4. But 14 x 14 of
  // one image of 256 channels, whose weights a cache holds: 0.2 and 0.3.
  constexpr int64_t weightsOfPixel = 2048, manyWeights = 1 << 20;
  const bool isForward = direction == ConvDirection::Forward;
  const int64_t pixels = countOf(isForward ? shape.result : shape.image);
  const int64_t weights = shape.outputs * shape.columns();
  const bool areFewPixels = weights >= weightsOfPixel * shape.samples * pixels;
  if (!hasMatrixTiles() || !isPossible(shape, direction))
    return false;
  if (isForward)
    return areFewPixels && weights >= manyWeights;
  const bool hasStrides = shape.strides != ImageAxes{1, 1, 1};
  const bool isPointwise = shape.window == ImageAxes{1, 1, 1};
  return areFewPixels || hasStrides || isPointwise;
}

ConvTiles::ConvTiles(const Shape &shape, ConvDirection direction,
                     const MatrixTiles &tiles)
    : shape(shape), direction(direction), tiles(tiles),
      read{shape.image, shape.x, shape.channels},
      written{shape.result, shape.dy, shape.outputs}, writtenSteps{1, 1, 1},
      readSteps(shape.strides) {
  if (isForward()) {
    classes = {findImage()};
  } else {
    std::swap(read, written);
    std::swap(readSteps, writtenSteps);
    classes = findClasses();
  }
}

ConvTiles::Class ConvTiles::findImage() const {
  Class all{{0, 0, 0}, written.extents, {}};
  for (int64_t place = 0; place < windowSize(); ++place) {
    const ImageAxes in = splitIndex(place, shape.window);
    Class::Place seen{place, {}};
    for (size_t axis = 0; axis < 3; ++axis)
      seen.begin[axis] = in[axis] * shape.dilations[axis] - shape.padding[axis];
    all.places.push_back(seen);
  }
  return all;
}

std::vector<ConvTiles::Class> ConvTiles::findClasses() const {
  std::vector<Class> result;
  for (int64_t index = 0; index < countOf(shape.strides); ++index) {
    Class some;
    some.first = splitIndex(index, shape.strides);
    for (size_t axis = 0; axis < 3; ++axis)
      some.count[axis] =
          (written.extents[axis] - some.first[axis] + writtenSteps[axis] - 1) /
          writtenSteps[axis];
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

int64_t ConvTiles::countPixels() const {
  int64_t most = 0;
  for (const Class &some : classes)
    most = std::max(most, shape.samples * countOf(some.count));
  return most;
}

uint64_t ConvTiles::pixelBytes() const {
  return alignUp(countPixels() * sizeof(Pixel));
}

uint64_t ConvTiles::rowBytes() const {
  return alignUp(countPixels() * sizeof(int64_t));
}

MatrixTileProduct ConvTiles::makeProduct(const Class &some) const {
  MatrixTileProduct product(shape.samples * countOf(some.count),
                            static_cast<int64_t>(some.places.size()) *
                                read.channels,
                            written.channels, /*a=*/{0, 0}, /*b=*/{0, 0},
                            /*c=*/{0, 1}, /*isShort=*/true,
                            /*isAdded=*/false, tiles);
  product.setPacked();
  return product;
}

uint64_t ConvTiles::getScratchpadBytes(bool isPacked) const {
  uint64_t most = 0;
  for (const Class &some : classes)
    if (!some.places.empty())
      most = std::max(most, makeProduct(some).getScratchpadBytes());
  return (isPacked ? 0 : getWeightBytes()) + pixelBytes() + rowBytes() + most;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

uint64_t ConvTiles::weightBytes(const Class &some) const {
  return some.places.empty() ? 0 : makeProduct(some).getPackedBytes();
}

uint64_t ConvTiles::getWeightBytes() const {
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

void ConvTiles::packWeights(const Class &some, const uint16_t *weights,
                            char *to) const {
  const int64_t places = windowSize(), row = shape.columns();
  if (isForward())
    return packPairWeights(weights, shape.outputs, shape.channels, places,
                           reinterpret_cast<uint16_t *>(to));
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

void ConvTiles::packWeights(const uint16_t *weights, void *packed) const {
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

void ConvTiles::runClass(const Class &some, const uint16_t *from,
                         const void *packed,
                         const MatrixTileProduct::FinishRow *finish,
                         uint16_t *to, char *scratchpad) const {
  auto *pixels = reinterpret_cast<Pixel *>(scratchpad);
  auto *rows = reinterpret_cast<int64_t *>(scratchpad + pixelBytes());
  const int64_t size = countOf(some.count), count = shape.samples * size;
  const int64_t channels = read.channels;
  for (int64_t i = 0; i < count; ++i) {
    const ImageAxes index = splitIndex(i % size, some.count);
    Pixel &pixel = pixels[i];
    pixel.from = i / size * read.places.sample;
    rows[i] = i / size * written.places.sample;
    for (size_t axis = 0; axis < 3; ++axis) {
      pixel.seen[axis] = index[axis] * readSteps[axis];
      pixel.from += pixel.seen[axis] * read.places.axes[axis];
      rows[i] += (some.first[axis] + index[axis] * writtenSteps[axis]) *
                 written.places.axes[axis];
    }
  }
  if (some.places.empty()) {
    for (int64_t i = 0; i < count; ++i)
      std::memset(to + rows[i], 0, written.channels * sizeof(uint16_t));
    return;
  }
  // Where the pixel begins that a pixel of the class sees at a place; negative
  // outside.
  auto find = [&](const Pixel &pixel, const Class::Place &place) {
    int64_t offset = pixel.from;
    for (size_t axis = 0; axis < 3; ++axis) {
      const int64_t at = pixel.seen[axis] + place.begin[axis];
      if (at < 0 || at >= read.extents[axis])
        return int64_t(-1);
      offset += place.begin[axis] * read.places.axes[axis];
    }
    return offset;
  };
  // Calls pack(place, first channel, terms, offset in `to`) for each place.
  auto forEachPlace = [&](int64_t term, int64_t terms, const auto &pack) {
    for (int64_t at = term; at < term + terms;) {
      const int64_t end =
          std::min((at / channels + 1) * channels, term + terms);
      pack(some.places[at / channels], at % channels, end - at,
           (at - term) / matrixTileTerms * matrixTileBytes);
      at = end;
    }
  };
  auto packA = [&](int64_t row, int64_t lanes, int64_t term, int64_t terms,
                   char *panel, int64_t panelBytes) {
    for (int64_t lane = 0; lane < lanes;
         lane += matrixTileLanes, panel += panelBytes)
      forEachPlace(
          term, terms,
          [&](const Class::Place &place, int64_t channel, int64_t length,
              int64_t at) {
            std::array<int64_t, matrixTileLanes> offsets;
            for (int64_t i = 0; i < matrixTileLanes; ++i)
              offsets[i] =
                  lane + i < lanes ? find(pixels[row + lane + i], place) : -1;
            for (int64_t i = 0; i < length; i += matrixTileTerms)
              packRowTile(from + channel + i, offsets.data(),
                          panel + at + i / matrixTileTerms * matrixTileBytes);
          });
  };
  makeProduct(some).run(packA, packed, to, rows, finish,
                        scratchpad + pixelBytes() + rowBytes());
}

void ConvTiles::runPacked(const uint16_t *from, const void *packed,
                          const float *bias, const ConvEpilogue &epilogue,
                          uint16_t *to, void *scratchpad) const {
  const MatrixTileProduct::FinishRow finish =
      [&](float *numbers, int64_t column, int64_t columns) {
        for (int64_t i = 0; bias && i < columns; ++i)
          numbers[i] += bias[column + i];
        epilogue.apply(numbers, columns);
      };
  const auto *weights = static_cast<const char *>(packed);
  for (const Class &some : classes) {
    runClass(some, from, weights, epilogue.isEmpty() ? nullptr : &finish, to,
             static_cast<char *>(scratchpad));
    weights += weightBytes(some);
  }
}

void ConvTiles::run(const uint16_t *from, const uint16_t *weights,
                    const float *bias, const ConvEpilogue &epilogue,
                    uint16_t *to, void *scratchpad) const {
  packWeights(weights, scratchpad);
  runPacked(from, scratchpad, bias, epilogue, to,
            static_cast<char *>(scratchpad) + getWeightBytes());
}
