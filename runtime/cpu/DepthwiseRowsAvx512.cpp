//===- DepthwiseRowsAvx512.cpp --------------------------------------------===//
#include "cpu/DepthwiseRows.h"
#include "cpu/TransposeRows.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#pragma clang attribute push(__attribute__((target("avx512f"))),               \
                             apply_to = function)
#define PP_INLINE __attribute__((always_inline)) inline

namespace {

using Vector = __m512;
constexpr int64_t width = 16;

/// Segments that have registers at a time.
template <int length>
constexpr int mostSegments = length == 1   ? 8
                             : length == 2 ? 6
                             : length == 3 ? 5
                             : length <= 5 ? 4
                                           : 3;

PP_INLINE Vector zero() { return _mm512_setzero_ps(); }
PP_INLINE Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
PP_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}

PP_INLINE __mmask16 firstLanes(int64_t count) {
  return static_cast<__mmask16>((1U << count) - 1);
}

PP_INLINE Vector widen(__m256i bits) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/// Rounds to the nearest, ties to even; what is not a number stays so.
PP_INLINE __m256i narrow(Vector value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded =
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  __mmask16 isNumber = _mm512_cmp_ps_mask(value, value, _CMP_ORD_Q);
  rounded = _mm512_mask_blend_epi32(isNumber, quiet, rounded);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

PP_INLINE Vector load(const float *from) { return _mm512_loadu_ps(from); }
PP_INLINE Vector load(const float *from, int64_t count) {
  return _mm512_maskz_loadu_ps(firstLanes(count), from);
}
PP_INLINE Vector load(const uint16_t *from) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
}
PP_INLINE Vector load(const uint16_t *from, int64_t count) {
  if (count == width)
    return load(from);
  alignas(32) uint16_t some[width] = {};
  std::memcpy(some, from, count * sizeof(uint16_t));
  return load(some);
}

PP_INLINE void store(float *to, Vector value) { _mm512_storeu_ps(to, value); }
PP_INLINE void store(float *to, Vector value, int64_t count) {
  _mm512_mask_storeu_ps(to, firstLanes(count), value);
}
PP_INLINE void store(uint16_t *to, Vector value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), narrow(value));
}
PP_INLINE void store(uint16_t *to, Vector value, int64_t count) {
  if (count == width)
    return store(to, value);
  alignas(32) uint16_t some[width];
  store(some, value);
  std::memcpy(to, some, count * sizeof(uint16_t));
}

PP_INLINE void turn(Vector (&rows)[width]) {
  pp::runtime::LaneRows numbers;
  for (int64_t i = 0; i < width; ++i)
    numbers[i] = _mm512_castps_si512(rows[i]);
  pp::runtime::transposeRows(numbers);
  for (int64_t i = 0; i < width; ++i)
    rows[i] = _mm512_castsi512_ps(numbers[i]);
}

PP_INLINE __m512i placesOf(int channels, int i) {
  const __m512i lane =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_add_epi32(_mm512_and_si512(lane, _mm512_set1_epi32(-channels)),
                          _mm512_set1_epi32(i));
}
PP_INLINE Vector pick(__m512i places, Vector value) {
  return _mm512_permutexvar_ps(places, value);
}

} // namespace

#include "cpu/DepthwiseLoops.h"

#pragma clang attribute pop

const RowLoops pp::runtime::depthwise::rowLoopsAvx512 = loops;
