//===- ConvGradientTiles.h - Gradients of weights in matrix tiles ---------===//
//
// The gradient of a convolution's weights is a product of matrices
// (ConvGradientProduct.h). With channels last, or in blocks, the matrix of what
// the windows see need not be written: the 16 numbers of a row of a tile are
// channels of one pixel, and lie together.
//
//                      window x channels
//          pixels     ┌──────────────────┐     outputs x channels / 16
//         ┌──────┐    │ packed tile by   │     x window x 16 channels,
// outputs │  dY  │    │ tile from x      │ ->  then brought into the order
//         └──────┘    └──────────────────┘     of the weights
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVGRADIENTTILES_H
#define PP_RUNTIME_CPU_CONVGRADIENTTILES_H

#include "cpu/ConvGradientProduct.h"
#include "cpu/MatrixTileProduct.h"
#include "cpu/MatrixTileSums.h"

#include <cstdint>
#include <optional>
#include <span>

namespace pp::runtime {

class ConvGradientTiles {
public:
  using Shape = ConvGradientProduct::Shape;

  /// Whether x and dY are bf16 with channels last or in blocks, and their
  /// channels multiples of 16.
  static bool isPossible(const Shape &shape);

  /// Whether this is possible on this processor; then it is faster than the
  /// library.
  static bool isPreferred(const Shape &shape);
  /// Whether it then adds as fast as it writes. Without AMX, an addition that
  /// streams through both is faster than a product that adds to its rows.
  static bool addsInPlace(const Shape &shape);

  ConvGradientTiles(const Shape &shape, const MatrixTiles &tiles);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x window, dense.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  friend class ConvGradientSums;
  int64_t windowSize() const { return countOf(shape.window); }
  /// Parts of the factors, as MatrixTileProduct::PackPanels.
  void packRows(const uint16_t *dy, int64_t row, int64_t rows, int64_t term,
                int64_t terms, char *to, int64_t panelBytes) const;
  void packColumns(const uint16_t *x, int64_t column, int64_t columns,
                   int64_t term, int64_t terms, char *to,
                   int64_t panelBytes) const;

  Shape shape;
  MatrixTileProduct product;
};

/// The same for several micro-batches, whose gradients are added to one, each
/// for itself, in one pass over it (MatrixTileSums.h).
class ConvGradientSums {
public:
  using Shape = ConvGradientTiles::Shape;
  using Factors = MatrixSums::Factors; // x and dY

  /// For up to `most`, or fewer; nothing where one at a time is as good.
  static std::optional<ConvGradientSums> find(const Shape &shape, int64_t most,
                                              const MatrixTiles &tiles);

  int64_t atOnce() const { return sums.atOnce(); }
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const { return sums.getScratchpadBytes(); }
  /// With `isFirst`, the first one is written, not added.
  void run(std::span<const Factors> factors, float *gradient, bool isFirst,
           void *scratchpad) const;

private:
  ConvGradientSums(const ConvGradientTiles &one, const MatrixTileSums &sums)
      : one(one), sums(sums) {}

  ConvGradientTiles one;
  MatrixTileSums sums;
};

/// Takes sums as MatrixTileProduct::TakeSums does, and writes them where they
/// belong, or adds them.
void writeGradientSums(const ConvGradientTiles::Shape &shape, int64_t row,
                       int64_t rows, int64_t column, int64_t columns,
                       const float *blocks, bool isAdded, float *gradient);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGRADIENTTILES_H
