//===- AttentionTiles.cpp -------------------------------------------------===//
#include "cpu/AttentionTiles.h"
#include "cpu/ExponentialTerms.h"
#include "cpu/PairLanes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

using namespace pp::runtime;

/// Rows of the query in a block: what is packed of key and value for it takes
/// little beside its products.
static constexpr int64_t blockRows = 128;
static constexpr int64_t lanes = 16;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

PP_DOT_INLINE __mmask16 maskOf(int64_t count) {
  return count >= lanes ? __mmask16(0xffff) : __mmask16((1u << count) - 1);
}

/// e^x for x up to 88, of a NaN NaN.
PP_DOT_INLINE __m512 exponential(__m512 x) {
  using Terms = ExponentialTerms;
  // The second operand is the result where one is NaN.
  x = _mm512_max_ps(_mm512_set1_ps(-104), x);
  const __m512 n =
      _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(Terms::perLn2)),
                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(Terms::high), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(Terms::low), r);
  __m512 power = _mm512_set1_ps(Terms::first);
  for (float coefficient : Terms::others)
    power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(coefficient));
  return _mm512_scalef_ps(power, n);
}

PP_DOT_INLINE void storeRounded(uint16_t *to, __mmask16 mask, __m512 numbers) {
  _mm256_mask_storeu_epi16(
      to, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(numbers)));
}

/// What lies behind the 16 numbers with the last that is seen.
static void clearFrom(uint16_t *numbers, int64_t visible, int64_t seen) {
  const int64_t first = (visible + lanes - 1) / lanes * lanes;
  if (first < seen)
    std::memset(numbers + first, 0, (seen - first) * sizeof(uint16_t));
}

/// Turns `visible` scores into weights that add up to the result, with zeros
/// behind them up to `seen`; says what the logarithm of their sum is.
PP_DOT static float weigh(const float *scores, float scale, int64_t visible,
                          int64_t seen, uint16_t *weights, float &logsumexp) {
  const __m512 factor = _mm512_set1_ps(scale);
  const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  auto scaled = [&](int64_t at, __mmask16 mask) PP_DOT {
    return _mm512_mask_mul_ps(none, mask,
                              _mm512_maskz_loadu_ps(mask, scores + at), factor);
  };
  __m512 most = none;
  for (int64_t at = 0; at < visible; at += lanes)
    most = _mm512_max_ps(most, scaled(at, maskOf(visible - at)));
  const float largest = _mm512_reduce_max_ps(most);
  __m512 sums = _mm512_setzero_ps();
  for (int64_t at = 0; at < visible; at += lanes) {
    const __mmask16 mask = maskOf(visible - at);
    const __m512 numbers = _mm512_maskz_mov_ps(
        mask,
        exponential(_mm512_sub_ps(scaled(at, mask), _mm512_set1_ps(largest))));
    sums = _mm512_add_ps(sums, numbers);
    storeRounded(weights + at, maskOf(seen - at), numbers);
  }
  clearFrom(weights, visible, seen);
  const float sum = _mm512_reduce_add_ps(sums);
  logsumexp = largest + std::log(sum);
  return sum;
}

/// The same weights again, as a share of their sum, and the derivatives of the
/// products of query and key, which are multiplied with `outer`, from those of
/// the weights.
PP_DOT static void weighBack(const float *scores, const float *diffWeights,
                             float scale, float outer, float logsumexp,
                             float mean, int64_t visible, int64_t seen,
                             uint16_t *weights, uint16_t *diffScores) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t at = 0; at < visible; at += lanes) {
    const __mmask16 mask = maskOf(visible - at);
    const __m512 scaled =
        _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, scores + at), factor);
    const __m512 share = _mm512_maskz_mov_ps(
        mask, exponential(_mm512_sub_ps(scaled, _mm512_set1_ps(logsumexp))));
    const __m512 slope = _mm512_sub_ps(
        _mm512_maskz_loadu_ps(mask, diffWeights + at), _mm512_set1_ps(mean));
    const __m512 diff = _mm512_maskz_mul_ps(mask, _mm512_mul_ps(share, slope),
                                            _mm512_set1_ps(outer));
    storeRounded(weights + at, maskOf(seen - at), share);
    storeRounded(diffScores + at, maskOf(seen - at), diff);
  }
  clearFrom(weights, visible, seen);
  clearFrom(diffScores, visible, seen);
}

