//===- MatrixTileProduct.h - Matrix products of bf16 in AMX's tiles -------===//
//
// oneDNN 2.6 reaches a third of what the tiles can do, and a twentieth in some
// gradients of convolutions. The loops:
//
//   for up to 1024 rows of c                 all their terms of a packed (L2)
//    for up to 512 columns of c
//     for up to 1024 terms                   b packed in panels (L2)
//      for panels of a (L1), of b: 2 x 2 tiles of c
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_MATRIXTILEPRODUCT_H
#define PP_RUNTIME_CPU_MATRIXTILEPRODUCT_H

#include "cpu/MatrixTiles.h"

#include <cstdint>
#include <functional>

namespace pp::runtime {

/// c = a b, or c += a b, for matrices m x k, k x n and m x n; a and b are bf16,
/// c is bf16 or f32. Strides are in elements.
///
/// A number of c is the sum over blocks of at most 1024 terms, which depend on
/// k alone, each added by MatrixTiles::multiply to that of those before it.
class MatrixTileProduct {
public:
  struct Strides {
    int64_t row, column;
  };

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

  /// Lets `run` read a b that packColumns() wrote.
  void setPacked() { isPacked = true; }

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  void run(const uint16_t *a, const uint16_t *b, void *c,
           void *scratchpad) const;
  /// The same for a b that is nowhere in memory.
  void run(const uint16_t *a, const PackPanels &packB, void *c,
           void *scratchpad) const;
  /// And for an a of that kind. The rows of c, which is bf16, begin at these
  /// offsets.
  void run(const PackPanels &packA, const PackPanels &packB, uint16_t *c,
           const int64_t *rows, void *scratchpad) const;

  /// The bytes of a packed b: panels of 16 columns, one after the other, each
  /// the tiles of its terms.
  static uint64_t getPackedBytes(int64_t k, int64_t n);
  static void packColumns(const uint16_t *b, Strides strides, int64_t k,
                          int64_t n, void *to);

  /// The same with panels that are `panelBytes` apart.
  static void packColumns(const uint16_t *b, Strides strides, int64_t k,
                          int64_t n, char *to, int64_t panelBytes);
  /// Writes the tile of b of 16 columns whose 32 rows begin at `from` plus
  /// these offsets; a row of negative offset is 0.
  static void packTile(const uint16_t *from, const int64_t *offsets, char *to);
  /// The same for a tile of a of 32 terms, which has 16 rows.
  static void packRowTile(const uint16_t *from, const int64_t *offsets,
                          char *to);

private:
  /// What is multiplied: b packed, or how to pack it; where rows of c begin, if
  /// they are not `c.row` apart.
  struct Operands {
    const PackPanels *packA;
    const char *packedB;
    const PackPanels *packB;
    void *c;
    const int64_t *rows;
  };
  void run(const Operands &operands, void *scratchpad) const;
  PackPanels packerOfA(const uint16_t *a) const;
  int64_t rowsAtOnce() const;
  int64_t termsAtOnce() const;
  int64_t columnsAtOnce() const;
  bool isDirect() const { return !isShort && c.column == 1; }
  /// Whether sums have to be kept from one block of terms to the next.
  bool keepsSums() const { return !isDirect() && k > termsAtOnce(); }
  uint64_t measureA() const;
  uint64_t measureB() const;

  int64_t m, k, n;
  Strides a, b, c;
  bool isShort, isAdded, isPacked = false;
  const MatrixTiles &tiles;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXTILEPRODUCT_H
