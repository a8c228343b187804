//===- MatrixTileProduct.h - Matrix products of bf16 in tiles -------------===//
//
// oneDNN 2.6 reaches a third of what the tiles can do, and a twentieth in some
// gradients of convolutions. The loops:
//
//   for up to 1024 rows of c                 all their terms of a packed (L2)
//    for up to 512 columns of c
//     for up to 1024 terms                   b packed in panels (L2)
//      for panels of a (L1), of b: 2 x 2 tiles of c, in one piece (L1, L2)
//
// Measured on Emerald Rapids: while panels of b come from L2 all the time, they
// need what the processor has to wait for lines with, so asking for the next
// part of b meanwhile costs more than it brings (5 to 10 %).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_MATRIXTILEPRODUCT_H
#define PP_RUNTIME_CPU_MATRIXTILEPRODUCT_H

#include "cpu/MatrixTilePanels.h"

#include <cstdint>
#include <functional>

namespace pp::runtime {

/// c = a b, or c += a b, for matrices m x k, k x n and m x n; a and b are bf16,
/// c is bf16 or f32. Strides are in elements.
///
/// A number of c is the sum over blocks of at most 1024 terms, which depend on
/// k alone, each added by MatrixTiles::multiply to that of those before it.
/// Only then is it added to what c has, so that the sum over micro-batches has
/// the same bits if another kernel adds.
class MatrixTileProduct {
public:
  using Strides = MatrixStrides;

  MatrixTileProduct(int64_t m, int64_t k, int64_t n, Strides a, Strides b,
                    Strides c, bool isShort, bool isAdded,
                    const MatrixTiles &tiles)
      : m(m), k(k), n(n), a(a), b(b), c(c), isShort(isShort), isAdded(isAdded),
        tiles(tiles) {}

  /// Writes the panels of some rows of a, or columns of b, and terms to `to`,
  /// `panelBytes` apart: tiles as MatrixTiles has them, with zeros where the
  /// matrix ends. `term` is a multiple of 32.
  using PackPanels =
      std::function<void(int64_t lane, int64_t lanes, int64_t term,
                         int64_t terms, char *to, int64_t panelBytes)>;

  /// Makes a, b and c matrices of f32, each number of a and b the sum of three
  /// of bf16. Of the nine products of parts the six largest are added; the
  /// others are below 2^-25 of the number's. So it is as exact as one of f32,
  /// but that an infinite factor may give what is no number.
  void setSplit() { isSplit = true; }
  /// Lets `run` read a b that packColumns() wrote.
  void setPacked() { isPacked = true; }

  /// A factor that stays packed in the scratchpad, all of it.
  enum class Kept { None, A, B };
  /// For products that have it in common. One of them that runs next may find
  /// it there: one with as many terms and rows, if it is a, or columns.
  void setKept(Kept factor) { kept = factor; }

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// With `isKept`, the scratchpad has the factor that is kept.
  void run(const void *a, const void *b, void *c, void *scratchpad,
           bool isKept = false) const;
  /// The same for an a and a b that are nowhere in memory. Unless `rows` is
  /// null, the rows of c begin at these offsets.
  void run(const PackPanels &packA, const PackPanels &packB, void *c,
           const int64_t *rows, void *scratchpad) const;
  /// Changes a row of 32 numbers of c, or what is left of them, from this
  /// column on, before it is written.
  using FinishRow =
      std::function<void(float *numbers, int64_t column, int64_t columns)>;
  /// And for a packed b; `finish` may be null.
  void run(const PackPanels &packA, const void *b, void *c, const int64_t *rows,
           const FinishRow *finish, void *scratchpad) const;

  /// Takes a block of 32 rows of c, or what is left of them, and some columns:
  /// 32 x 32 numbers after 32 x 32 numbers. The first column, and how many
  /// there are but for the last ones, are multiples of those together.
  using TakeSums = std::function<void(int64_t row, int64_t rows, int64_t column,
                                      int64_t columns, const float *blocks)>;
  /// And for a c of that kind; needs setTaken().
  void run(const PackPanels &packA, const PackPanels &packB,
           const TakeSums &take, void *scratchpad) const;
  /// Prepares for it, before the scratchpad is measured; so many columns belong
  /// together.
  void setTaken(int64_t columnsTogether) { together = columnsTogether; }

  /// The bytes of a packed b: panels of 16 columns, one after the other.
  uint64_t getPackedBytes() const;
  void packColumns(const void *b, void *to) const;

private:
  /// What is multiplied. `b` is null if it is nowhere in memory; `rows` is
  /// where rows of c begin, if they are not `c.row` apart.
  struct Operands {
    const PackPanels *packA;
    const void *b;
    const PackPanels *packB;
    void *c;
    const int64_t *rows;
    const TakeSums *take = nullptr;
    const FinishRow *finish = nullptr;
    bool isKept = false;
  };
  class Run;
  void run(const Operands &operands, void *scratchpad) const;
  PackPanels packerOfA(const void *a) const;
  PackPanels packerOfB(const void *b) const;
  /// Numbers of bf16 that stand for one.
  int64_t parts() const { return isSplit ? 3 : 1; }
  int64_t rowsAtOnce() const;
  int64_t termsAtOnce() const;
  int64_t columnsAtOnce() const;
  bool packsTermByTerm() const;
  bool keepsB() const { return kept == Kept::B; }
  /// Whether sums have to be kept, for the next block of terms or for who takes
  /// them, and of how many blocks beside each other.
  bool keepsSums() const { return together != 0 || hasMoreTerms(); }
  bool hasMoreTerms() const { return k > termsAtOnce(); }
  int64_t blocksInARow() const;
  uint64_t measureA() const;
  uint64_t measureB() const;
  uint64_t measureSums() const;

  int64_t m, k, n;
  Strides a, b, c;
  bool isShort, isAdded, isSplit = false, isPacked = false;
  int64_t together = 0; // columns that are taken together; 0: they are written
  Kept kept = Kept::None;
  const MatrixTiles &tiles;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXTILEPRODUCT_H
