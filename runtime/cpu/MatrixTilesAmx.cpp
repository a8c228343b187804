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
      _tile_loadd(4, own, 64);
    if (isB)
      _tile_loadd(6, other, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (rowTiles == 2) {
      if (isA)
        _tile_loadd(5, own + aPanel, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (columnTiles == 2) {
      if (isB)
        _tile_loadd(7, other + bPanel, 64);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (rowTiles == 2)
        _tile_dpbf16ps(3, 5, 7);
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
