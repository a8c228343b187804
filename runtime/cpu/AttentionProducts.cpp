//===- AttentionProducts.cpp ----------------------------------------------===//
#include "cpu/AttentionProducts.h"
#include "cpu/ChannelLanes.h"
#include "cpu/ExponentialTerms.h"
#include "cpu/Processor.h"

#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace pp::runtime;

/// Of as many rows at most, tiles read the other factor as it lies
/// (TiledProduct).
static constexpr int64_t mostRows = 48;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static constexpr int64_t lanes = 16;

namespace {
using Lanes = LanesOf<lanes>;
using Words = WordsOf<lanes>;
} // namespace

PP_INLINE Lanes load(const float *from) { return loadLanes<lanes>(from); }
PP_INLINE void store(float *to, const Lanes &value) {
  storeLanes<lanes>(to, value);
}
PP_INLINE Lanes all(float value) { return Lanes{} + value; }

/// The first `count` of some numbers, and others' behind them.
PP_INLINE Lanes firstOf(int64_t count, const Lanes &some, const Lanes &others) {
  constexpr Words index{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return index < static_cast<uint32_t>(std::min(count, lanes)) ? some : others;
}

/// All lanes combined, halves first.
template <typename Combine>
PP_INLINE float reduceLanes(const Lanes &numbers, Combine combine) {
  const auto eight = combine(
      __builtin_shufflevector(numbers, numbers, 0, 1, 2, 3, 4, 5, 6, 7),
      __builtin_shufflevector(numbers, numbers, 8, 9, 10, 11, 12, 13, 14, 15));
  const auto four = combine(__builtin_shufflevector(eight, eight, 0, 1, 2, 3),
                            __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
  const auto two = combine(__builtin_shufflevector(four, four, 0, 1),
                           __builtin_shufflevector(four, four, 2, 3));
  return combine(two[0], two[1]);
}

PP_INLINE float sumOf(const Lanes &numbers) {
  return reduceLanes(numbers,
                     [](auto x, auto y)
                         __attribute__((always_inline)) { return x + y; });
}

PP_INLINE float largestOf(const Lanes &numbers) {
  return reduceLanes(numbers, [](auto x, auto y) __attribute__((
                                  always_inline)) { return x > y ? x : y; });
}

/// e^x for x up to 88, 0 below -87, and of a NaN NaN.
PP_INLINE Lanes exponential(const Lanes &x) {
  using Terms = ExponentialTerms;
  // A number so large that a sum with it ends with n.
  constexpr float large = 3 << 22;
  const Lanes sum = x * Terms::perLn2 + large;
  const Lanes n = sum - large;
  Lanes r = x - n * Terms::high;
  r = r - n * Terms::low;
  Lanes power = all(Terms::first);
  for (float coefficient : Terms::others)
    power = power * r + coefficient;
  const auto result = reinterpret_cast<Lanes>(
      reinterpret_cast<Words>(power) + (reinterpret_cast<Words>(sum) << 23));
  const Lanes number = x < -87.0f ? Lanes{} : result;
  return x == x ? number : x;
}

/// Zeros from the end of the last lanes that are seen on.
PP_INLINE void clearFrom(float *numbers, int64_t visible, int64_t seen) {
  for (int64_t at = (visible + lanes - 1) / lanes * lanes; at < seen;
       at += lanes)
    store(numbers + at, Lanes{});
}

/// Turns `visible` scores into weights that add up to the result, with zeros
/// behind them up to `seen`; says what the logarithm of their sum is. There is
/// memory for whole lanes.
PP_INLINE float weighBody(float *scores, float scale, int64_t visible,
                          int64_t seen, float &logsumexp) {
  const Lanes none = all(-std::numeric_limits<float>::infinity());
  Lanes most = none;
  for (int64_t at = 0; at < visible; at += lanes) {
    const Lanes scaled = firstOf(visible - at, load(scores + at) * scale, none);
    most = scaled > most ? scaled : most;
  }
  const float largest = largestOf(most);
  Lanes sums{};
  for (int64_t at = 0; at < visible; at += lanes) {
    const Lanes weights =
        firstOf(visible - at, exponential(load(scores + at) * scale - largest),
                Lanes{});
    sums += weights;
    store(scores + at, weights);
  }
  clearFrom(scores, visible, seen);
  const float sum = sumOf(sums);
  logsumexp = largest + std::log(sum);
  return sum;
}

/// The same weights again, as a share of their sum, and the derivatives of the
/// products of query and key, which are multiplied with `factor`, in place of
/// those of the weights.
PP_INLINE void weighBackBody(float *scores, float *diffWeights, float scale,
                             float factor, float logsumexp, float mean,
                             int64_t visible, int64_t seen) {
  for (int64_t at = 0; at < visible; at += lanes) {
    const Lanes share =
        firstOf(visible - at,
                exponential(load(scores + at) * scale - logsumexp), Lanes{});
    const Lanes diff = share * (load(diffWeights + at) - mean) * factor;
    store(scores + at, share);
    store(diffWeights + at, firstOf(visible - at, diff, Lanes{}));
  }
  clearFrom(scores, visible, seen);
  clearFrom(diffWeights, visible, seen);
}

PP_INLINE float dotBody(const float *a, const float *b, int64_t count) {
  Lanes sums{};
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes)
    sums += load(a + at) * load(b + at);
  float sum = sumOf(sums);
  for (; at < count; ++at)
    sum += a[at] * b[at];
  return sum;
}

/// Lanes of the last vector that there are not are left.
PP_INLINE void multiplyBody(float *numbers, float factor, int64_t count) {
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes)
    store(numbers + at, load(numbers + at) * factor);
  for (; at < count; ++at)
    numbers[at] *= factor;
}

