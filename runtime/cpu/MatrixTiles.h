//===- MatrixTiles.h - Products of tiles of bf16 ----------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_MATRIXTILES_H
#define PP_RUNTIME_CPU_MATRIXTILES_H

#include <cstdint>

namespace pp::runtime {

/// A tile of a has 16 rows of 32 terms, a tile of b 16 columns of as many. Both
/// are a kilobyte of bf16: a row after row, b pair of terms after pair of
/// terms, each with its 16 columns. Of numbers in three parts, a term and the
/// one 16 later are a pair.
inline constexpr int64_t matrixTileLanes = 16, matrixTileTerms = 32;
inline constexpr int64_t matrixTileBytes = 1024;
/// Rows, and columns, of a block of c: two tiles.
inline constexpr int64_t matrixBlockLanes = 2 * matrixTileLanes;

/// What multiplies tiles: the processor, or a test in place of it.
struct MatrixTiles {
  /// Sets up the tiles of this thread; end() frees them for other code.
  void (*begin)();
  void (*end)();
  /// c = a b, or c += a b where `isAdded`, for one or two tiles of rows and of
  /// columns. The tiles of a panel of a, or of b, are one after the other, for
  /// each 32 of `terms` as many as there are `parts`, one or three; a second
  /// panel begins `aPanel` or `bPanel` bytes later. Of parts i and j, from 0,
  /// those are multiplied for which i + j < parts. c is a block of 32 rows of
  /// 32 numbers, in one piece and at a multiple of 64. A number of c is a sum
  /// in f32 that begins at 0, or at what c has; its bits depend on its row of a
  /// and its column of b alone.
  void (*multiply)(int64_t parts, int64_t rowTiles, int64_t columnTiles,
                   const char *a, int64_t aPanel, const char *b, int64_t bPanel,
                   int64_t terms, float *c, bool isAdded);
};

/// Those of AMX; only where hasMatrixTiles().
extern const MatrixTiles matrixTilesAmx;
/// The same in registers, with the products of pairs of AVX512_BF16.
extern const MatrixTiles matrixTilesDot;

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXTILES_H
