//===- ConvGradientProduct.h - Gradients of weights from few pixels -------===//
//
// oneDNN's code for the gradient of a convolution's weights adds over long rows
// of pixels, in a layout of its own. Where a micro-batch has few pixels and
// many channels, as in the last stages of a ResNet, it reaches half of the
// peak, and what it has written is copied. One product of matrices writes the
// gradient where it belongs:
//
//                          channels x window            channels x window
//          pixels         ┌─────────────────┐          ┌─────────────────┐
//         ┌──────┐        │ what a window   │          │ gradient of the │
// outputs │  dY  │ pixels │ sees of x       │  outputs │ weights         │
//         └──────┘        └─────────────────┘          └─────────────────┘
//
// (Chellapilla, Puri and Simard, "High Performance Convolutional Neural
// Networks for Document Processing", 2006). The matrix in the middle is written
// into panels that the product reads as they are.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVGRADIENTPRODUCT_H
#define PP_RUNTIME_CPU_CONVGRADIENTPRODUCT_H

#include "cpu/ImagePlaces.h"
#include "cpu/MatrixTileProduct.h"
#include "cpu/TiledProduct.h"

#include <cstdint>

namespace pp::runtime {

class ConvGradientProduct {
public:
  using Axes = ImageAxes;
  struct Shape : WindowSizes {
    int64_t outputs;
    bool isShort = false; // x and dY are bf16, else f32
    bool isAdded = false; // the gradient, to what is there

    /// Whether all pixels of dY, of all samples, are equally far from each
    /// other.
    bool isUniform() const;
    int64_t pixels() const { return samples * countOf(result); }
    int64_t columns() const { return channels * countOf(window); }
  };

  /// Whether this is faster than the library (measured on Zen 4 and Emerald
  /// Rapids).
  static bool isPreferred(const Shape &shape);

  explicit ConvGradientProduct(const Shape &shape);
  /// With factors of bf16 as pairs, not widened to f32.
  void setPairs(const MatrixTiles &tiles) { pairs = &tiles; }

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x window, dense.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  /// Whether dY is a matrix of f32 as it lies.
  bool isReadInPlace() const {
    return !shape.isShort && shape.dy.blockChannels == 1 && shape.isUniform();
  }
  /// `Element`: float, or the bits of a bf16.
  template <int64_t together, typename Element, typename Target, typename Place>
  void writeColumns(const Element *x, Target *panels, Place place) const;
  template <typename Element, typename Target, typename Place>
  void writeColumns(const Element *x, Target *panels, Place place) const;
  template <typename Element, typename Target>
  void writeRows(const Element *dy, Target *rows) const;
  void runInPairs(const uint16_t *x, const uint16_t *dy, float *gradient,
                  char *scratchpad) const;
  MatrixTileProduct productOfPairs() const;
  uint64_t columnBytes() const;
  uint64_t rowBytes() const;

  Shape shape;
  TiledProduct product;
  const MatrixTiles *pairs = nullptr;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGRADIENTPRODUCT_H