/// sums[i] += a[i] * b[i].
PP_INLINE void addProductsBody(const float *a, const float *b, int64_t count,
                               float *sums) {
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes)
    store(sums + at, load(a + at) * load(b + at) + load(sums + at));
  for (; at < count; ++at)
    sums[at] += a[at] * b[at];
}

namespace {
struct Functions {
  float (*weigh)(float *scores, float scale, int64_t visible, int64_t seen,
                 float &logsumexp);
  void (*weighBack)(float *scores, float *diffWeights, float scale,
                    float factor, float logsumexp, float mean, int64_t visible,
                    int64_t seen);
  float (*dot)(const float *a, const float *b, int64_t count);
  void (*multiply)(float *numbers, float factor, int64_t count);
  void (*addProducts)(const float *a, const float *b, int64_t count,
                      float *sums);
};
} // namespace

// NOLINTBEGIN(bugprone-macro-parentheses)
#define PP_FOR_PROCESSOR(name, attribute)                                      \
  attribute static float weigh##name(float *scores, float scale,               \
                                     int64_t visible, int64_t seen,            \
                                     float &logsumexp) {                       \
    return weighBody(scores, scale, visible, seen, logsumexp);                 \
  }                                                                            \
  attribute static void weighBack##name(                                       \
      float *scores, float *diffWeights, float scale, float factor,            \
      float logsumexp, float mean, int64_t visible, int64_t seen) {            \
    weighBackBody(scores, diffWeights, scale, factor, logsumexp, mean,         \
                  visible, seen);                                              \
  }                                                                            \
  attribute static float dot##name(const float *a, const float *b,             \
                                   int64_t count) {                            \
    return dotBody(a, b, count);                                               \
  }                                                                            \
  attribute static void multiply##name(float *numbers, float factor,           \
                                       int64_t count) {                        \
    multiplyBody(numbers, factor, count);                                      \
  }                                                                            \
  attribute static void addProducts##name(const float *a, const float *b,      \
                                          int64_t count, float *sums) {        \
    addProductsBody(a, b, count, sums);                                        \
  }                                                                            \
  static constexpr Functions functions##name = {weigh##name, weighBack##name,  \
                                                dot##name, multiply##name,     \
                                                addProducts##name};
