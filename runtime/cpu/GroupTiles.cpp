//===- GroupTiles.cpp -----------------------------------------------------===//
#include "cpu/GroupTiles.h"
#include "cpu/ConvEpilogue.h"

#include <immintrin.h>

#include <array>
#include <utility>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma")))
#define PP_AVX2_INLINE __attribute__((target("avx2,fma"), always_inline))

/// ConvEpilogue::apply() of a vector.
PP_AVX2_INLINE static inline __m256 activate(const ConvEpilogue &epilogue,
                                             __m256 sum) {
  if (epilogue.activation == ConvEpilogue::Relu)
    return _mm256_andnot_ps(_mm256_cmp_ps(sum, _mm256_setzero_ps(), _CMP_LE_OQ),
                            sum);
  if (epilogue.activation == ConvEpilogue::None)
    return sum;
  const __m256 low = _mm256_set1_ps(epilogue.low),
               high = _mm256_set1_ps(epilogue.high);
  const __m256 isLow = _mm256_cmp_ps(sum, low, _CMP_LE_OQ),
               isHigh = _mm256_cmp_ps(sum, high, _CMP_GE_OQ);
  return _mm256_blendv_ps(_mm256_blendv_ps(sum, high, isHigh), low, isLow);
}

/// Some pixels, from the first one of `row` on.
template <int vectors, int pixels>
PP_AVX2 static void multiplyPixels(const GroupRow &row,
                                   const ConvEpilogue &epilogue,
                                   int64_t first) {
  __m256 sums[pixels][vectors];
#pragma unroll
  for (int pixel = 0; pixel < pixels; ++pixel)
#pragma unroll
    for (int vector = 0; vector < vectors; ++vector)
      sums[pixel][vector] = _mm256_setzero_ps();
  const float *weights = row.weights;
  for (int64_t segment = 0; segment < row.segments; ++segment) {
    const float *from = row.from + row.offsets[segment] + first * groupLanes;
    // Unrolled, numbers would be read ahead into registers that are not there.
#pragma clang loop unroll(disable)
    for (int term = 0; term < groupLanes; ++term) {
      __m256 factors[vectors];
#pragma unroll
      for (int vector = 0; vector < vectors; ++vector)
        factors[vector] = _mm256_loadu_ps(weights + vector * groupLanes);
#pragma unroll
      for (int pixel = 0; pixel < pixels; ++pixel) {
        const __m256 number = _mm256_broadcast_ss(from + pixel * groupLanes);
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector)
          sums[pixel][vector] =
              _mm256_fmadd_ps(number, factors[vector], sums[pixel][vector]);
      }
      ++from;
      weights += vectors * groupLanes;
    }
  }
#pragma unroll
  for (int pixel = 0; pixel < pixels; ++pixel)
#pragma unroll
    for (int vector = 0; vector < vectors; ++vector) {
      __m256 sum = sums[pixel][vector];
      const int64_t at = (first + pixel) * row.toStep + vector * row.toVector;
      if (row.bias)
        sum =
            _mm256_add_ps(sum, _mm256_loadu_ps(row.bias + vector * groupLanes));
      if (row.residual)
        sum = _mm256_add_ps(sum, _mm256_loadu_ps(row.residual + at));
      _mm256_storeu_ps(row.to + at, activate(epilogue, sum));
    }
}

/// A row in as few tiles as there can be, of which none is much smaller: a sum
/// takes four cycles, so that eight of them keep a core busy.
template <int vectors, int most, size_t... counts>
static void multiplyTiles(const GroupRow &row, const ConvEpilogue &epilogue,
                          std::index_sequence<counts...> /*counts*/) {
  using Multiply = void(const GroupRow &, const ConvEpilogue &, int64_t);
  static constexpr std::array<Multiply *, most> multiply = {
      multiplyPixels<vectors, counts + 1>...};
  const int64_t tiles = (row.pixels + most - 1) / most;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = row.pixels * tile / tiles;
    const int64_t end = row.pixels * (tile + 1) / tiles;
    multiply[end - first - 1](row, epilogue, first);
  }
}

void pp::runtime::multiplyGroupRow(int64_t vectors, const GroupRow &row,
                                   const ConvEpilogue &epilogue) {
  if (vectors == 1)
    multiplyTiles<1, 12>(row, epilogue, std::make_index_sequence<12>());
  else
    multiplyTiles<2, 6>(row, epilogue, std::make_index_sequence<6>());
}

template <int places>
PP_AVX2 static void addProducts(const GroupProducts &products) {
  constexpr int channels = groupChannelsAtOnce(places);
  __m256 sums[places][channels];
#pragma unroll
  for (int place = 0; place < places; ++place)
#pragma unroll
    for (int channel = 0; channel < channels; ++channel)
      sums[place][channel] = _mm256_setzero_ps();
  const float *dy = products.dy;
  for (int64_t row = 0; row < products.rows; ++row) {
    const float *x[places];
#pragma unroll
    for (int place = 0; place < places; ++place)
      x[place] = products.x[place] + row * products.pitch;
#pragma clang loop unroll(disable)
    for (int64_t pixel = 0; pixel < products.pixels; ++pixel) {
      const __m256 factors = _mm256_loadu_ps(dy);
#pragma unroll
      for (int place = 0; place < places; ++place)
#pragma unroll
        for (int channel = 0; channel < channels; ++channel)
          sums[place][channel] =
              _mm256_fmadd_ps(_mm256_broadcast_ss(x[place] + channel), factors,
                              sums[place][channel]);
#pragma unroll
      for (int place = 0; place < places; ++place)
        x[place] += groupLanes;
      dy += groupLanes;
    }
  }
#pragma unroll
  for (int place = 0; place < places; ++place)
#pragma unroll
    for (int channel = 0; channel < channels; ++channel) {
      float *to =
          products.sums + place * products.ofPlace + channel * groupLanes;
      _mm256_storeu_ps(
          to, _mm256_add_ps(_mm256_loadu_ps(to), sums[place][channel]));
    }
}

void pp::runtime::addGroupProducts(int64_t places,
                                   const GroupProducts &products) {
  static constexpr decltype(addProducts<1>) *add[mostGroupPlaces] = {
      addProducts<1>, addProducts<2>, addProducts<3>};
  add[places - 1](products);
}

PP_AVX2 void pp::runtime::copyGroupPixels(const float *from, int64_t step,
                                          int64_t pixels, float *to) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    _mm256_storeu_ps(to + pixel * groupLanes,
                     _mm256_loadu_ps(from + pixel * step));
}
