//===- MatrixTilesDot.cpp -------------------------------------------------===//
#include "cpu/MatrixTiles.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

using namespace pp::runtime;

#define PP_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

static void begin() {}
static void end() {}

/// Rows of c in registers at a time.
static constexpr int64_t rowsAtOnce = 8;

template <int columnTiles>
PP_DOT static void multiplyRows(int64_t parts, const char *a, const char *b,
                                int64_t bPanel, int64_t terms, float *c,
                                bool isAdded) {
  __m512 sums[rowsAtOnce][columnTiles];
#pragma unroll
  for (int64_t row = 0; row < rowsAtOnce; ++row)
#pragma unroll
    for (int tile = 0; tile < columnTiles; ++tile) {
      float *from = c + row * matrixBlockLanes + tile * matrixTileLanes;
      sums[row][tile] = isAdded ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
    }
  for (int64_t term = 0; term < terms; term += matrixTileTerms,
               a += parts * matrixTileBytes, b += parts * matrixTileBytes) {
    // Of three parts, a term and the one 16 later are a pair.
    const int64_t rest = std::min(matrixTileTerms, terms - term);
    const int64_t pairs =
        parts == 1 ? (rest + 1) / 2 : std::min(rest, matrixTileTerms / 2);
    for (int64_t i = 0; i < parts; ++i)
      for (int64_t j = 0; i + j < parts; ++j) {
        const char *factor = a + i * matrixTileBytes;
        const char *columns = b + j * matrixTileBytes;
        for (int64_t pair = 0; pair < pairs;
             ++pair, factor += 4, columns += 64) {
          __m512bh other[columnTiles];
#pragma unroll
          for (int tile = 0; tile < columnTiles; ++tile)
            other[tile] = reinterpret_cast<__m512bh>(
                _mm512_loadu_si512(columns + tile * bPanel));
#pragma unroll
          for (int64_t row = 0; row < rowsAtOnce; ++row) {
            int32_t numbers;
            std::memcpy(&numbers, factor + row * 64, sizeof(numbers));
            auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(numbers));
#pragma unroll
            for (int tile = 0; tile < columnTiles; ++tile)
              sums[row][tile] =
                  _mm512_dpbf16_ps(sums[row][tile], both, other[tile]);
          }
        }
      }
  }
#pragma unroll
  for (int64_t row = 0; row < rowsAtOnce; ++row)
#pragma unroll
    for (int tile = 0; tile < columnTiles; ++tile)
      _mm512_storeu_ps(c + row * matrixBlockLanes + tile * matrixTileLanes,
                       sums[row][tile]);
}

static void multiply(int64_t parts, int64_t rowTiles, int64_t columnTiles,
                     const char *a, int64_t aPanel, const char *b,
                     int64_t bPanel, int64_t terms, float *c, bool isAdded) {
  auto *rows = columnTiles == 2 ? multiplyRows<2> : multiplyRows<1>;
  for (int64_t row = 0; row < rowTiles * matrixTileLanes; row += rowsAtOnce)
    rows(parts, a + row / matrixTileLanes * aPanel + row % matrixTileLanes * 64,
         b, bPanel, terms, c + row * matrixBlockLanes, isAdded);
}

const MatrixTiles pp::runtime::matrixTilesDot = {begin, end, multiply};
