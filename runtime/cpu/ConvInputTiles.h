//===- ConvInputTiles.h - Gradients of images in AMX's tiles --------------===//
//
// With strides, oneDNN's code for the gradient of a convolution's input reaches
// a fifth of what AMX can do. Pixels of the input whose coordinates leave the
// same rest see the same places of the window, and each such class is a product
// of matrices:
//
//               seen places x outputs            channels
//               ┌───────────────────┐       ┌──────────────┐
//  pixels of    │ dY where there is │  seen │ weights,     │     dX of the
//  the class    │ a pixel, else 0   │ places│ transposed   │ ->  class
//               └───────────────────┘ x outp└──────────────┘
//
// The matrix on the left is not written, but for the tiles at hand. Weights are
// brought into the tiles of the one on the right once, class after class; the
// library takes as long for that as for the products where pixels are few.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVINPUTTILES_H
#define PP_RUNTIME_CPU_CONVINPUTTILES_H

#include "cpu/ConvGradientProduct.h"
#include "cpu/MatrixTileProduct.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

class ConvInputTiles {
public:
  using Shape = ConvGradientProduct::Shape;

  /// Whether x and dY are bf16 with channels last, outputs a multiple of 32.
  static bool isPossible(const Shape &shape);
  /// Whether this is possible on this processor, and faster than the library:
  /// with strides, windows of a single place, or few pixels for many weights.
  static bool isPreferred(const Shape &shape);

  ConvInputTiles(const Shape &shape, const MatrixTiles &tiles);

  /// A multiple of 64.
  uint64_t getWeightBytes() const;
  /// Brings weights, outputs x channels x window and dense, into tiles.
  void packWeights(const uint16_t *weights, void *packed) const;

  /// Multiples of 64.
  uint64_t getScratchpadBytes() const;
  uint64_t getPackedScratchpadBytes() const;
  /// Writes dX, from weights as they are, or as packWeights() leaves them.
  void run(const uint16_t *dy, const uint16_t *weights, uint16_t *dx,
           void *scratchpad) const;
  void runPacked(const uint16_t *dy, const void *packed, uint16_t *dx,
                 void *scratchpad) const;

private:
  /// Pixels of the image that see the same places of the window.
  struct Class {
    ImageAxes first, count; ///< of the coordinates of its pixels
    struct Place {
      int64_t index; ///< in the window
      /// The pixel of the result that the first pixel of the class sees there.
      ImageAxes begin;
    };
    std::vector<Place> places;
  };

  /// A pixel of a class.
  struct Pixel {
    ImageAxes index; ///< in the class
    int64_t dy;      ///< where dY's pixel of that index is
  };

  std::vector<Class> findClasses() const;
  int64_t windowSize() const { return countOf(shape.window); }
  uint64_t weightBytes(const Class &some) const; ///< packed
  void packWeights(const Class &some, const uint16_t *weights, char *to) const;
  int64_t countPixels() const; ///< of the largest class
  uint64_t pixelBytes() const;
  uint64_t rowBytes() const;
  MatrixTileProduct makeProduct(const Class &some) const;
  void runClass(const Class &some, const uint16_t *dy, const void *packed,
                uint16_t *dx, char *scratchpad) const;

  Shape shape;
  const MatrixTiles &tiles;
  std::vector<Class> classes;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVINPUTTILES_H
