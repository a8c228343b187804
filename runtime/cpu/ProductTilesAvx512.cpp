//===- ProductTilesAvx512.cpp ---------------------------------------------===//
#include "cpu/ProductTiles.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f")))

static constexpr int64_t tileRows = 12;
/// Numbers of b: a page, beyond which the processor expects nothing.
static constexpr int64_t page = 4096 / sizeof(float);

namespace {
/// What a tile asks for with each term: a line of each panel, from here on, so
/// many numbers further each time.
struct Ahead {
  const float *from = nullptr;
  int64_t step = 0;
};

/// Columns of c that `last` leaves out, in the last panel, are not touched.
using MultiplyTile = void(const float *a, int64_t aStride, const float *b,
                          int64_t panelStride, int64_t termStride,
                          int64_t terms, float *c, int64_t rowStride,
                          __mmask16 last, Ahead ahead);
} // namespace

template <int rows, int panels, bool isAdded, bool isPacked, bool isFar>
PP_AVX512 static void
multiplyTile(const float *a, int64_t aStride, const float *b,
             int64_t panelStride, int64_t termStride, int64_t terms, float *c,
             int64_t rowStride, __mmask16 last, Ahead ahead) {
  __m512 sums[rows][panels];
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int panel = 0; panel < panels; ++panel) {
      sums[row][panel] = _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char *>(c + row * rowStride +
                                                  panel * panelColumns),
                   _MM_HINT_T0);
    }
  // An address is a pointer and up to twice a distance.
  constexpr int pointers = (rows + 2) / 3;
  const float *from[pointers];
#pragma unroll
  for (int i = 0; i < pointers; ++i)
    from[i] = a + aStride * 3 * i;
#pragma unroll 2
  for (int64_t term = 0; term < terms; ++term) {
    __m512 columns[panels];
#pragma unroll
    for (int panel = 0; panel < panels; ++panel)
      columns[panel] = _mm512_loadu_ps(b + panel * panelStride);
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      __m512 factor =
          _mm512_set1_ps(isPacked ? a[row] : from[row / 3][row % 3 * aStride]);
#pragma unroll
      for (int panel = 0; panel < panels; ++panel)
        sums[row][panel] =
            _mm512_fmadd_ps(factor, columns[panel], sums[row][panel]);
    }
    a += tileRows;
#pragma unroll
    for (int i = 0; i < pointers; ++i)
      ++from[i];
    if (isFar)
#pragma unroll
      for (int panel = 0; panel < panels; ++panel)
        _mm_prefetch(
            reinterpret_cast<const char *>(ahead.from + panel * panelStride),
            _MM_HINT_T1);
    ahead.from += ahead.step;
    b += termStride;
  }
#pragma unroll
  for (int row = 0; row < rows; ++row, c += rowStride)
#pragma unroll
    for (int panel = 0; panel < panels; ++panel) {
      float *to = c + panel * panelColumns;
      __mmask16 mask = panel + 1 == panels ? last : __mmask16(0xffff);
      __m512 sum = sums[row][panel];
      if (isAdded)
        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum);
      _mm512_mask_storeu_ps(to, mask, sum);
    }
}

/// By rows - 1, for one panel and for two.
template <bool isAdded, bool isPacked, bool isFar, int... rows>
static constexpr std::array<std::array<MultiplyTile *, 2>, tileRows>
tilesOf(std::integer_sequence<int, rows...>) {
  return {{{{multiplyTile<rows + 1, 1, isAdded, isPacked, isFar>,
             multiplyTile<rows + 1, 2, isAdded, isPacked, isFar>}}...}};
}

template <bool isPacked, bool isFar = false>
static MultiplyTile *tileOf(int64_t height, bool areTwo, bool isAdded) {
  constexpr auto all = std::make_integer_sequence<int, tileRows>();
  static constexpr auto written = tilesOf<false, isPacked, isFar>(all);
  static constexpr auto added = tilesOf<true, isPacked, isFar>(all);
  return (isAdded ? added : written)[height - 1][areTwo];
}

template <bool isFar>
static void multiplyBlock(const float *a, int64_t aStride, const float *b,
                          int64_t panelStride, int64_t termStride, int64_t rows,
                          int64_t columns, int64_t terms, float *c,
                          int64_t rowStride, bool isAdded) {
  const bool isPacked = aStride == 0;
  for (int64_t column = 0; column < columns; column += 2 * panelColumns) {
    const float *panel = b + column / panelColumns * panelStride;
    int64_t width = std::min(2 * panelColumns, columns - column);
    bool areTwo = width > panelColumns;
    int64_t inLast = areTwo ? width - panelColumns : width;
    auto last = static_cast<__mmask16>((1u << inLast) - 1);
    // As high as one another where no panels say otherwise: a tile of few
    // rows waits for its sums.
    const int64_t tiles = (rows + tileRows - 1) / tileRows;
    auto beginOf = [&](int64_t tile) {
      return isPacked ? std::min(tile * tileRows, rows) : rows * tile / tiles;
    };
    // The next rows find the panels in a cache: they share those that follow.
    const float *next = column + 2 * panelColumns < columns
                            ? panel + 2 * panelStride
                            : b + terms * termStride;
    auto aheadOf = [&](int64_t tile) -> Ahead {
      if (tile == 0)
        return {panel + page, termStride};
      const int64_t sharers = tiles - 1;
      return {next + terms * (tile - 1) / sharers * termStride,
              (termStride + sharers - 1) / sharers};
    };
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = beginOf(tile), height = beginOf(tile + 1) - row;
      auto *multiply = isPacked ? tileOf<true>(height, areTwo, isAdded)
                                : tileOf<false, isFar>(height, areTwo, isAdded);
      multiply(a + row * (isPacked ? terms : aStride), aStride, panel,
               panelStride, termStride, terms, c + row * rowStride + column,
               rowStride, last, isFar ? aheadOf(tile) : Ahead());
    }
  }
}

const ProductTiles pp::runtime::productTilesAvx512 = {
    tileRows, multiplyBlock<false>, multiplyBlock<true>, /*fewestFarRows=*/6};
