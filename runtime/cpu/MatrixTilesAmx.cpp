//===- MatrixTilesAmx.cpp -------------------------------------------------===//
#include "cpu/MatrixTiles.h"

#include <immintrin.h>

#include <array>
#include <utility>

using namespace pp::runtime;

#define PP_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace {
/// The operand of LDTILECFG (Intel's Software Developer's Manual, volume 1,
/// section 18.3).
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};
};
} // namespace

static TileConfiguration makeConfiguration() {
  TileConfiguration result;
  for (int tile = 0; tile < 8; ++tile) {
    result.rowBytes[tile] = 64;
    result.rows[tile] = 16;
  }
  return result;
}

PP_AMX static void begin() {
  static const TileConfiguration configuration = makeConfiguration();
  _tile_loadconfig(&configuration);
}

PP_AMX static void end() { _tile_release(); }

// Tiles are named by constants: 0 to 3 are of c, 4 and 5 of a, 6 and 7 of b.

/// Products of three parts, the smallest first. Each step shares a factor with
/// the one before it: two threads of a core that load tiles wait for each other
/// (measured: 5 % faster, 10 where another program has the other thread).
static constexpr std::array<std::pair<int, int>, 6> partOrder = {
    {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};

/// Eight instructions that do nothing, after each one of tiles in a loop. Where
/// the other thread of the core uses tiles too, they share their unit better:
/// this thread does half as much again (measured on Emerald Rapids, GFLOP/s in
/// bf16: 653 for 440, and of numbers in three parts 150 for 98; four bring 586
/// and 132, sixteen 645 and 148). Where it does not, a product takes sixteen
/// cycles and these two, and it runs as fast as before.
__attribute__((always_inline)) static inline void giveWay() {
  asm volatile("nop; nop; nop; nop; nop; nop; nop; nop");
}

// What a loop does with tiles.
template <int tile>
PP_AMX __attribute__((always_inline)) static inline void
loadTile(const char *from) {
  _tile_loadd(tile, from, 64);
  giveWay();
}
template <int c, int a, int b>
PP_AMX __attribute__((always_inline)) static inline void addProduct() {
  _tile_dpbf16ps(c, a, b);
  giveWay();
}

/// c += a b for 32 terms of as many parts as there are tiles one after the
/// other.
template <int parts, int rowTiles, int columnTiles>
PP_AMX __attribute__((always_inline)) static inline void
multiplyTerms(const char *a, int64_t aPanel, const char *b, int64_t bPanel) {
  constexpr int steps = parts == 3 ? 6 : 1;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const auto [i, j] = parts == 3 ? partOrder[step] : std::pair(0, 0);
    const bool isA = step == 0 || partOrder[step - 1].first != i;
    const bool isB = step == 0 || partOrder[step - 1].second != j;
    const char *own = a + i * matrixTileBytes, *other = b + j * matrixTileBytes;
    if (isA)
      loadTile<4>(own);
    if (isB)
      loadTile<6>(other);
    addProduct<0, 4, 6>();
    if constexpr (rowTiles == 2) {
      if (isA)
        loadTile<5>(own + aPanel);
      addProduct<2, 5, 6>();
    }
    if constexpr (columnTiles == 2) {
      if (isB)
        loadTile<7>(other + bPanel);
      addProduct<1, 4, 7>();
      if constexpr (rowTiles == 2)
        addProduct<3, 5, 7>();
    }
  }
}

template <int parts, int rowTiles, int columnTiles>
PP_AMX static void multiplyTiles(const char *a, int64_t aPanel, const char *b,
                                 int64_t bPanel, int64_t terms, float *c,
                                 bool isAdded) {
  constexpr int64_t rowBytes = matrixBlockLanes * sizeof(float);
  float *below = c + matrixTileLanes * matrixBlockLanes;
  if (isAdded) {
    _tile_loadd(0, c, rowBytes);
    if constexpr (columnTiles == 2)
      _tile_loadd(1, c + matrixTileLanes, rowBytes);
    if constexpr (rowTiles == 2)
      _tile_loadd(2, below, rowBytes);
    if constexpr (rowTiles == 2 && columnTiles == 2)
      _tile_loadd(3, below + matrixTileLanes, rowBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t term = 0; term < terms; term += matrixTileTerms) {
    multiplyTerms<parts, rowTiles, columnTiles>(a, aPanel, b, bPanel);
    a += parts * matrixTileBytes;
    b += parts * matrixTileBytes;
  }
  _tile_stored(0, c, rowBytes);
  if constexpr (columnTiles == 2)
    _tile_stored(1, c + matrixTileLanes, rowBytes);
  if constexpr (rowTiles == 2)
    _tile_stored(2, below, rowBytes);
  if constexpr (rowTiles == 2 && columnTiles == 2)
    _tile_stored(3, below + matrixTileLanes, rowBytes);
}

template <int parts>
static void multiplyParts(int64_t rowTiles, int64_t columnTiles, const char *a,
                          int64_t aPanel, const char *b, int64_t bPanel,
                          int64_t terms, float *c, bool isAdded) {
  auto *some = rowTiles == 2 ? columnTiles == 2 ? multiplyTiles<parts, 2, 2>
                                                : multiplyTiles<parts, 2, 1>
               : columnTiles == 2 ? multiplyTiles<parts, 1, 2>
                                  : multiplyTiles<parts, 1, 1>;
  some(a, aPanel, b, bPanel, terms, c, isAdded);
}

static void multiply(int64_t parts, int64_t rowTiles, int64_t columnTiles,
                     const char *a, int64_t aPanel, const char *b,
                     int64_t bPanel, int64_t terms, float *c, bool isAdded) {
  auto *some = parts == 3 ? multiplyParts<3> : multiplyParts<1>;
  some(rowTiles, columnTiles, a, aPanel, b, bPanel, terms, c, isAdded);
}

const MatrixTiles pp::runtime::matrixTilesAmx = {begin, end, multiply};
