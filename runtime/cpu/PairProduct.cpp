//===- PairProduct.cpp ----------------------------------------------------===//
#include "cpu/PairProduct.h"
#include "cpu/PairLanes.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

using namespace pp::runtime;

/// Rows of c in registers at a time, with two panels; multiples of 8 are not
/// divided into 12 and 4.
static constexpr int64_t mostRows = 12, fewerRows = 8;
/// Numbers of b: a page, in which the next factors are, or others that follow.
static constexpr int64_t ahead = 4096 / sizeof(uint16_t);

template <int rows, int panels, bool isAdded>
PP_DOT_INLINE void multiplyTile(const PairFactors &of, const uint16_t *a,
                                const uint16_t *b, float *c, int64_t cRow) {
  __m512 sums[rows][panels];
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int panel = 0; panel < panels; ++panel)
      sums[row][panel] = _mm512_setzero_ps();
  // An address is a pointer and up to twice a distance.
  constexpr int pointers = (rows + 2) / 3;
  const uint16_t *from[pointers];
#pragma unroll
  for (int i = 0; i < pointers; ++i)
    from[i] = a + of.aRow * 3 * i;
  for (int64_t pair = 0; pair < of.pairs; ++pair) {
    __m512bh columns[panels];
#pragma unroll
    for (int panel = 0; panel < panels; ++panel)
      columns[panel] =
          reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + panel * of.bPanel));
    // The processor expects nothing beyond a page.
#pragma unroll
    for (int panel = 0; panel < panels; ++panel)
      __builtin_prefetch(b + panel * of.bPanel + ahead);
    b += 2 * pairColumns;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      int32_t numbers;
      std::memcpy(&numbers, from[row / 3] + row % 3 * of.aRow, sizeof(numbers));
      auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(numbers));
#pragma unroll
      for (int panel = 0; panel < panels; ++panel)
        sums[row][panel] =
            _mm512_dpbf16_ps(sums[row][panel], both, columns[panel]);
    }
#pragma unroll
    for (int i = 0; i < pointers; ++i)
      from[i] += of.aPair;
  }
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int panel = 0; panel < panels; ++panel) {
      float *to = c + row * cRow + panel * pairColumns;
      __m512 sum = sums[row][panel];
      if (isAdded)
        sum = _mm512_add_ps(_mm512_loadu_ps(to), sum);
      _mm512_storeu_ps(to, sum);
    }
}

template <int rows, int panels, bool isAdded>
PP_DOT static void multiplyTiles(const PairFactors &of, const uint16_t *a,
                                 const uint16_t *b, float *c, int64_t cRow,
                                 const PairProducts &products) {
  for (int64_t i = 0; i < products.count; ++i) {
    multiplyTile<rows, panels, isAdded>(of, a, b, c, cRow);
    a += products.a;
    b += products.b;
    c += products.c;
  }
}

namespace {
using MultiplyTiles = void (*)(const PairFactors &of, const uint16_t *a,
                               const uint16_t *b, float *c, int64_t cRow,
                               const PairProducts &products);
} // namespace

/// By the number of rows, less 1.
template <int panels, bool isAdded, int... rows>
static constexpr std::array<MultiplyTiles, sizeof...(rows)>
tilesOf(std::integer_sequence<int, rows...> /*sequence*/) {
  return {multiplyTiles<rows + 1, panels, isAdded>...};
}
template <int panels, bool isAdded>
static constexpr auto tiles =
    tilesOf<panels, isAdded>(std::make_integer_sequence<int, int(mostRows)>());

bool pp::runtime::hasPairProducts() {
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has;
}

void pp::runtime::multiplyPairs(const PairFactors &factors, int64_t rows,
                                int64_t columns, float *c, int64_t cRow,
                                bool isAdded, const PairProducts &products) {
  const int64_t panels = columns / pairColumns;
  const int64_t atOnce =
      rows % mostRows != 0 && rows % fewerRows == 0 ? fewerRows : mostRows;
  for (int64_t panel = 0; panel < panels; panel += 2) {
    const bool isWhole = panels - panel >= 2;
    const auto &multiply = isWhole
                               ? (isAdded ? tiles<2, true> : tiles<2, false>)
                               : (isAdded ? tiles<1, true> : tiles<1, false>);
    for (int64_t row = 0; row < rows; row += atOnce)
      multiply[std::min(atOnce, rows - row) - 1](
          factors, factors.a + row * factors.aRow,
          factors.b + panel * factors.bPanel,
          c + row * cRow + panel * pairColumns, cRow, products);
  }
}