PP_DOT_INLINE __m512 widen(__m256i numbers) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
}

/// 16 numbers of a row, or what is left of it; zeros behind them.
PP_DOT_INLINE __m512 readShort(const uint16_t *from, int64_t stride,
                               int64_t count) {
  if (stride == 1)
    return widen(_mm256_maskz_loadu_epi16(maskOf(count), from));
  alignas(32) std::array<uint16_t, lanes> numbers{};
  for (int64_t i = 0; i < std::min(count, lanes); ++i)
    numbers[i] = from[i * stride];
  return widen(
      _mm256_load_si256(reinterpret_cast<const __m256i *>(numbers.data())));
}

PP_DOT static float dot(const uint16_t *a, int64_t aStride, const uint16_t *b,
                        int64_t bStride, int64_t count) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t at = 0; at < count; at += lanes)
    sum =
        _mm512_fmadd_ps(readShort(a + at * aStride, aStride, count - at),
                        readShort(b + at * bStride, bStride, count - at), sum);
  return _mm512_reduce_add_ps(sum);
}

/// Rounds a row of numbers, each times `factor`.
PP_DOT static void writeShort(const float *from, float factor, int64_t count,
                              uint16_t *to, int64_t stride) {
  for (int64_t at = 0; at < count; at += lanes) {
    const __mmask16 mask = maskOf(count - at);
    const __m512 numbers = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, from + at),
                                         _mm512_set1_ps(factor));
    if (stride == 1) {
      storeRounded(to + at, mask, numbers);
      continue;
    }
    alignas(32) std::array<uint16_t, lanes> rounded;
    storeRounded(rounded.data(), 0xffff, numbers);
    for (int64_t i = 0; i < std::min(count - at, lanes); ++i)
      to[(at + i) * stride] = rounded[i];
  }
}

//===----------------------------------------------------------------------===//
// Blocks and products
//===----------------------------------------------------------------------===//

static MatrixStrides transposed(MatrixStrides strides) {
  return {strides.column, strides.row};
}

void AttentionTiles::forBlocks(
    const std::function<void(const Block &)> &visit) const {
  for (int64_t first = 0; first < rows; first += blockRows) {
    const int64_t count = std::min(blockRows, rows - first);
    visit({first, count, isCausal ? first + count : columns});
  }
}

bool AttentionTiles::isOneBlock() const { return rows <= blockRows; }

MatrixTileProduct AttentionTiles::scoresOf(const Block &block) const {
  MatrixTileProduct product(block.count, width, block.seen, layouts.query,
                            transposed(layouts.key), {columns, 1},
                            /*isShort=*/false, /*isAdded=*/false, tiles);
  product.setPacked();
  return product;
}

MatrixTileProduct AttentionTiles::outputOf(const Block &block) const {
  return {block.count,       block.seen,        valueWidth,
          {columns, 1},      layouts.value,     {valueWidth, 1},
          /*isShort=*/false, /*isAdded=*/false, tiles};
}

MatrixTileProduct AttentionTiles::diffWeightsOf(const Block &block) const {
  MatrixTileProduct product(block.count, valueWidth, block.seen,
                            layouts.diffOutput, transposed(layouts.value),
                            {columns, 1}, /*isShort=*/false, /*isAdded=*/false,
                            tiles);
  product.setPacked();
  return product;
}

MatrixTileProduct AttentionTiles::diffQueryOf(const Block &block) const {
  return {block.count,      block.seen,        width,
          {columns, 1},     layouts.key,       layouts.diffQuery,
          /*isShort=*/true, /*isAdded=*/false, tiles};
}

MatrixTileProduct AttentionTiles::diffKeyOf(const Block &block) const {
  const bool isShort = isOneBlock();
  return {block.seen,
          block.count,
          width,
          {1, columns},
          layouts.query,
          isShort ? layouts.diffKey : MatrixStrides{width, 1},
          isShort,
          /*isAdded=*/!isShort,
          tiles};
}

