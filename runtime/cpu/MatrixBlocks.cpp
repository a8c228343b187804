//===- MatrixBlocks.cpp ---------------------------------------------------===//
#include "cpu/MatrixBlocks.h"
#include "cpu/TransposeRows.h"
#include "plan/ShortFloat.h"

#include <immintrin.h>

#include <algorithm>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PP_AVX512_INLINE PP_AVX512 __attribute__((always_inline)) static inline

static constexpr int64_t half = 16;

/// The lanes of the columns from `first` on.
static __mmask16 maskFrom(int64_t first, int64_t columns) {
  return columns - first >= half
             ? 0xffff
             : static_cast<__mmask16>((1u << (columns - first)) - 1);
}

PP_AVX512 void pp::runtime::writeRow(const float *row, int64_t columns,
                                     float *c, int64_t stride, bool isAdded) {
  if (stride != 1) {
    for (int64_t column = 0; column < columns; ++column)
      c[column * stride] = (isAdded ? c[column * stride] : 0) + row[column];
    return;
  }
  for (int64_t first = 0; first < columns; first += half) {
    const __mmask16 mask = maskFrom(first, columns);
    __m512 numbers = _mm512_maskz_loadu_ps(mask, row + first);
    if (isAdded)
      numbers = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, c + first), numbers);
    _mm512_mask_storeu_ps(c + first, mask, numbers);
  }
}

/// `sum` and `count` rows, `distance` apart.
PP_AVX512_INLINE __m512 addRows(__m512 sum, const float *rows, int64_t count,
                                int64_t distance, __mmask16 mask) {
  for (int64_t i = 0; i < count; ++i)
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, rows + i * distance));
  return sum;
}

PP_AVX512 void pp::runtime::sumRows(const float *rows, int64_t count,
                                    int64_t distance, int64_t columns,
                                    RowPlace before, RowPlace to) {
  if ((before.at && before.stride != 1) || to.stride != 1) {
    for (int64_t column = 0; column < columns; ++column) {
      float sum = before.at ? before.at[column * before.stride] + rows[column]
                            : rows[column];
      for (int64_t i = 1; i < count; ++i)
        sum += rows[i * distance + column];
      to.at[column * to.stride] = sum;
    }
    return;
  }
  for (int64_t first = 0; first < columns; first += half) {
    const __mmask16 mask = maskFrom(first, columns);
    __m512 sum = _mm512_maskz_loadu_ps(mask, rows + first);
    if (before.at)
      sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, before.at + first), sum);
    _mm512_mask_storeu_ps(
        to.at + first, mask,
        addRows(sum, rows + first + distance, count - 1, distance, mask));
  }
}

PP_AVX512 void pp::runtime::streamSum(const float *rows, int64_t count,
                                      int64_t distance, int64_t columns,
                                      float *to) {
  for (int64_t first = 0; first < columns; first += half)
    _mm512_stream_ps(to + first,
                     addRows(_mm512_loadu_ps(rows + first),
                             rows + first + distance, count - 1, distance,
                             /*mask=*/0xffff));
}

/// In the lower halves of 32 bits each.
PP_AVX512_INLINE __m512i round(__m512 numbers) {
  const __m512i bits = _mm512_castps_si512(numbers);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i sum =
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 isNone = _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), isNone, upper,
                              _mm512_set1_epi32(0x40));
}

PP_AVX512 void pp::runtime::writeRow(const float *row, int64_t columns,
                                     uint16_t *c, int64_t stride) {
  if (stride != 1) {
    for (int64_t column = 0; column < columns; ++column)
      c[column * stride] = toBF16(row[column]);
    return;
  }
  for (int64_t first = 0; first < columns; first += half) {
    const __mmask16 mask = maskFrom(first, columns);
    const __m512 numbers = _mm512_maskz_loadu_ps(mask, row + first);
    _mm512_mask_cvtepi32_storeu_epi16(c + first, mask, round(numbers));
  }
}

PP_AVX512 void pp::runtime::readColumns(const float *c, int64_t count,
                                        float *columns) {
  const __mmask16 mask = maskFrom(0, count);
  LaneRows block;
  for (__m512i &row : block) {
    row = _mm512_maskz_loadu_epi32(mask, c);
    c += count;
  }
  transposeRows(block);
  for (int64_t column = 0; column < count; ++column)
    _mm512_storeu_si512(columns + column * half, block[column]);
}

PP_AVX512 void pp::runtime::writeColumns(const float *const *columns,
                                         int64_t count, int64_t offset,
                                         float *c) {
  for (int64_t first = 0; first < count; first += half) {
    LaneRows block{};
    for (int64_t column = 0; column < std::min(half, count - first); ++column)
      block[column] = _mm512_loadu_si512(columns[first + column] + offset);
    transposeRows(block);
    const __mmask16 mask = maskFrom(first, count);
    float *to = c + first;
    for (__m512i row : block) {
      _mm512_mask_storeu_epi32(to, mask, row);
      to += count;
    }
  }
}

PP_AVX512 void pp::runtime::streamRow(const float *row, int64_t columns,
                                      float *c) {
  for (int64_t first = 0; first < columns; first += half)
    _mm512_stream_ps(c + first, _mm512_loadu_ps(row + first));
}

void pp::runtime::endStreaming() { _mm_sfence(); }
