//===- TiledProduct.h - Matrix products in tiles of registers -------------===//
//
// For processors on which oneDNN 2.6 is slower, or has no products of bf16, no
// layout of its own for weights, and sums whose order depends on how many rows
// and columns a call has, so that threads that share a product would change its
// bits: see isPreferred.
//
// The loops are those of Goto and van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication" (TOMS 34, 2008), with tiles of registers
// (ProductTiles.h), 6 x 16 or 12 x 32 numbers:
//
//   for 1024 rows of c
//    for 512 columns of c, or all where tiles are written into c itself
//     for 768 columns of a (rows of b)        a packed in panels of rows (L3)
//      for 96 of the columns of c, or more    b packed in panels of 16 columns
//       for 48 rows of a (L2), or 24
//        for panels of b, of a: a tile of c
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_TILEDPRODUCT_H
#define PP_RUNTIME_CPU_TILEDPRODUCT_H

#include "cpu/FewRowsProduct.h"
#include "cpu/FewTermsProduct.h"
#include "cpu/MatrixTileProduct.h"
#include "cpu/MatrixTileSums.h"
#include "cpu/ProductTiles.h"
#include "plan/DataType.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pp::runtime {

/// c = a b, or c += a b, for matrices m x k, k x n and m x n, and for batches
/// of them. Factors of bf16 are multiplied in AMX's tiles where there are any
/// (MatrixTileProduct.h). Else a number of c is the sum over blocks of 768
/// terms, added one after the other, of chains of fused multiply-adds in f32
/// that begin at 0: its bits depend on nothing but its row of a and its column
/// of b.
class TiledProduct {
public:
  struct Matrix {
    /// F32, BF16 or F16.
    DataType type = DataType::F32;
    /// In elements.
    int64_t rowStride = 0, columnStride = 0;
    /// One for each axis of the batch; 0 where a factor is broadcast.
    std::vector<int64_t> batchStrides;
  };

  /// Whether this processor has the instructions.
  static bool isPossible();
  /// Whether this processor should multiply factors of this type so: all
  /// without AVX-512; with it, f32 of Intel's (measured: Emerald Rapids, 1.1 to
  /// 2.5 times as fast as oneDNN), bf16 but for AMD's instructions, for which
  /// oneDNN has products, and f16, which oneDNN widens first.
  static bool isPreferred(DataType factors);

  /// `batch` are the dimensions of the batch. With `isAdded`, c is f32.
  TiledProduct(std::vector<int64_t> batch, int64_t m, int64_t k, int64_t n,
               Matrix a, Matrix b, Matrix c, bool isAdded);

  /// Multiplies factors of f32 in AMX's tiles, as sums of three of bf16; c is
  /// f32 too.
  void setSplit() { isSplit = true; }
  /// Lets `run` read a b that packColumns() wrote; only for a single b.
  void setPacked() { isPacked = true; }
  /// Says that this is a part of a product that has some of its rows, so that
  /// other parts have the same b, or some of its columns.
  enum class PartOf { None, Rows, Columns };
  void setPart(PartOf axis) { partOf = axis; }

  /// Other tiles than those of this processor, which it must have.
  void setTiles(const ProductTiles &other) {
    tiles = &other;
    matrixTiles = nullptr;
  }
  void setMatrixTiles(const MatrixTiles &other) { matrixTiles = &other; }

  /// The sums of up to `most` such products in c, if there is a way to add them
  /// all in one pass over it. `run` of it has the bits of one product after the
  /// other.
  std::optional<MatrixSums> together(int64_t most) const;

  /// What `run` needs; a multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// With `isContinued`, the scratchpad is as a product with the same shared
  /// factor left it.
  void run(const void *a, const void *b, void *c, void *scratchpad,
           bool isContinued = false) const;

