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

/// Up to as many rows, tiles read the other factor as it lies (TiledProduct).
static constexpr int64_t blockRows = 48;

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

PP_INLINE float sumOf(const Lanes &numbers) {
  float sum = 0;
  for (int64_t lane = 0; lane < lanes; ++lane)
    sum += numbers[lane];
  return sum;
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
  float largest = most[0];
  for (int64_t lane = 1; lane < lanes; ++lane)
    largest = std::max(largest, most[lane]);
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

namespace {
struct Functions {
  float (*weigh)(float *scores, float scale, int64_t visible, int64_t seen,
                 float &logsumexp);
  void (*weighBack)(float *scores, float *diffWeights, float scale,
                    float factor, float logsumexp, float mean, int64_t visible,
                    int64_t seen);
  float (*dot)(const float *a, const float *b, int64_t count);
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
  static constexpr Functions functions##name = {weigh##name, weighBack##name,  \
                                                dot##name};
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

/// c = a b, or c += a b, with rows of c `pitch` apart.
class AttentionProducts::Product {
public:
  struct Extents {
    int64_t m, k, n;
  };

  Product(bool inTiles, Extents extents, MatrixStrides a, MatrixStrides b,
          int64_t pitch, bool isAdded)
      : extents(extents), a(a), b(b), pitch(pitch), isAdded(isAdded),
        inTiles(inTiles), tiled({}, extents.m, extents.k, extents.n,
                                {DataType::F32, a.row, a.column, {}},
                                {DataType::F32, b.row, b.column, {}},
                                {DataType::F32, pitch, 1, {}}, isAdded) {}

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
  void run(const float *aData, const float *bData, float *c,
           void *scratchpad) const {
    if (inTiles)
      return tiled.run(aData, bData, c, scratchpad);
    auto isTransposed = [](MatrixStrides strides) {
      return strides.column != 1;
    };
    auto leading = [&](MatrixStrides strides) {
      return isTransposed(strides) ? strides.column : strides.row;
    };
    dnnl::error::wrap_c_api(
        dnnl_sgemm(isTransposed(a) ? 'T' : 'N', isTransposed(b) ? 'T' : 'N',
                   extents.m, extents.n, extents.k, 1, aData, leading(a), bData,
                   leading(b), isAdded ? 1 : 0, c, pitch),
        "the library refused a matrix product");
  }

private:
  Extents extents;
  MatrixStrides a, b;
  int64_t pitch;
  bool isAdded, inTiles;
  TiledProduct tiled;
};

int64_t AttentionProducts::pitch() const {
  return (sizes.columns + lanes - 1) / lanes * lanes + lanes;
}

void AttentionProducts::forBlocks(
    const std::function<void(const Block &)> &visit) const {
  for (int64_t first = 0; first < sizes.rows; first += blockRows) {
    const int64_t count = std::min(blockRows, sizes.rows - first);
    visit({first, count, sizes.isCausal ? first + count : sizes.columns});
  }
}

AttentionProducts::Product
AttentionProducts::scoresOf(const Block &block) const {
  return Product(inTiles, {block.count, sizes.width, block.seen},
                 {sizes.width, 1}, {1, sizes.width}, pitch(), /*isAdded=*/false)
      .setPacked();
}

AttentionProducts::Product
AttentionProducts::outputOf(const Block &block) const {
  return {inTiles,          {block.count, block.seen, sizes.valueWidth},
          {pitch(), 1},     {sizes.valueWidth, 1},
          sizes.valueWidth,
          /*isAdded=*/false};
}

AttentionProducts::Product
AttentionProducts::diffWeightsOf(const Block &block) const {
  return Product(inTiles, {block.count, sizes.valueWidth, block.seen},
                 {sizes.valueWidth, 1}, {1, sizes.valueWidth}, pitch(),
                 /*isAdded=*/false)
      .setPacked();
}

AttentionProducts::Product
AttentionProducts::diffQueryOf(const Block &block) const {
  return {inTiles,      {block.count, block.seen, sizes.width},
          {pitch(), 1}, {sizes.width, 1},
          sizes.width,  /*isAdded=*/false};
}

AttentionProducts::Product
AttentionProducts::diffKeyOf(const Block &block) const {
  return {inTiles,      {block.seen, block.count, sizes.width},
          {1, pitch()}, {sizes.width, 1},
          sizes.width,  /*isAdded=*/true};
}

AttentionProducts::Product
AttentionProducts::diffValueOf(const Block &block) const {
  return {inTiles,          {block.seen, block.count, sizes.valueWidth},
          {1, pitch()},     {sizes.valueWidth, 1},
          sizes.valueWidth,
          /*isAdded=*/true};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Offsets in a scratchpad; what only the derivative needs comes last.
struct AttentionProducts::Places {
  uint64_t keys, scores, product, endOfForward;
  uint64_t values, diffWeights, end;
};

AttentionProducts::Places AttentionProducts::place() const {
  const uint64_t ofBlock =
      std::min(blockRows, sizes.rows) * pitch() * sizeof(float);
  uint64_t bytes = 0;
  auto add = [&](uint64_t size) {
    const uint64_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  };
  uint64_t product = 0;
  forBlocks([&](const Block &block) {
    for (const Product &one :
         {scoresOf(block), outputOf(block), diffWeightsOf(block),
          diffQueryOf(block), diffKeyOf(block), diffValueOf(block)})
      product = std::max(product, one.getScratchpadBytes());
  });
  const Block whole{0, 1, sizes.columns};
  Places places{};
  places.keys = add(scoresOf(whole).getPackedBytes());
  places.scores = add(ofBlock);
  places.product = add(product);
  places.endOfForward = bytes;
  places.values = add(diffWeightsOf(whole).getPackedBytes());
  places.diffWeights = add(ofBlock);
  places.end = bytes;
  return places;
}

uint64_t AttentionProducts::measureForward() const {
  return place().endOfForward;
}
uint64_t AttentionProducts::measureBackward() const { return place().end; }

static float *at(void *scratchpad, uint64_t offset) {
  return reinterpret_cast<float *>(static_cast<char *>(scratchpad) + offset);
}

//===----------------------------------------------------------------------===//
// Forward and backward
//===----------------------------------------------------------------------===//

void AttentionProducts::forward(const float *query, const float *key,
                                const float *value, const AttentionMask &mask,
                                float *output, float *logsumexp,
                                void *scratchpad) const {
  const Places places = place();
  const Functions &work = functions();
  float *scores = at(scratchpad, places.scores),
        *product = at(scratchpad, places.product);
  const float *keys =
      scoresOf({0, 1, sizes.columns}).pack(key, at(scratchpad, places.keys));
  forBlocks([&](const Block &block) {
    scoresOf(block).run(query + block.first * sizes.width, keys, scores,
                        product);
    std::array<float, blockRows> sums{};
    for (int64_t row = 0; row < block.count; ++row) {
      float *own = scores + row * pitch();
      float &logarithm = logsumexp[block.first + row];
      const int64_t count = visible(block.first + row);
      if (mask && !mask.add(own, sizes.scale, block.first + row, count)) {
        std::fill_n(own, block.seen, 0.0f);
        logarithm = std::numeric_limits<float>::infinity();
        sums[row] = 1;
        continue;
      }
      sums[row] =
          work.weigh(own, mask ? 1 : sizes.scale, count, block.seen, logarithm);
    }
    float *own = output + block.first * sizes.valueWidth;
    outputOf(block).run(scores, value, own, product);
    for (int64_t row = 0; row < block.count; ++row)
      for (int64_t column = 0; column < sizes.valueWidth; ++column)
        own[row * sizes.valueWidth + column] /= sums[row];
  });
}

void AttentionProducts::backward(const float *query, const float *key,
                                 const float *value, const float *output,
                                 const float *logsumexp,
                                 const float *diffOutput,
                                 const AttentionMask &mask,
                                 const Gradients &gradients,
                                 void *scratchpad) const {
  const Places places = place();
  const Functions &work = functions();
  float *scores = at(scratchpad, places.scores),
        *diffWeights = at(scratchpad, places.diffWeights),
        *product = at(scratchpad, places.product);
  const Block whole{0, 1, sizes.columns};
  const float *keys = scoresOf(whole).pack(key, at(scratchpad, places.keys)),
              *values = diffWeightsOf(whole).pack(
                  value, at(scratchpad, places.values));
  std::fill_n(gradients.key, sizes.columns * sizes.width, 0.0f);
  std::fill_n(gradients.value, sizes.columns * sizes.valueWidth, 0.0f);
  forBlocks([&](const Block &block) {
    const float *ownQuery = query + block.first * sizes.width,
                *ownOutput = output + block.first * sizes.valueWidth,
                *ownDiff = diffOutput + block.first * sizes.valueWidth;
    scoresOf(block).run(ownQuery, keys, scores, product);
    diffWeightsOf(block).run(ownDiff, values, diffWeights, product);
    for (int64_t row = 0; row < block.count; ++row) {
      const int64_t count = visible(block.first + row);
      // In a row of zeros, weights are 0 again: the logarithm is infinite.
      if (mask)
        mask.add(scores + row * pitch(), sizes.scale, block.first + row, count);
      work.weighBack(
          scores + row * pitch(), diffWeights + row * pitch(),
          mask ? 1 : sizes.scale, sizes.scale, logsumexp[block.first + row],
          work.dot(ownDiff + row * sizes.valueWidth,
                   ownOutput + row * sizes.valueWidth, sizes.valueWidth),
          count, block.seen);
    }
    diffQueryOf(block).run(
        diffWeights, key, gradients.query + block.first * sizes.width, product);
    diffKeyOf(block).run(diffWeights, ownQuery, gradients.key, product);
    diffValueOf(block).run(scores, ownDiff, gradients.value, product);
  });
}
