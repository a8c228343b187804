//===- DepthwiseRowsAvx2.cpp ----------------------------------------------===//
#include "cpu/DepthwiseRows.h"
#include "cpu/TransposeRows.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#pragma clang attribute push(__attribute__((target("avx2,fma"))),              \
                             apply_to = function)
#define PP_INLINE __attribute__((always_inline)) inline

namespace {

using Vector = __m256;
constexpr int64_t width = 8;

/// Segments that have registers at a time.
template <int length>
constexpr int mostSegments = length == 1   ? 8
                             : length == 2 ? 5
                             : length == 3 ? 3
                             : length <= 5 ? 2
                                           : 1;

PP_INLINE Vector zero() { return _mm256_setzero_ps(); }
PP_INLINE Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
PP_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}

PP_INLINE __m256i firstLanes(int64_t count) {
  alignas(32) static constexpr int32_t lanes[2 * width] = {-1, -1, -1, -1,
                                                           -1, -1, -1, -1};
  return _mm256_loadu_si256(
      reinterpret_cast<const __m256i *>(lanes + width - count));
}

PP_INLINE Vector widen(__m128i bits) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/// Rounds to the nearest, ties to even; what is not a number stays so.
PP_INLINE __m128i narrow(Vector value) {
  __m256i bits = _mm256_castps_si256(value);
  __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded =
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  Vector isNumber = _mm256_cmp_ps(value, value, _CMP_ORD_Q);
  rounded = _mm256_blendv_epi8(quiet, rounded, _mm256_castps_si256(isNumber));
  rounded = _mm256_srli_epi32(rounded, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(rounded),
                          _mm256_extracti128_si256(rounded, 1));
}

PP_INLINE Vector load(const float *from) { return _mm256_loadu_ps(from); }
PP_INLINE Vector load(const float *from, int64_t count) {
  return count == width ? load(from)
                        : _mm256_maskload_ps(from, firstLanes(count));
}
PP_INLINE Vector load(const uint16_t *from) {
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}
PP_INLINE Vector load(const uint16_t *from, int64_t count) {
  if (count == width)
    return load(from);
  alignas(16) uint16_t some[width] = {};
  std::memcpy(some, from, count * sizeof(uint16_t));
  return load(some);
}

PP_INLINE void store(float *to, Vector value) { _mm256_storeu_ps(to, value); }
/// Masked stores take tens of cycles on AMD's processors.
PP_INLINE void store(float *to, Vector value, int64_t count) {
  if (count == width)
    return store(to, value);
  __m128 left = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, left);
    to += 4;
    left = _mm256_extractf128_ps(value, 1);
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64 *>(to), left);
    to += 2;
    left = _mm_movehl_ps(left, left);
  }
  if (count & 1)
    _mm_store_ss(to, left);
}
PP_INLINE void store(uint16_t *to, Vector value) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), narrow(value));
}
PP_INLINE void store(uint16_t *to, Vector value, int64_t count) {
  if (count == width)
    return store(to, value);
  alignas(16) uint16_t some[width];
  store(some, value);
  std::memcpy(to, some, count * sizeof(uint16_t));
}

PP_INLINE void turn(Vector (&rows)[width]) {
  pp::runtime::HalfRows numbers;
  std::copy_n(rows, width, numbers.begin());
  pp::runtime::transposeRows(numbers);
  std::copy_n(numbers.begin(), width, rows);
}

PP_INLINE __m256i placesOf(int channels, int i) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_add_epi32(_mm256_and_si256(lane, _mm256_set1_epi32(-channels)),
                          _mm256_set1_epi32(i));
}
PP_INLINE Vector pick(__m256i places, Vector value) {
  return _mm256_permutevar8x32_ps(value, places);
}

} // namespace

#include "cpu/DepthwiseLoops.h"

#pragma clang attribute pop

const RowLoops pp::runtime::depthwise::rowLoopsAvx2 = loops;