MatrixTileProduct AttentionTiles::diffValueOf(const Block &block) const {
  const bool isShort = isOneBlock();
  return {block.seen,
          block.count,
          valueWidth,
          {1, columns},
          layouts.diffOutput,
          isShort ? layouts.diffValue : MatrixStrides{valueWidth, 1},
          isShort,
          /*isAdded=*/!isShort,
          tiles};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Offsets in a scratchpad.
class AttentionTiles::Places {
public:
  uint64_t add(uint64_t size) {
    uint64_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  }
  uint64_t size() const { return bytes; }

private:
  uint64_t bytes = 0;
};

struct AttentionTiles::ForwardPlaces {
  uint64_t keys, scores, weights, outputs, product, end;
};
struct AttentionTiles::BackwardPlaces {
  uint64_t keys, values, scores, diffWeights, weights, diffScores, diffKeys,
      diffValues, product, end;
};

template <typename T> static T *at(void *scratchpad, uint64_t offset) {
  return reinterpret_cast<T *>(static_cast<char *>(scratchpad) + offset);
}

AttentionTiles::ForwardPlaces AttentionTiles::placeForward() const {
  const auto block = static_cast<uint64_t>(std::min(blockRows, rows));
  const auto all = static_cast<uint64_t>(columns);
  uint64_t product = 0;
  forBlocks([&](const Block &block) {
    for (const MatrixTileProduct &one : {scoresOf(block), outputOf(block)})
      product = std::max(product, one.getScratchpadBytes());
  });
  Places places;
  ForwardPlaces result{};
  result.keys = places.add(scoresOf({0, 1, columns}).getPackedBytes());
  result.scores = places.add(block * all * sizeof(float));
  result.weights = places.add(block * all * sizeof(uint16_t));
  result.outputs =
      places.add(block * static_cast<uint64_t>(valueWidth) * sizeof(float));
  result.product = places.add(product);
  result.end = places.size();
  return result;
}

AttentionTiles::BackwardPlaces AttentionTiles::placeBackward() const {
  const auto block = static_cast<uint64_t>(std::min(blockRows, rows));
  const auto all = static_cast<uint64_t>(columns);
  uint64_t product = 0;
  forBlocks([&](const Block &block) {
    for (const MatrixTileProduct &one :
         {scoresOf(block), diffWeightsOf(block), diffQueryOf(block),
          diffKeyOf(block), diffValueOf(block)})
      product = std::max(product, one.getScratchpadBytes());
  });
  auto ofKey = [&](int64_t numbers) {
    return isOneBlock() ? 0
                        : all * static_cast<uint64_t>(numbers) * sizeof(float);
  };
  Places places;
  BackwardPlaces result{};
  result.keys = places.add(scoresOf({0, 1, columns}).getPackedBytes());
  result.values = places.add(diffWeightsOf({0, 1, columns}).getPackedBytes());
  result.scores = places.add(block * all * sizeof(float));
  result.diffWeights = places.add(block * all * sizeof(float));
  result.weights = places.add(block * all * sizeof(uint16_t));
  result.diffScores = places.add(block * all * sizeof(uint16_t));
  result.diffKeys = places.add(ofKey(width));
  result.diffValues = places.add(ofKey(valueWidth));
  result.product = places.add(product);
  result.end = places.size();
  return result;
}

uint64_t AttentionTiles::measureForward() const { return placeForward().end; }
uint64_t AttentionTiles::measureBackward() const { return placeBackward().end; }

//===----------------------------------------------------------------------===//
// Forward and backward
//===----------------------------------------------------------------------===//

void AttentionTiles::forward(const uint16_t *query, const uint16_t *key,
                             const uint16_t *value, const AttentionMask &mask,
                             uint16_t *output, float *logsumexp,
                             void *scratchpad) const {
  const ForwardPlaces places = placeForward();
  auto *keys = at<char>(scratchpad, places.keys),
       *product = at<char>(scratchpad, places.product);
  auto *scores = at<float>(scratchpad, places.scores),
       *outputs = at<float>(scratchpad, places.outputs);
  auto *weights = at<uint16_t>(scratchpad, places.weights);
  scoresOf({0, 1, columns}).packColumns(key, keys);
  forBlocks([&](const Block &block) {
    scoresOf(block).run(query + block.first * layouts.query.row, keys, scores,
                        product);
    std::array<float, blockRows> sums{};
    for (int64_t row = 0; row < block.count; ++row) {
      float *own = scores + row * columns;
      float &logarithm = logsumexp[block.first + row];
      const int64_t count = visible(block.first + row);
      if (mask && !mask.add(own, scale, block.first + row, count)) {
        std::fill_n(weights + row * columns, block.seen, uint16_t(0));
        logarithm = std::numeric_limits<float>::infinity();
        sums[row] = 1;
        continue;
      }
      sums[row] = weigh(own, mask ? 1 : scale, count, block.seen,
                        weights + row * columns, logarithm);
    }
    outputOf(block).run(weights, value, outputs, product);
    for (int64_t row = 0; row < block.count; ++row)
      writeShort(outputs + row * valueWidth, 1 / sums[row], valueWidth,
                 output + (block.first + row) * layouts.output.row,
                 layouts.output.column);
  });
}

void AttentionTiles::backward(const uint16_t *query, const uint16_t *key,
                              const uint16_t *value, const uint16_t *output,
                              const float *logsumexp,
                              const uint16_t *diffOutput,
                              const AttentionMask &mask,
                              const Gradients &gradients,
                              void *scratchpad) const {
  const BackwardPlaces places = placeBackward();
  auto *keys = at<char>(scratchpad, places.keys),
       *values = at<char>(scratchpad, places.values),
       *product = at<char>(scratchpad, places.product);
  auto *scores = at<float>(scratchpad, places.scores),
       *diffWeights = at<float>(scratchpad, places.diffWeights),
       *diffKeys = at<float>(scratchpad, places.diffKeys),
       *diffValues = at<float>(scratchpad, places.diffValues);
  auto *weights = at<uint16_t>(scratchpad, places.weights),
       *diffScores = at<uint16_t>(scratchpad, places.diffScores);
  scoresOf({0, 1, columns}).packColumns(key, keys);
  diffWeightsOf({0, 1, columns}).packColumns(value, values);
  if (!isOneBlock()) {
    std::fill(diffKeys, diffKeys + columns * width, 0.0f);
    std::fill(diffValues, diffValues + columns * valueWidth, 0.0f);
  }
  forBlocks([&](const Block &block) {
    const uint16_t *ownQuery = query + block.first * layouts.query.row,
                   *ownDiff = diffOutput + block.first * layouts.diffOutput.row;
    scoresOf(block).run(ownQuery, keys, scores, product);
    diffWeightsOf(block).run(ownDiff, values, diffWeights, product);
    for (int64_t row = 0; row < block.count; ++row) {
      const float mean =
          dot(ownDiff + row * layouts.diffOutput.row, layouts.diffOutput.column,
              output + (block.first + row) * layouts.output.row,
              layouts.output.column, valueWidth);
      const int64_t count = visible(block.first + row);
      // In a row of zeros, weights are 0 again: the logarithm is infinite.
      if (mask)
        mask.add(scores + row * columns, scale, block.first + row, count);
      weighBack(scores + row * columns, diffWeights + row * columns,
                mask ? 1 : scale, scale, logsumexp[block.first + row], mean,
                count, block.seen, weights + row * columns,
                diffScores + row * columns);
    }
    diffQueryOf(block).run(
        diffScores, key, gradients.query + block.first * layouts.diffQuery.row,
        product);
    diffKeyOf(block).run(
        diffScores, ownQuery,
        isOneBlock() ? static_cast<void *>(gradients.key) : diffKeys, product);
    diffValueOf(block).run(weights, ownDiff,
                           isOneBlock() ? static_cast<void *>(gradients.value)
                                        : diffValues,
                           product);
  });
  if (isOneBlock())
    return;
  for (int64_t row = 0; row < columns; ++row) {
    writeShort(diffKeys + row * width, 1, width,
               gradients.key + row * layouts.diffKey.row,
               layouts.diffKey.column);
    writeShort(diffValues + row * valueWidth, 1, valueWidth,
               gradients.value + row * layouts.diffValue.row,
               layouts.diffValue.column);
  }
}
