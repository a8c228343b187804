//===- ConvGradientTiles.h - Gradients of weights in AMX's tiles ----------===//
//
// The gradient of a convolution's weights is a product of matrices
// (ConvGradientProduct.h). With channels last, the matrix of what the windows
// see need not be written: the 16 numbers of a row of a tile are channels of
// one pixel, and lie together.
//
//                      window x channels
//          pixels     ┌──────────────────┐
//         ┌──────┐    │ packed tile by   │     outputs x window x channels,
// outputs │  dY  │    │ tile from x      │ ->  then brought into the order
//         └──────┘    └──────────────────┘     of the weights
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVGRADIENTTILES_H
#define PP_RUNTIME_CPU_CONVGRADIENTTILES_H

#include "cpu/ConvGradientProduct.h"
#include "cpu/MatrixTileProduct.h"

#include <cstdint>

namespace pp::runtime {

class ConvGradientTiles {
public:
  using Shape = ConvGradientProduct::Shape;

  /// Whether x and dY are bf16 with channels last, channels a multiple of 16.
  static bool isPossible(const Shape &shape);

  /// Whether this is possible on this processor; then it is faster than the
  /// library.
  static bool isPreferred(const Shape &shape);

  ConvGradientTiles(const Shape &shape, const MatrixTiles &tiles);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x window, dense.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  int64_t windowSize() const { return countOf(shape.window); }
  uint64_t sumBytes() const;
  /// Where what a place of the window sees of x begins, for the pixels
  /// [first, last) of the result; negative where that is padding.
  void findPixels(int64_t place, int64_t first, int64_t last,
                  int64_t *offsets) const;

  Shape shape;
  MatrixTileProduct product;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGRADIENTTILES_H
