//===- ProductTilesAvx2.cpp -----------------------------------------------===//
#include "cpu/ProductTiles.h"

#include <immintrin.h>

#include <algorithm>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma")))

static constexpr int64_t tileRows = 6, tileColumns = panelColumns;

/// c = or += the product of a panel of a and one of b.
template <bool isAdded, bool isPacked>
PP_AVX2 static void multiplyPanels(const float *a, int64_t aStride,
                                   const float *b, int64_t termStride,
                                   int64_t terms, float *c, int64_t rowStride) {
  // An address is a pointer and up to twice a distance.
  const float *low = a, *high = a + 3 * aStride;
  __m256 sums[tileRows][2];
#pragma unroll
  for (int64_t row = 0; row < tileRows; ++row)
    sums[row][0] = sums[row][1] = _mm256_setzero_ps();
  for (int64_t row = 0; row < tileRows; ++row)
    _mm_prefetch(reinterpret_cast<const char *>(c + row * rowStride),
                 _MM_HINT_T0);
#pragma unroll 4
  for (int64_t term = 0; term < terms; ++term) {
    __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + 8);
#pragma unroll
    for (int64_t row = 0; row < tileRows; ++row) {
      __m256 factor = _mm256_broadcast_ss(
          isPacked ? a + row : (row < 3 ? low : high) + row % 3 * aStride);
      sums[row][0] = _mm256_fmadd_ps(factor, left, sums[row][0]);
      sums[row][1] = _mm256_fmadd_ps(factor, right, sums[row][1]);
    }
    a += tileRows;
    ++low;
    ++high;
    b += termStride;
  }
#pragma unroll
  for (int64_t row = 0; row < tileRows; ++row, c += rowStride) {
    __m256 left = sums[row][0], right = sums[row][1];
    if (isAdded) {
      left = _mm256_add_ps(_mm256_loadu_ps(c), left);
      right = _mm256_add_ps(_mm256_loadu_ps(c + 8), right);
    }
    _mm256_storeu_ps(c, left);
    _mm256_storeu_ps(c + 8, right);
  }
}

static void multiplyTile(const float *a, int64_t aStride, const float *b,
                         int64_t termStride, int64_t terms, float *c,
                         int64_t rowStride, bool isAdded) {
  auto *multiply = aStride == 0 ? isAdded ? multiplyPanels<true, true>
                                          : multiplyPanels<false, true>
                   : isAdded    ? multiplyPanels<true, false>
                                : multiplyPanels<false, false>;
  multiply(a, aStride, b, termStride, terms, c, rowStride);
}

/// As multiplyTile, of a tile that reaches over the end of c.
static void multiplyAtEdge(const float *a, int64_t aStride, const float *b,
                           int64_t termStride, int64_t terms, float *c,
                           int64_t rowStride, int64_t rows, int64_t columns,
                           bool isAdded) {
  alignas(32) float tile[tileRows * tileColumns];
  multiplyTile(a, aStride, b, termStride, terms, tile, tileColumns,
               /*isAdded=*/false);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      float &to = c[row * rowStride + column];
      float value = tile[row * tileColumns + column];
      to = isAdded ? to + value : value;
    }
}

static void multiplyBlock(const float *a, int64_t aStride, const float *b,
                          int64_t panelStride, int64_t termStride, int64_t rows,
                          int64_t columns, int64_t terms, float *c,
                          int64_t rowStride, bool isAdded) {
  for (int64_t column = 0; column < columns; column += tileColumns) {
    const float *panel = b + column / tileColumns * panelStride;
    int64_t width = std::min(tileColumns, columns - column);
    for (int64_t row = 0; row < rows; row += tileRows) {
      const float *own = a + row * (aStride == 0 ? terms : aStride);
      float *to = c + row * rowStride + column;
      int64_t height = std::min(tileRows, rows - row);
      if (width < tileColumns || height < tileRows)
        multiplyAtEdge(own, aStride, panel, termStride, terms, to, rowStride,
                       height, width, isAdded);
      else
        multiplyTile(own, aStride, panel, termStride, terms, to, rowStride,
                     isAdded);
    }
  }
}

const ProductTiles pp::runtime::productTilesAvx2 = {tileRows, multiplyBlock,
                                                    multiplyBlock};
