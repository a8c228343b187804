//===- WinogradConvolution.cpp --------------------------------------------===//
#include "cpu/WinogradConvolution.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/TiledProduct.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;
using Sizes = WinogradConvolution::Shape;

#define PP_INLINE __attribute__((always_inline)) static inline

/// Numbers of a transformed tile, each of a product of its own.
static constexpr int64_t points = 16;
static constexpr int64_t lanes = WinogradConvolution::multiple;
static_assert(lanes == panelColumns);
/// Tiles, terms and outputs at a time: products for so many stay in L2.
static constexpr int64_t tileChunk = 96, termBlock = 256, outputBlock = 64;
static constexpr int64_t mostTileRows = 12; // of a panel

/// A number for each of 16 channels; the compiler divides it among registers.
using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));

PP_INLINE Lanes load(const float *from) {
  Lanes result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}
PP_INLINE void store(float *to, const Lanes &value) {
  std::memcpy(to, &value, sizeof(value));
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Three numbers of a row or column of a window become four.
PP_INLINE void transformThree(const Lanes &a, const Lanes &b, const Lanes &c,
                              Lanes *to, int64_t step) {
  // Halves are exact, and sums have one order.
  Lanes sum = a + c;
  to[0] = a;
  to[step] = (sum + b) * 0.5F;
  to[2 * step] = (sum - b) * 0.5F;
  to[3 * step] = c;
}

PP_INLINE void transformWeightsBody(const float *weights, int64_t outputStride,
                                    int64_t channelStride, bool isReversed,
                                    int64_t channels, int64_t outputs,
                                    float *to) {
  for (int64_t output = 0; output < outputs; output += lanes)
    for (int64_t channel = 0; channel < channels; ++channel) {
      float window[9][lanes];
      const float *from =
          weights + output * outputStride + channel * channelStride;
      for (int64_t lane = 0; lane < lanes; ++lane, from += outputStride)
        for (int64_t i = 0; i < 9; ++i)
          window[i][lane] = from[isReversed ? 8 - i : i];
      Lanes rows[3][4], all[points];
      for (int64_t i = 0; i < 3; ++i)
        transformThree(load(window[3 * i]), load(window[3 * i + 1]),
                       load(window[3 * i + 2]), rows[i], 1);
      for (int64_t i = 0; i < 4; ++i)
        transformThree(rows[0][i], rows[1][i], rows[2][i], all + i, 4);
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
    row = 2 * (number % shape.tileRows());
    this->column = 2 * column;
  }
};

/// What a chunk of tiles is made into: for each point, panels of rows for each
/// block of terms (MultiplyBlock).
struct Panels {
  int64_t tileRows, count; // of a panel; panels
  int64_t channels;

  Panels(const Sizes &shape, const ProductTiles &registers, int64_t tiles)
      : tileRows(registers.rows), count((tiles + tileRows - 1) / tileRows),
        channels(shape.channels) {}
  int64_t ofPoint() const { return count * tileRows * channels; }
  int64_t terms(int64_t block) const {
    return std::min(termBlock, channels - block * termBlock);
  }
  int64_t place(int64_t point, int64_t block, int64_t panel) const {
    return point * ofPoint() + block * termBlock * count * tileRows +
           panel * terms(block) * tileRows;
  }
};
} // namespace

/// One row or column of a tile of x: B^T.
PP_INLINE void transformFour(const Lanes *from, Lanes *to, int64_t step) {
  Lanes a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
  to[0] = a - c;
  to[step] = b + c;
  to[2 * step] = c - b;
  to[3 * step] = b - d;
}

