//===- MatrixTileSums.h - Several products of bf16 in one matrix ----------===//
//
// The gradient of a weight is the sum of a product for each micro-batch, of few
// terms: with one product after the other, its numbers pass through memory for
// each. Here a block of them stays in the nearest cache until all have been
// added:
//
//   for up to 1024 rows of c       of all products packed a (L2)
//    for up to 512 columns of c    of all products packed b (L2)
//     for blocks of c of 32 x 32 (L1)
//      for products                c += their block, in 2 x 2 tiles
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_MATRIXTILESUMS_H
#define PP_RUNTIME_CPU_MATRIXTILESUMS_H

#include "cpu/MatrixTilePanels.h"

#include <cstdint>
#include <functional>
#include <span>

namespace pp::runtime {

/// The sizes of matrices m x k, k x n and m x n. The first two are bf16, or f32
/// where `isSplit` (MatrixTileProduct::setSplit), the third f32.
struct MatrixProductSizes {
  int64_t m, k, n;
  bool isSplit = false;
};

/// c = ((c + a1 b1) + a2 b2) + ..., with the bits of a MatrixTileProduct that
/// adds for one after the other.
class MatrixTileSums {
public:
  /// How many products it takes at once: 1, which is no use, where they have so
  /// many terms that the sums are no matter.
  static int64_t atOnce(const MatrixProductSizes &sizes, int64_t most);

  /// For up to `most` products.
  MatrixTileSums(const MatrixProductSizes &sizes, int64_t most,
                 const MatrixTiles &tiles)
      : sizes(sizes), most(most), tiles(tiles) {}

  int64_t atOnce() const { return most; }
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;

  /// Writes the panels of some rows of a, or columns of b, of a product to
  /// `to`, `panelBytes` apart (MatrixTilePanels.h).
  using PackPanels =
      std::function<void(int64_t product, int64_t lane, int64_t lanes, char *to,
                         int64_t panelBytes)>;
  struct Products {
    int64_t count;
    PackPanels packA, packB;
    /// Whether the first one is written, not added.
    bool isFirst;
  };
  void run(const Products &products, float *c, MatrixStrides strides,
           void *scratchpad) const;

  /// Takes blocks of 32 rows of c as MatrixTileProduct::TakeSums, and writes or
  /// adds them.
  using TakeSums =
      std::function<void(int64_t row, int64_t rows, int64_t column,
                         int64_t columns, const float *blocks, bool isAdded)>;
  /// For a c of that kind; needs setTaken().
  void run(const Products &products, const TakeSums &take,
           void *scratchpad) const;
  /// Prepares for it, before the scratchpad is measured; so many columns belong
  /// together.
  void setTaken(int64_t columnsTogether) { together = columnsTogether; }

private:
  class Run;
  int64_t parts() const { return sizes.isSplit ? 3 : 1; }
  /// Of a panel with one product.
  int64_t panelBytes() const { return matrixPanelBytes(sizes.k, parts()); }
  int64_t columnsAtOnce() const;

  MatrixProductSizes sizes;
  int64_t most;
  int64_t together = 0; // columns that are taken together; 0: they are written
  const MatrixTiles &tiles;
};

/// The same for matrices that lie in memory, with strides in elements.
class MatrixSums {
public:
  MatrixSums(const MatrixProductSizes &sizes, MatrixStrides a, MatrixStrides b,
             MatrixStrides c, int64_t most, const MatrixTiles &tiles)
      : sizes(sizes), a(a), b(b), c(c), sums(sizes, most, tiles) {}

  int64_t atOnce() const { return sums.atOnce(); }
  uint64_t getScratchpadBytes() const { return sums.getScratchpadBytes(); }

  struct Factors {
    const void *a, *b;
  };
  void run(std::span<const Factors> products, float *into, bool isFirst,
           void *scratchpad) const;

private:
  MatrixProductSizes sizes;
  MatrixStrides a, b, c;
  MatrixTileSums sums;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXTILESUMS_H
