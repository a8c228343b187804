//===- TransposeRows.h - Registers of numbers become columns ----*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_TRANSPOSEROWS_H
#define PP_RUNTIME_CPU_TRANSPOSEROWS_H

#include <immintrin.h>

#include <array>

namespace pp::runtime {

/// 16 registers of 16 numbers of 32 bits.
using LaneRows = std::array<__m512i, 16>;

/// 16 rows of 16 numbers of 32 bits become columns.
__attribute__((target("avx512f"), always_inline)) inline void
transposeRows(LaneRows &rows) {
  LaneRows other;
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  // rows[4 g + j] has column j of each quarter, for the rows 4 g to 4 g + 3.
  for (int j = 0; j < 4; ++j) {
    __m512i low = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
    __m512i high = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
    __m512i low2 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
    __m512i high2 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
    other[j] = _mm512_shuffle_i32x4(low, low2, 0x88);
    other[8 + j] = _mm512_shuffle_i32x4(low, low2, 0xdd);
    other[4 + j] = _mm512_shuffle_i32x4(high, high2, 0x88);
    other[12 + j] = _mm512_shuffle_i32x4(high, high2, 0xdd);
  }
  rows = other;
}

/// 8 registers of 8 numbers.
using HalfRows = std::array<__m256, 8>;

/// 8 rows of 8 numbers become columns.
__attribute__((target("avx2"), always_inline)) inline void
transposeRows(HalfRows &rows) {
  HalfRows other;
  for (int i = 0; i < 8; i += 2) {
    other[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    other[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    rows[i] = _mm256_shuffle_ps(other[i], other[i + 2], 0x44);
    rows[i + 1] = _mm256_shuffle_ps(other[i], other[i + 2], 0xee);
    rows[i + 2] = _mm256_shuffle_ps(other[i + 1], other[i + 3], 0x44);
    rows[i + 3] = _mm256_shuffle_ps(other[i + 1], other[i + 3], 0xee);
  }
  // rows[4 g + j] has column j of each half, for the rows 4 g to 4 g + 3.
  for (int j = 0; j < 4; ++j) {
    other[j] = _mm256_permute2f128_ps(rows[j], rows[4 + j], 0x20);
    other[4 + j] = _mm256_permute2f128_ps(rows[j], rows[4 + j], 0x31);
  }
  rows = other;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_TRANSPOSEROWS_H