/// Transforms 16 channels of a tile; the points are `pitch` apart.
PP_INLINE void readTile(const Sizes &shape, const float *x, const Tile &tile,
                        float *to, int64_t pitch) {
  Lanes pixels[points];
  const float *sample = x + tile.sample * shape.x.sample;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      int64_t row = tile.row - shape.padTop + i;
      int64_t column = tile.column - shape.padLeft + j;
      bool isInside =
          row >= 0 && row < shape.height && column >= 0 && column < shape.width;
      pixels[4 * i + j] =
          isInside
              ? load(sample + row * shape.x.axes[1] + column * shape.x.axes[2])
              : Lanes{};
    }
  for (int64_t j = 0; j < 4; ++j)
    transformFour(pixels + j, pixels + j, 4);
  for (int64_t i = 0; i < 4; ++i)
    transformFour(pixels + 4 * i, pixels + 4 * i, 1);
  for (int64_t point = 0; point < points; ++point)
    store(to + point * pitch, pixels[point]);
}

PP_INLINE void readTilesBody(const Sizes &shape, const Panels &places,
                             const float *x, int64_t first, int64_t count,
                             float *panels) {
  alignas(64) float buffer[points][mostTileRows * lanes];
  // Rows of the last panel that are no tiles are not computed.
  std::memset(buffer, 0, sizeof(buffer));
  for (int64_t panel = 0; panel < places.count; ++panel)
    for (int64_t channel = 0; channel < shape.channels; channel += lanes) {
      int64_t begin = panel * places.tileRows;
      int64_t rows = std::min(places.tileRows, count - begin);
      const float *from = x + shape.x.offsetOfChannel(channel);
      for (int64_t row = 0; row < rows; ++row)
        readTile(shape, from, Tile(shape, first + begin + row),
                 buffer[0] + row * lanes, mostTileRows * lanes);
      int64_t block = channel / termBlock;
      for (int64_t point = 0; point < points; ++point)
        TiledProduct::packTileRows(places.tileRows, buffer[point], lanes, lanes,
                                   panels + places.place(point, block, panel) +
                                       channel % termBlock * places.tileRows);
    }
}

/// Three numbers of a tile of y from four: A^T.
PP_INLINE void sumFour(const Lanes *from, int64_t fromStep, Lanes *to,
                       int64_t step) {
  Lanes a = from[0], b = from[fromStep], c = from[2 * fromStep],
        d = from[3 * fromStep];
  to[0] = a + b + c;
  to[step] = b - c - d;
}

/// Of 16 outputs, from the products of all points: `products` are of the first
/// tile, those of a point `pitch` apart.
PP_INLINE void writeTilesBody(const Sizes &shape, const float *products,
                              int64_t pitch, int64_t first, int64_t count,
                              const float *bias, const ConvEpilogue &epilogue,
                              float *y) {
  const Lanes shift = bias ? load(bias) : Lanes{};
  for (int64_t number = 0; number < count; ++number) {
    const Tile tile(shape, first + number);
    Lanes all[points], rows[2][4], pixels[2][2];
    for (int64_t point = 0; point < points; ++point)
      all[point] = load(products + point * pitch + number * outputBlock);
    for (int64_t j = 0; j < 4; ++j)
      sumFour(all + j, 4, rows[0] + j, 4);
    for (int64_t i = 0; i < 2; ++i)
      sumFour(rows[i], 1, pixels[i], 1);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        int64_t row = tile.row + i, column = tile.column + j;
        if (row >= shape.rows || column >= shape.columns)
          continue;
        float *to = y + tile.sample * shape.y.sample + row * shape.y.axes[1] +
                    column * shape.y.axes[2];
        store(to, bias ? pixels[i][j] + shift : pixels[i][j]);
        epilogue.apply(to, lanes);
      }
  }
}

//===----------------------------------------------------------------------===//
// For each processor
//===----------------------------------------------------------------------===//

namespace {
struct Functions {
  decltype(transformWeightsBody) *transformWeights;
  decltype(readTilesBody) *readTiles;
  decltype(writeTilesBody) *writeTiles;
};
} // namespace

