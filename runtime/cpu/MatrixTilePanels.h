//===- MatrixTilePanels.h - Brings matrices into tiles ----------*- C++ -*-===//
//
// A matrix in panels of 16 lanes (rows of a, columns of b), one tile of 32
// terms after the other (MatrixTiles.h). A number of f32 becomes the sum of
// three of bf16, in three tiles one after the other:
//
//   x = bf16(x) + bf16(x - first) + bf16(x - first - second)
//
// which is x itself, unless a part is below 2^-126, which counts as 0
// in the tiles (Henry, Tang and Heinecke, "Leveraging the bfloat16
// Artificial Intelligence Datatype For Higher-Precision Computations", ARITH
// 2019). An x that is not finite, or none, is its first part. Of 32 terms of
// f32 the first and the second half are side by side: a pair is a term and the
// one 16 later. All need AVX-512 with BW and VL.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_MATRIXTILEPANELS_H
#define PP_RUNTIME_CPU_MATRIXTILEPANELS_H

#include "cpu/MatrixTiles.h"

#include <cstdint>

namespace pp::runtime {

/// Strides of a matrix, in elements.
struct MatrixStrides {
  int64_t row, column;
};

/// The bytes of a panel whose numbers are sums of `parts`.
int64_t matrixPanelBytes(int64_t terms, int64_t parts);

/// Bring rows of a, or columns of b, into panels that are `panelBytes` apart;
/// what tiles hold beyond the matrix is 0. Elements are uint16_t, which are
/// bf16, or float.
template <typename Element>
void packRows(const Element *a, MatrixStrides strides, int64_t rows,
              int64_t terms, char *to, int64_t panelBytes);
template <typename Element>
void packColumns(const Element *b, MatrixStrides strides, int64_t terms,
                 int64_t columns, char *to, int64_t panelBytes);

/// Writes the tile of a of 32 terms whose 16 rows begin at `from` plus these
/// offsets; a row of negative offset is 0.
void packRowTile(const uint16_t *from, const int64_t *offsets, char *to);
/// The same for a tile of b of 16 columns, which has 32 rows. The next tile is
/// about `ahead` later.
void packColumnTile(const uint16_t *from, const int64_t *offsets, int64_t ahead,
                    char *to);
/// And for a tile of a of 16 rows whose 32 terms, of 16 numbers each, begin
/// there.
void packTermsOfRows(const uint16_t *from, const int64_t *offsets,
                     int64_t ahead, char *to);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXTILEPANELS_H
