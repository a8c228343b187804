//===- ConvTiles.h - Convolutions and gradients of images in AMX's tiles --===//
//
// oneDNN brings weights into tiles as slowly as it multiplies them where pixels
// are few, and its code for the gradient of an image with strides reaches a
// fifth of what AMX can do. Both are products of matrices. Of a gradient,
// pixels of the image whose coordinates leave the same rest see the same places
// of the window, and each such class is a product:
//
//               seen places x outputs            channels
//               ┌───────────────────┐       ┌──────────────┐
//  pixels of    │ dY where there is │  seen │ weights,     │     dX of the
//  the class    │ a pixel, else 0   │ places│ transposed   │ ->  class
//               └───────────────────┘ x outp└──────────────┘
//
// A convolution is one class: all pixels of y, which see all places of x. The
// matrix on the left is not written, but for the tiles at hand. Weights are
// brought into the tiles of the one on the right once, class after class.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVTILES_H
#define PP_RUNTIME_CPU_CONVTILES_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvGradientProduct.h"
#include "cpu/MatrixTileProduct.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

class ConvTiles {
public:
  using Shape = ConvGradientProduct::Shape;

  /// Whether x and y, or dY and dX, are bf16 with channels last, and what is
  /// read has a multiple of 32 of them; of a convolution, what is written a
  /// multiple of 16.
  static bool isPossible(const Shape &shape, ConvDirection direction);
  /// Whether this is possible on this processor, and faster than the library:
  /// with few pixels for many weights, and gradients with strides or windows of
  /// a single place.
  static bool isPreferred(const Shape &shape, ConvDirection direction);

  ConvTiles(const Shape &shape, ConvDirection direction,
            const MatrixTiles &tiles);

  /// A multiple of 64. Of a convolution, outputs after outputs.
  uint64_t getWeightBytes() const;
  /// Brings weights, outputs x channels x window and dense, into tiles.
  void packWeights(const uint16_t *weights, void *packed) const;

  /// A multiple of 64; `isPacked`: without room for weights.
  uint64_t getScratchpadBytes(bool isPacked) const;
  /// Makes y of x, or dX of dY, with weights that packWeights() brought into
  /// tiles. `bias` may be null; a gradient has none, and no epilogue.
  void runPacked(const uint16_t *from, const void *packed, const float *bias,
                 const ConvEpilogue &epilogue, uint16_t *to,
                 void *scratchpad) const;
  /// The same with weights as they are.
  void run(const uint16_t *from, const uint16_t *weights, const float *bias,
           const ConvEpilogue &epilogue, uint16_t *to, void *scratchpad) const;

private:
  /// What is read and written: x and y, or dY and dX.
  struct Images {
    ImageAxes extents;
    ImagePlaces places;
    int64_t channels;
  };
  /// Pixels of what is written that see the same places of the window.
  struct Class {
    ImageAxes first, count; ///< of the coordinates of its pixels
    struct Place {
      int64_t index; ///< in the window
      /// The pixel that the first pixel of the class sees there.
      ImageAxes begin;
    };
    std::vector<Place> places;
  };

  /// A pixel of a class.
  struct Pixel {
    ImageAxes seen; ///< the pixel that it sees at a place that begins at 0
    int64_t from;   ///< where that is
  };

  std::vector<Class> findClasses() const;
  Class findImage() const;
  bool isForward() const { return direction == ConvDirection::Forward; }
  int64_t windowSize() const { return countOf(shape.window); }
  uint64_t weightBytes(const Class &some) const; ///< packed
  void packWeights(const Class &some, const uint16_t *weights, char *to) const;
  int64_t countPixels() const; ///< of the largest class
  uint64_t pixelBytes() const;
  uint64_t rowBytes() const;
  MatrixTileProduct makeProduct(const Class &some) const;
  void runClass(const Class &some, const uint16_t *from, const void *packed,
                const MatrixTileProduct::FinishRow *finish, uint16_t *to,
                char *scratchpad) const;

  Shape shape;
  ConvDirection direction;
  const MatrixTiles &tiles;
  Images read, written;
  /// How far apart the pixels of a class are, and what they see at a place.
  ImageAxes writtenSteps, readSteps;
  std::vector<Class> classes;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVTILES_H