// NOLINTEND(bugprone-macro-parentheses)

PP_FOR_PROCESSOR(Plain, )
PP_FOR_PROCESSOR(Avx2, __attribute__((target("avx2,fma"))))
PP_FOR_PROCESSOR(Avx512, __attribute__((target("avx512f"))))

static const Functions &functions() {
  return hasAvx512()                  ? functionsAvx512
         : TiledProduct::isPossible() ? functionsAvx2
                                      : functionsPlain;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// c = a b, or c += a b.
class AttentionProducts::Product {
public:
  struct Extents {
    int64_t m, k, n;
  };

  Product(bool inTiles, Extents extents, MatrixStrides a, MatrixStrides b,
          MatrixStrides c, bool isAdded)
      : extents(extents), a(a), b(b), c(c), isAdded(isAdded), inTiles(inTiles),
        tiled({}, extents.m, extents.k, extents.n,
              {DataType::F32, a.row, a.column, {}},
              {DataType::F32, b.row, b.column, {}},
              {DataType::F32, c.row, c.column, {}}, isAdded) {}

  /// Lets `run` read what `pack` returned.
  Product &setPacked() {
    if (inTiles)
      tiled.setPacked();
    return *this;
  }
  uint64_t getPackedBytes() const {
    return inTiles ? tiled.getPackedBytes() : 0;
  }
  const float *pack(const float *from, float *to) const {
    if (!inTiles)
      return from;
    tiled.packColumns(from, to);
    return to;
  }

  uint64_t getScratchpadBytes() const {
    return inTiles ? tiled.getScratchpadBytes() : 0;
  }
  void run(const float *aData, const float *bData, float *cData,
           void *scratchpad) const {
    if (inTiles)
      return tiled.run(aData, bData, cData, scratchpad);
    auto isTransposed = [](MatrixStrides strides) {
      return strides.column != 1;
    };
    auto leading = [&](MatrixStrides strides) {
      return isTransposed(strides) ? strides.column : strides.row;
    };
    dnnl::error::wrap_c_api(
        dnnl_sgemm(isTransposed(a) ? 'T' : 'N', isTransposed(b) ? 'T' : 'N',
                   extents.m, extents.n, extents.k, 1, aData, leading(a), bData,
                   leading(b), isAdded ? 1 : 0, cData, c.row),
        "the library refused a matrix product");
  }

private:
  Extents extents;
  MatrixStrides a, b, c;
  bool isAdded, inTiles;
  TiledProduct tiled;
};

int64_t AttentionProducts::pitch() const {
  return (sizes.columns + lanes - 1) / lanes * lanes + lanes;
}

static MatrixStrides transposed(MatrixStrides strides) {
  return {strides.column, strides.row};
}

int64_t AttentionProducts::countBlocks() const {
  return (sizes.rows + mostRows - 1) / mostRows;
}

void AttentionProducts::forBlocks(
    Range blocks, const std::function<void(const Block &)> &visit) const {
  const int64_t all = countBlocks();
  for (int64_t i = blocks.begin; i < blocks.begin + blocks.count; ++i) {
    const int64_t first = sizes.rows * i / all,
                  end = sizes.rows * (i + 1) / all;
    visit({first, end - first, sizes.isCausal ? end : sizes.columns});
  }
}

AttentionProducts::Product
AttentionProducts::scoresOf(const Block &block) const {
  return Product(inTiles, {block.count, sizes.width, block.seen}, layouts.query,
                 transposed(layouts.key), {pitch(), 1}, /*isAdded=*/false)
      .setPacked();
}

AttentionProducts::Product
AttentionProducts::outputOf(const Block &block) const {
  return {inTiles,        {block.count, block.seen, sizes.valueWidth},
          {pitch(), 1},   layouts.value,
          layouts.output, /*isAdded=*/false};
}

AttentionProducts::Product
AttentionProducts::diffWeightsOf(const Block &block) const {
  return Product(inTiles, {block.count, sizes.valueWidth, block.seen},
                 layouts.diffOutput, transposed(layouts.value), {pitch(), 1},
                 /*isAdded=*/false)
      .setPacked();
}

AttentionProducts::Product
AttentionProducts::diffQueryOf(const Block &block) const {
  return {inTiles,           {block.count, block.seen, sizes.width},
          {pitch(), 1},      layouts.key,
          layouts.diffQuery, /*isAdded=*/false};
}

AttentionProducts::Product
AttentionProducts::diffKeyOf(const Block &block) const {
  return {inTiles,         {block.seen, block.count, sizes.width},
          {1, pitch()},    layouts.query,
          layouts.diffKey, /*isAdded=*/block.first > 0};
}

AttentionProducts::Product
AttentionProducts::diffValueOf(const Block &block) const {
  return {inTiles,           {block.seen, block.count, sizes.valueWidth},
          {1, pitch()},      layouts.diffOutput,
          layouts.diffValue, /*isAdded=*/block.first > 0};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

AttentionProducts::Places AttentionProducts::place() const {
  const uint64_t ofBlock =
      std::min(mostRows, sizes.rows) * pitch() * sizeof(float);
  uint64_t bytes = 0;
  auto add = [&](uint64_t size) {
    const uint64_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  };
  uint64_t product = 0;
  forBlocks(allBlocks(), [&](const Block &block) {
    for (const Product &one :
         {scoresOf(block), outputOf(block), diffWeightsOf(block),
          diffQueryOf(block), diffKeyOf(block), diffValueOf(block)})
      product = std::max(product, one.getScratchpadBytes());
  });
  const Block whole{0, 1, sizes.columns};
  Places result{};
  result.keys = add(scoresOf(whole).getPackedBytes());
  result.scores = add(ofBlock);
  result.product = add(product);
  result.endOfForward = bytes;
  result.values = add(diffWeightsOf(whole).getPackedBytes());
  result.diffWeights = add(ofBlock);
  result.end = bytes;
  return result;
}

static float *at(void *scratchpad, uint64_t offset) {
  return reinterpret_cast<float *>(static_cast<char *>(scratchpad) + offset);
}

//===----------------------------------------------------------------------===//
// Forward and backward
//===----------------------------------------------------------------------===//

void AttentionProducts::addMeans(const float *diffOutput, const float *output,
                                 int64_t rows, float *means) const {
  const MatrixStrides a = layouts.diffOutput, b = layouts.output;
  const Functions &work = functions();
  if (a.column == 1 && b.column == 1)
    for (int64_t row = 0; row < rows; ++row)
      means[row] = work.dot(diffOutput + row * a.row, output + row * b.row,
                            sizes.valueWidth);
  else if (a.row == 1 && b.row == 1)
    for (int64_t column = 0; column < sizes.valueWidth; ++column)
      work.addProducts(diffOutput + column * a.column,
                       output + column * b.column, rows, means);
  else
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < sizes.valueWidth; ++column)
        means[row] += diffOutput[row * a.row + column * a.column] *
                      output[row * b.row + column * b.column];
}

void AttentionProducts::clearRows(float *matrix, MatrixStrides strides,
                                  int64_t width, int64_t first) const {
  for (int64_t row = first; row < sizes.columns; ++row)
    for (int64_t column = 0; column < width; ++column)
      matrix[row * strides.row + column * strides.column] = 0;
}

void AttentionProducts::forward(Range blocks, const float *query,
                                const float *key, const float *value,
                                const AttentionMask &mask,
                                const RowsAhead &ahead, float *output,
                                float *logsumexp, void *scratchpad) const {
  const Functions &work = functions();
  float *scores = at(scratchpad, places.scores),
        *product = at(scratchpad, places.product);
  const float *keys =
      scoresOf({0, 1, sizes.columns}).pack(key, at(scratchpad, places.keys));
  forBlocks(blocks, [&](const Block &block) {
    scoresOf(block).run(query + block.first * layouts.query.row, keys, scores,
                        product);
    // What is fewer is divided by the sum: the weights, or the result.
    const bool areShares =
        block.seen <= sizes.valueWidth || layouts.output.column != 1;
    std::array<float, mostRows> factors{};
    for (int64_t row = 0; row < block.count; ++row) {
      ahead.fetch(block.first + row, sizes.rows);
      float *own = scores + row * pitch();
      float &logarithm = logsumexp[block.first + row];
      const int64_t count = visible(block.first + row);
      if (mask && !mask.add(own, sizes.scale, block.first + row, count)) {
        std::fill_n(own, block.seen, 0.0f);
        logarithm = std::numeric_limits<float>::infinity();
        factors[row] = 1;
        continue;
      }
      factors[row] = 1 / work.weigh(own, mask ? 1 : sizes.scale, count,
                                    block.seen, logarithm);
      if (areShares)
        work.multiply(own, factors[row], count);
    }
    float *own = output + block.first * layouts.output.row;
    outputOf(block).run(scores, value, own, product);
    for (int64_t row = 0; row < block.count && !areShares; ++row)
      work.multiply(own + row * layouts.output.row, factors[row],
                    sizes.valueWidth);
  });
}

void AttentionProducts::backward(
    const float *query, const float *key, const float *value,
    const float *output, const float *logsumexp, const float *diffOutput,
    const AttentionMask &mask, const RowsAhead &ahead,
    const Gradients &gradients, void *scratchpad) const {
  const Functions &work = functions();
  float *scores = at(scratchpad, places.scores),
        *diffWeights = at(scratchpad, places.diffWeights),
        *product = at(scratchpad, places.product);
  const Block whole{0, 1, sizes.columns};
  const float *keys = scoresOf(whole).pack(key, at(scratchpad, places.keys)),
              *values = diffWeightsOf(whole).pack(
                  value, at(scratchpad, places.values));
  forBlocks(allBlocks(), [&](const Block &block) {
    const float *ownQuery = query + block.first * layouts.query.row,
                *ownOutput = output + block.first * layouts.output.row,
                *ownDiff = diffOutput + block.first * layouts.diffOutput.row;
    scoresOf(block).run(ownQuery, keys, scores, product);
    diffWeightsOf(block).run(ownDiff, values, diffWeights, product);
    std::array<float, mostRows> means{};
    addMeans(ownDiff, ownOutput, block.count, means.data());
    for (int64_t row = 0; row < block.count; ++row) {
      ahead.fetch(block.first + row, sizes.rows);
      const int64_t count = visible(block.first + row);
      // In a row of zeros, weights are 0 again: the logarithm is infinite.
      if (mask)
        mask.add(scores + row * pitch(), sizes.scale, block.first + row, count);
      work.weighBack(scores + row * pitch(), diffWeights + row * pitch(),
                     mask ? 1 : sizes.scale, sizes.scale,
                     logsumexp[block.first + row], means[row], count,
                     block.seen);
    }
    if (block.first == 0) {
      clearRows(gradients.key, layouts.diffKey, sizes.width, block.seen);
      clearRows(gradients.value, layouts.diffValue, sizes.valueWidth,
                block.seen);
    }
    diffQueryOf(block).run(
        diffWeights, key, gradients.query + block.first * layouts.diffQuery.row,
        product);
    diffKeyOf(block).run(diffWeights, ownQuery, gradients.key, product);
    diffValueOf(block).run(scores, ownDiff, gradients.value, product);
  });
}
