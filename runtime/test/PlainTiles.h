//===- PlainTiles.h - Matrix tiles for any processor ------------*- C++ -*-===//
#ifndef PP_RUNTIME_TEST_PLAINTILES_H
#define PP_RUNTIME_TEST_PLAINTILES_H

#include "cpu/MatrixTiles.h"
#include "cpu/Processor.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace pp::runtime {

/// Between begin() and end().
inline bool arePlainTilesBegun = false;

inline void beginPlainTiles() { arePlainTilesBegun = true; }
inline void endPlainTiles() { arePlainTilesBegun = false; }

/// As AMX's tiles, but the terms of a number are one chain.
inline void multiplyPlainTiles(int64_t parts, int64_t rowTiles,
                               int64_t columnTiles, const char *a,
                               int64_t aPanel, const char *b, int64_t bPanel,
                               int64_t terms, float *c, bool isAdded) {
  ASSERT_TRUE(arePlainTilesBegun);
  auto read = [](const char *from, int64_t at) {
    return fromBF16(reinterpret_cast<const uint16_t *>(from)[at]);
  };
  for (int64_t row = 0; row < rowTiles * 16; ++row)
    for (int64_t column = 0; column < columnTiles * 16; ++column) {
      float &number = c[row * matrixBlockLanes + column];
      float sum = isAdded ? number : 0;
      // A last tile of three parts has zeros between its terms.
      const int64_t places = parts == 1 ? terms : (terms + 31) / 32 * 32;
      for (int64_t term = 0; term < places; ++term)
        for (int64_t i = 0; i < parts; ++i)
          for (int64_t j = 0; i + j < parts; ++j) {
            int64_t step = term / 32 * parts, inside = term % 32;
            sum = std::fma(
                read(a + row / 16 * aPanel + (step + i) * matrixTileBytes,
                     row % 16 * 32 + inside),
                read(b + column / 16 * bPanel + (step + j) * matrixTileBytes,
                     inside / 2 * 32 + column % 16 * 2 + inside % 2),
                sum);
          }
      number = sum;
    }
}

inline const MatrixTiles plainTiles = {beginPlainTiles, endPlainTiles,
                                       multiplyPlainTiles};

/// What a test multiplies tiles with.
enum class TileKind { Plain, Dot, Amx };

/// Tests with each kind of tiles that this processor has.
class TilesTest : public testing::TestWithParam<TileKind> {
protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl"))
      GTEST_SKIP() << "this processor cannot pack tiles";
    if (GetParam() == TileKind::Amx && !hasMatrixTiles())
      GTEST_SKIP() << "this processor has no AMX";
    if (GetParam() == TileKind::Dot && !__builtin_cpu_supports("avx512bf16"))
      GTEST_SKIP() << "this processor has no products of pairs";
  }
  static const MatrixTiles &tiles() {
    return GetParam() == TileKind::Amx   ? matrixTilesAmx
           : GetParam() == TileKind::Dot ? matrixTilesDot
                                         : plainTiles;
  }
};

inline std::string nameOfTiles(const testing::TestParamInfo<TileKind> &info) {
  return info.param == TileKind::Amx   ? "Amx"
         : info.param == TileKind::Dot ? "Dot"
                                       : "Plain";
}

/// Instantiates tests of a class that is TilesTest.
#define PP_INSTANTIATE_TILES(name)                                             \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      Tiles, name,                                                             \
      testing::Values(TileKind::Plain, TileKind::Dot, TileKind::Amx),          \
      nameOfTiles)

} // namespace pp::runtime

#endif // PP_RUNTIME_TEST_PLAINTILES_H
