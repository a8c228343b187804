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

/// The same of the first eight columns of the panel, which has no more.
template <bool isAdded, bool isPacked>
PP_AVX2 static void multiplyHalf(const float *a, int64_t aStride,
                                 const float *b, int64_t termStride,
                                 int64_t terms, float *c, int64_t rowStride) {
  const float *low = a, *high = a + 3 * aStride;
  __m256 sums[tileRows];
#pragma unroll
  for (int64_t row = 0; row < tileRows; ++row)
    sums[row] = _mm256_setzero_ps();
#pragma unroll 4
  for (int64_t term = 0; term < terms; ++term) {
    const __m256 columns = _mm256_loadu_ps(b);
#pragma unroll
    for (int64_t row = 0; row < tileRows; ++row)
      sums[row] = _mm256_fmadd_ps(
          _mm256_broadcast_ss(
              isPacked ? a + row : (row < 3 ? low : high) + row % 3 * aStride),
          columns, sums[row]);
    a += tileRows;
    ++low;
    ++high;
    b += termStride;
  }
#pragma unroll
  for (int64_t row = 0; row < tileRows; ++row, c += rowStride)
    _mm256_storeu_ps(c, isAdded ? _mm256_add_ps(_mm256_loadu_ps(c), sums[row])
                                : sums[row]);
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

static void multiplyHalfTile(const float *a, int64_t aStride, const float *b,
                             int64_t termStride, int64_t terms, float *c,
                             int64_t rowStride, bool isAdded) {
  auto *multiply = aStride == 0 ? isAdded ? multiplyHalf<true, true>
                                          : multiplyHalf<false, true>
                   : isAdded    ? multiplyHalf<true, false>
                                : multiplyHalf<false, false>;
  multiply(a, aStride, b, termStride, terms, c, rowStride);
}

/// As multiplyTile, of a tile that reaches over the end of c.
static void multiplyAtEdge(const float *a, int64_t aStride, const float *b,
                           int64_t termStride, int64_t terms, float *c,
                           int64_t rowStride, int64_t rows, int64_t columns,
                           bool isAdded) {
  alignas(32) float tile[tileRows * tileColumns];
  auto *multiply = columns <= tileColumns / 2 ? multiplyHalfTile : multiplyTile;
  multiply(a, aStride, b, termStride, terms, tile, tileColumns,
           /*isAdded=*/false);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      float &to = c[row * rowStride + column];
      float value = tile[row * tileColumns + column];
      to = isAdded ? to + value : value;
    }
}

/// Asks for what a tile reads of a.
static void fetchRows(const float *a, int64_t stride, int64_t terms) {
  constexpr int64_t numbersOfLine = 16;
  for (int64_t row = 0; row < tileRows; ++row)
    for (int64_t term = 0; term < terms; term += numbersOfLine)
      __builtin_prefetch(a + row * stride + term);
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
      // The next block follows where it lies: rows that are too short for the
      // processor to read them ahead itself.
      if (aStride != 0 && column == 0)
        fetchRows(own + rows * aStride, aStride, terms);
      if (width == tileColumns / 2 && height == tileRows)
        multiplyHalfTile(own, aStride, panel, termStride, terms, to, rowStride,
                         isAdded);
      else if (width < tileColumns || height < tileRows)
        multiplyAtEdge(own, aStride, panel, termStride, terms, to, rowStride,
                       height, width, isAdded);
      else
        multiplyTile(own, aStride, panel, termStride, terms, to, rowStride,
                     isAdded);
    }
  }
}

/// c = or += the product of a few rows of a and several panels of b.
template <int rows, int panels>
PP_AVX2 static void multiplyRows(const float *a, int64_t aStride,
                                 const float *b, int64_t panelStride,
                                 int64_t termStride, int64_t terms, float *c,
                                 int64_t rowStride, bool isAdded) {
  constexpr int halves = 2 * panels;
  __m256 sums[rows][halves];
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int64_t half = 0; half < halves; ++half)
      sums[row][half] = _mm256_setzero_ps();
  for (int64_t term = 0; term < terms; ++term, b += termStride) {
    __m256 factors[rows];
#pragma unroll
    for (int row = 0; row < rows; ++row)
      factors[row] = _mm256_broadcast_ss(a + row * aStride + term);
#pragma unroll
    for (int64_t half = 0; half < halves; ++half) {
      const __m256 column =
          _mm256_loadu_ps(b + half / 2 * panelStride + half % 2 * 8);
#pragma unroll
      for (int row = 0; row < rows; ++row)
        sums[row][half] =
            _mm256_fmadd_ps(factors[row], column, sums[row][half]);
    }
  }
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int64_t half = 0; half < halves; ++half) {
      float *to = c + row * rowStride + half * 8;
      __m256 sum = sums[row][half];
      if (isAdded)
        sum = _mm256_add_ps(_mm256_loadu_ps(to), sum);
      _mm256_storeu_ps(to, sum);
    }
}

/// By rows - 1 and panels - 1: as many panels as fill twelve registers, or
/// fewer at the end.
static constexpr int64_t mostFarRows = 3, mostFarPanels = 4;
static constexpr int64_t farPanels[mostFarRows] = {4, 3, 2};
static constexpr decltype(multiplyRows<1, 1>)
    *rowsOf[mostFarRows][mostFarPanels] = {
        {multiplyRows<1, 1>, multiplyRows<1, 2>, multiplyRows<1, 3>,
         multiplyRows<1, 4>},
        {multiplyRows<2, 1>, multiplyRows<2, 2>, multiplyRows<2, 3>},
        {multiplyRows<3, 1>, multiplyRows<3, 2>}};

/// A few rows wait for b, and memory gives most to a core that reads several
/// panels at once (measured on Zen 3: 14 GB/s of one, 19 of two, 20 of four;
/// asking ahead brings nothing).
static void multiplyFar(const float *a, int64_t aStride, const float *b,
                        int64_t panelStride, int64_t termStride, int64_t rows,
                        int64_t columns, int64_t terms, float *c,
                        int64_t rowStride, bool isAdded) {
  if (aStride == 0 || rows > mostFarRows)
    return multiplyBlock(a, aStride, b, panelStride, termStride, rows, columns,
                         terms, c, rowStride, isAdded);
  const int64_t atOnce = farPanels[rows - 1] * tileColumns;
  const int64_t whole = columns / tileColumns * tileColumns;
  for (int64_t column = 0; column < whole; column += atOnce) {
    const int64_t panels = std::min(atOnce, whole - column) / tileColumns;
    rowsOf[rows - 1][panels - 1](
        a, aStride, b + column / tileColumns * panelStride, panelStride,
        termStride, terms, c + column, rowStride, isAdded);
  }
  if (whole < columns)
    multiplyAtEdge(a, aStride, b + whole / tileColumns * panelStride,
                   termStride, terms, c + whole, rowStride, rows,
                   columns - whole, isAdded);
}

const ProductTiles pp::runtime::productTilesAvx2 = {
    tileRows, multiplyBlock, multiplyFar, /*fewestFarRows=*/1};