  /// The bytes of a packed b, and the type of its numbers.
  uint64_t getPackedBytes() const;
  DataType getPackedType() const;
  /// Whether it has such a layout: matrix tiles want multiples of 16 columns.
  bool isPackable() const { return n % panelColumns == 0 || !inMatrixTiles(); }
  /// Brings a single b into panels, one after the other, of rows of 16 columns
  /// of the same type, the last ones zeros, or of matrix tiles.
  void packColumns(const void *from, void *to) const;
  /// Brings as many rows of a as tiles of registers have, `rowStride` apart,
  /// into a panel of them, term by term.
  static void packTileRows(int64_t tileRows, const float *from,
                           int64_t rowStride, int64_t terms, float *to);

  /// A matrix of f32; strides in elements.
  struct Numbers {
    const float *data;
    int64_t rowStride, columnStride;
  };
  /// Writes it with columns `toColumn` apart and rows `toRow` apart; fastest
  /// where its rows are in one piece and those columns are.
  static void transpose(Numbers from, int64_t rows, int64_t columns, float *to,
                        int64_t toColumn, int64_t toRow = 1);

private:
  /// Terms of a block of c.
  struct Block {
    int64_t row = 0, rows = 0, column = 0, columns = 0, term = 0, terms = 0;
  };

  /// One product of the batch in matrix tiles, if it is of bf16 and there are
  /// such tiles.
  std::optional<MatrixTileProduct> inMatrixTiles() const;
  /// One product of the batch of few rows or columns, if it is of f32.
  std::optional<FewRowsProduct> ofFewRows() const;
  /// One of few terms, in the same way.
  std::optional<FewTermsProduct> ofFewTerms() const;
  /// Whether all three are of f32, and neither factor is packed.
  bool isReadAsItLies() const;
  bool isTiny() const;
  void multiplyTiny(const float *a, const float *b, float *c) const;
  void runOne(const char *a, const char *b, char *c, char *scratchpad,
              bool isContinued) const;

  /// Columns of b in panels, as ProductTiles.h says.
  struct Panels {
    const float *data;
    int64_t panelStride, termStride, width;
  };
  /// Those of a block from column `first` of it on, as many as are multiplied
  /// at a time: where they lie, or packed.
  Panels readColumns(const char *b, const Block &block, int64_t first,
                     float *packed) const;
  /// Packs rows of a, from row `first` of a block on.
  void packRows(const char *a, const Block &block, int64_t first, int64_t count,
                float *to) const;
  /// Multiplies them into `to`, whose rows are `pitch` apart.
  void multiply(const char *a, const char *b, const Block &block,
                float *packedA, float *packedB, float *to, int64_t pitch) const;
  /// The same where areRowsFew().
  void multiplyFewRows(const char *a, const Block &block, const Panels &panels,
                       float *copied, float *to, int64_t pitch) const;
  int64_t columnsAtOnce() const;
  /// Rows of a that lie in L2, and columns of b, whose product is a block of c.
  /// Of few terms, reading and writing c takes as long as multiplying, if the
  /// processor does not read ahead: it does where rows are long and few at a
  /// time. With 49 terms that is a quarter less time, with 128 an eighth, and
  /// nothing with 256 (measured on Cascade Lake, 512 x 4,608 and 768 x 3,072).
  struct Group {
    int64_t rows, columns;
  };
  Group group() const;
  /// Whether a packed b takes longer to read than to multiply: rows of a are
  /// not packed then, but lie so that no two share a place of the cache.
  bool areRowsFew() const;
  /// Whether to pack rows of a takes longer than to read them where they lie
  /// for each panel of b.
  bool areColumnsFew() const;
  /// Whether tiles read b itself, not panels of it.
  bool isReadInPlace() const;
  /// Whether tiles are written into c itself.
  bool isDirect() const {
    return c.type == DataType::F32 && c.columnStride == 1;
  }

  std::vector<int64_t> batch;
  int64_t m, k, n;
  Matrix a, b, c;
  bool isAdded, isSplit = false, isPacked = false;
  PartOf partOf = PartOf::None;
  const ProductTiles *tiles = &productTiles();
  /// Null where there are none.
  const MatrixTiles *matrixTiles;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_TILEDPRODUCT_H
