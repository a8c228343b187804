//===- ProductTilesAvx2.cpp -----------------------------------------------===//
#include "cpu/ProductTiles.h"

#include <immintrin.h>

#include <algorithm>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma")))

static constexpr int64_t tileRows = 6, tileColumns = panelColumns;

/// c = or += the product of a panel of a and one of b.
template <bool isAdded>
PP_AVX2 static void multiplyPanels(const float *a, const float *b,
                                   int64_t termStride, int64_t terms, float *c,
                                   int64_t rowStride) {
  __m256 sums[tileRows][2];
#pragma unroll
  for (int64_t row = 0; row < tileRows; ++row)
    sums[row][0] = sums[row][1] = _mm256_setzero_ps();
  for (int64_t row = 0; row < tileRows; ++row)
    _mm_prefetch(reinterpret_cast<const char *>(c + row * rowStride),
                 _MM_HINT_T0);
#pragma unroll 4
  for (int64_t term = 0; term < terms; ++term) {
    __m256 low = _mm256_loadu_ps(b), high = _mm256_loadu_ps(b + 8);
#pragma unroll
    for (int64_t row = 0; row < tileRows; ++row) {
      __m256 factor = _mm256_broadcast_ss(a + row);
      sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
      sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
    }
    a += tileRows;
    b += termStride;
  }
#pragma unroll
  for (int64_t row = 0; row < tileRows; ++row, c += rowStride) {
    __m256 low = sums[row][0], high = sums[row][1];
    if (isAdded) {
      low = _mm256_add_ps(_mm256_loadu_ps(c), low);
      high = _mm256_add_ps(_mm256_loadu_ps(c + 8), high);
    }
    _mm256_storeu_ps(c, low);
    _mm256_storeu_ps(c + 8, high);
  }
}

/// As multiplyPanels, of a tile that reaches over the end of c.
static void multiplyAtEdge(const float *a, const float *b, int64_t termStride,
                           int64_t terms, float *c, int64_t rowStride,
                           int64_t rows, int64_t columns, bool isAdded) {
  alignas(32) float tile[tileRows * tileColumns];
  multiplyPanels<false>(a, b, termStride, terms, tile, tileColumns);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      float &to = c[row * rowStride + column];
      float value = tile[row * tileColumns + column];
      to = isAdded ? to + value : value;
    }
}

static void multiplyBlock(const float *a, const float *b, int64_t panelStride,
                          int64_t termStride, int64_t rows, int64_t columns,
                          int64_t terms, float *c, int64_t rowStride,
                          bool isAdded) {
  for (int64_t column = 0; column < columns; column += tileColumns) {
    const float *panel = b + column / tileColumns * panelStride;
    int64_t width = std::min(tileColumns, columns - column);
    for (int64_t row = 0; row < rows; row += tileRows) {
      const float *own = a + row * terms;
      float *to = c + row * rowStride + column;
      int64_t height = std::min(tileRows, rows - row);
      if (width < tileColumns || height < tileRows)
        multiplyAtEdge(own, panel, termStride, terms, to, rowStride, height,
                       width, isAdded);
      else if (isAdded)
        multiplyPanels<true>(own, panel, termStride, terms, to, rowStride);
      else
        multiplyPanels<false>(own, panel, termStride, terms, to, rowStride);
    }
  }
}

const ProductTiles pp::runtime::productTilesAvx2 = {tileRows, multiplyBlock};
