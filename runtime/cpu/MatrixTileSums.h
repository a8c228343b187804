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
#include <span>

namespace pp::runtime {

/// The shapes of matrices m x k, k x n and m x n, with strides in elements; the
/// first two are bf16, or f32 where `isSplit`, the third f32.
struct MatrixProductShape {
  int64_t m, k, n;
  MatrixStrides a, b, c;
  /// As MatrixTileProduct::setSplit.
  bool isSplit = false;
};

/// c = ((c + a1 b1) + a2 b2) + ..., with the bits of a MatrixTileProduct that
/// adds for one after the other.
class MatrixTileSums {
public:
  /// How many products it takes at once: 1, which is no use, where they have so
  /// many terms that the sums are no matter.
  static int64_t atOnce(const MatrixProductShape &shape, int64_t most);

  /// For up to `most` products.
  MatrixTileSums(const MatrixProductShape &shape, int64_t most,
                 const MatrixTiles &tiles)
      : shape(shape), most(most), tiles(tiles) {}

  int64_t atOnce() const { return most; }
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;

  struct Factors {
    const void *a, *b;
  };
  /// With `isFirst`, the first product is written, not added.
  void run(std::span<const Factors> products, void *c, bool isFirst,
           void *scratchpad) const;

private:
  int64_t parts() const { return shape.isSplit ? 3 : 1; }
  /// Of a panel with one product.
  int64_t panelBytes() const { return matrixPanelBytes(shape.k, parts()); }

  MatrixProductShape shape;
  int64_t most;
  const MatrixTiles &tiles;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXTILESUMS_H