#define PP_FOR_PROCESSOR(name, features)                                       \
  __attribute__((target(features))) static void transformWeights##name(        \
      const float *weights, int64_t outputStride, int64_t channelStride,       \
      bool isReversed, int64_t channels, int64_t outputs, float *to) {         \
    transformWeightsBody(weights, outputStride, channelStride, isReversed,     \
                         channels, outputs, to);                               \
  }                                                                            \
  __attribute__((target(features))) static void readTiles##name(               \
      const Sizes &shape, const Panels &places, const float *x, int64_t first, \
      int64_t count, float *panels) {                                          \
    readTilesBody(shape, places, x, first, count, panels);                     \
  }                                                                            \
  __attribute__((target(features))) static void writeTiles##name(              \
      const Sizes &shape, const float *products, int64_t pitch, int64_t first, \
      int64_t count, const float *bias, const ConvEpilogue &epilogue,          \
      float *y) {                                                              \
    writeTilesBody(shape, products, pitch, first, count, bias, epilogue, y);   \
  }                                                                            \
  static constexpr Functions functions##name = {                               \
      transformWeights##name, readTiles##name, writeTiles##name};

PP_FOR_PROCESSOR(Avx2, "avx2")
PP_FOR_PROCESSOR(Avx512, "avx512f")

static const Functions &functionsFor(const ProductTiles &registers) {
  return &registers == &productTilesAvx512 ? functionsAvx512 : functionsAvx2;
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

bool WinogradConvolution::isPossible(const Shape &shape) {
  return TiledProduct::isPossible() && shape.channels % multiple == 0 &&
         shape.outputs % multiple == 0;
}

void WinogradConvolution::transformWeights(const float *weights,
                                           Direction direction,
                                           int64_t channels, int64_t outputs,
                                           float *to,
                                           const ProductTiles &registers) {
  bool isBackward = direction == Direction::Backward;
  functionsFor(registers).transformWeights(
      weights, isBackward ? 9 : 9 * channels, isBackward ? 9 * outputs : 9,
      isBackward, channels, outputs, to);
}

static uint64_t panelBytes(const Sizes &shape, const ProductTiles &registers) {
  Panels places(shape, registers, std::min(shape.tiles(), tileChunk));
  return alignUp(points * places.ofPoint() * sizeof(float));
}

uint64_t WinogradConvolution::getScratchpadBytes() const {
  int64_t tiles = std::min(shape.tiles(), tileChunk);
  return panelBytes(shape, registers) +
         points * tiles * outputBlock * sizeof(float);
}

void WinogradConvolution::run(const float *x, const float *weights,
                              const float *bias, const ConvEpilogue &epilogue,
                              float *y, void *scratchpad) const {
  auto *panels = static_cast<float *>(scratchpad);
  auto *products = reinterpret_cast<float *>(static_cast<char *>(scratchpad) +
                                             panelBytes(shape, registers));
  const Functions &work = functionsFor(registers);
  const int64_t weightPanel = points * shape.channels * lanes;
  for (int64_t first = 0; first < shape.tiles(); first += tileChunk) {
    int64_t count = std::min(tileChunk, shape.tiles() - first);
    const int64_t pitch = count * outputBlock;
    const Panels places(shape, registers, count);
    work.readTiles(shape, places, x, first, count, panels);
    for (int64_t output = 0; output < shape.outputs; output += outputBlock) {
      int64_t outputs = std::min(outputBlock, shape.outputs - output);
      for (int64_t point = 0; point < points; ++point)
        for (int64_t term = 0; term < shape.channels; term += termBlock) {
          int64_t block = term / termBlock;
          registers.multiplyBlock(panels + places.place(point, block, 0),
                                  weights + output / lanes * weightPanel +
                                      (point * shape.channels + term) * lanes,
                                  weightPanel, lanes, count, outputs,
                                  places.terms(block), products + point * pitch,
                                  outputBlock, /*isAdded=*/term > 0);
        }
      for (int64_t lane = 0; lane < outputs; lane += lanes)
        work.writeTiles(shape, products + lane, pitch, first, count,
                        bias ? bias + output + lane : nullptr, epilogue,
                        y + shape.y.offsetOfChannel(output + lane));
    }
  }
}
