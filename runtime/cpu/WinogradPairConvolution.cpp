//===- WinogradPairConvolution.cpp ----------------------------------------===//
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/TransposeRows.h"
#include "cpu/WinogradPairs.h"
#include "cpu/WinogradTiles.h"
#include "plan/DataType.h"

#include <algorithm>

using namespace pp::runtime;
using namespace pp::runtime::winograd;
using Direction = WinogradConvolution::Direction;

static constexpr int64_t points = 16;
static_assert(lanes == pairColumns);

/// Tiles at a time: their numbers, and the products of a block of outputs, stay
/// in L2. As many rows as a tile of registers has go into it, and a power of
/// two does not.
static int64_t chunkOf(const Sizes &shape) {
  return std::min<int64_t>(shape.tiles(), 72);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// The nine numbers of a window of 16 outputs, whose rows have two of them in
/// 32 bits.
PP_DOT_INLINE void unpackWindow(const __m512i *rows, bool isReversed,
                                Lanes *window) {
  for (int i = 0; i < 9; ++i) {
    const __m512i both = rows[i / 2];
    const __m512i number =
        i % 2 == 0 ? _mm512_slli_epi32(both, 16)
                   : _mm512_and_si512(both, _mm512_set1_epi32(0xffff0000));
    window[isReversed ? 8 - i : i] = reinterpret_cast<Lanes>(number);
  }
}

PP_DOT_INLINE void transformWindow(const Lanes *window, Lanes *all) {
  constexpr int side = 4;
  Lanes rows[3][side];
  for (int64_t i = 0; i < 3; ++i)
    Transform<2>::window(window[3 * i], window[3 * i + 1], window[3 * i + 2],
                         rows[i], 1);
  for (int64_t i = 0; i < side; ++i)
    Transform<2>::window(rows[0][i], rows[1][i], rows[2][i], all + i, side);
}

PP_DOT void WinogradPairConvolution::transformWeights(const Shape &shape,
                                                      const uint16_t *weights,
                                                      Direction direction,
                                                      uint16_t *to) {
  constexpr __mmask16 ofWindow = 0x1ff;
  constexpr int64_t ahead = 16;
  const bool isBackward = direction == Direction::Backward;
  const int64_t channels = shape.channels, outputs = shape.outputs;
  const int64_t outputStride = isBackward ? 9 : 9 * channels;
  const int64_t channelStride = isBackward ? 9 * outputs : 9;
  for (int64_t output = 0; output < outputs; output += lanes)
    for (int64_t channel = 0; channel < channels; channel += 2) {
      // Two channels of an output become columns together.
      LaneRows rows;
      const uint16_t *from =
          weights + output * outputStride + channel * channelStride;
      for (int64_t lane = 0; lane < lanes; ++lane, from += outputStride) {
        // Channels lie too far apart for the processor to expect the next ones.
        if (isBackward)
          for (int64_t one : {ahead, ahead + 1})
            __builtin_prefetch(from + one * channelStride);
        rows[lane] = _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(ofWindow, from)),
            _mm256_maskz_loadu_epi16(ofWindow, from + channelStride), 1);
      }
      transposeRows(rows);
      Lanes window[9], first[points], second[points];
      unpackWindow(rows.data(), isBackward, window);
      transformWindow(window, first);
      unpackWindow(rows.data() + 8, isBackward, window);
      transformWindow(window, second);
      uint16_t *at = to + (output * points * channels) + channel * lanes;
      for (int64_t point = 0; point < points; ++point, at += channels * lanes)
        storePairs(at, first[point], second[point]);
    }
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

namespace {
/// For each point a row of channels for each tile. Rows that are a power of two
/// apart would share places of the cache.
struct PairRows {
  int64_t pitch, ofPoint;

  PairRows(const Sizes &shape, int64_t tiles)
      : pitch(shape.channels + 2 * lanes), ofPoint(tiles * pitch) {}
  uint64_t bytes() const {
    return alignUp(points * ofPoint * sizeof(uint16_t));
  }
};
} // namespace

PP_DOT static void readTiles(const Sizes &shape, const PairRows &rows,
                             const uint16_t *x, int64_t first, int64_t count,
                             uint16_t *to) {
  for (int64_t number = 0; number < count; ++number, to += rows.pitch) {
    const Tile tile(shape, first + number);
    for (int64_t channel = 0; channel < shape.channels; channel += lanes) {
      Lanes all[points];
      transformTile<2>(shape, x + shape.x.offsetOfChannel(channel), tile, all);
      for (int64_t point = 0; point < points; ++point)
        storeShort(to + point * rows.ofPoint + channel, all[point]);
    }
  }
}

PP_DOT static void writeTiles(const Sizes &shape, const float *products,
                              int64_t pitch, int64_t first, int64_t count,
                              const float *bias, const ConvEpilogue &epilogue,
                              uint16_t *y) {
  writeTilesBody<2>(shape, products, pitch, first, count, bias, epilogue, y);
}

uint64_t WinogradPairConvolution::getScratchpadBytes() const {
  const int64_t chunk = chunkOf(shape);
  return PairRows(shape, chunk).bytes() +
         points * chunk * outputBlock * sizeof(float);
}

void WinogradPairConvolution::run(const uint16_t *x, const uint16_t *weights,
                                  const float *bias,
                                  const ConvEpilogue &epilogue, uint16_t *y,
                                  char *scratchpad) const {
  const int64_t chunk = chunkOf(shape);
  auto *numbers = reinterpret_cast<uint16_t *>(scratchpad);
  auto *products =
      reinterpret_cast<float *>(scratchpad + PairRows(shape, chunk).bytes());
  const int64_t ofPoint = shape.channels * lanes, ofPanel = points * ofPoint;
  for (int64_t first = 0; first < shape.tiles(); first += chunk) {
    const int64_t count = std::min(chunk, shape.tiles() - first);
    const int64_t pitch = count * outputBlock;
    const PairRows rows(shape, count);
    readTiles(shape, rows, x, first, count, numbers);
    for (int64_t output = 0; output < shape.outputs; output += outputBlock) {
      const int64_t outputs = std::min(outputBlock, shape.outputs - output);
      for (int64_t point = 0; point < points; ++point)
        multiplyPairs({numbers + point * rows.ofPoint, rows.pitch, 2,
                       weights + output / lanes * ofPanel + point * ofPoint,
                       ofPanel, shape.channels / 2},
                      count, outputs, products + point * pitch, outputBlock,
                      /*isAdded=*/false);
      for (int64_t lane = 0; lane < outputs; lane += lanes)
        writeTiles(shape, products + lane, pitch, first, count,
                   bias ? bias + output + lane : nullptr, epilogue,
                   y + shape.y.offsetOfChannel(output + lane));
    }
  }
}
