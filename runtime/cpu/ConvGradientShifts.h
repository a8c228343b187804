//===- ConvGradientShifts.h - Gradients of weights from shifted images ----===//
//
// The gradient of a convolution's weights is a product of matrices
// (ConvGradientTiles.h) whose second factor has the same pixels of x once for
// each place of the window. Here they are packed once, with zeros around each
// image, and so is dY: then what a place of the window sees begins some pixels
// later, and goes on for as long.
//
//   x, 3 x 3, and dY, of which 0 meets what is no pixel of the result:
//
//     0 0 0 0        term    0 1 2 3 4 5 ...        window  0 1
//     a b c 0   ->   x       0 0 0 0 a b c 0 d e f 0 g h i 0 0 ...
//     d e f 0        place 0 ^       ^                      place (1, 0) of
//     g h i 0        dY      p q r 0 s t u 0 ...            the window
//
// The zeros after a row are those before the next one. With strides, x becomes
// as many images, of every second pixel, say, and each place sees one of them.
// A pair of bf16 begins at an even or at an odd pixel, so there are two copies.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVGRADIENTSHIFTS_H
#define PP_RUNTIME_CPU_CONVGRADIENTSHIFTS_H

#include "cpu/ConvGradientTiles.h"

#include <array>
#include <cstdint>
#include <vector>

namespace pp::runtime {

class ConvGradientShifts {
public:
  using Shape = ConvGradientTiles::Shape;

  /// Whether x and dY are bf16 with channels last or in blocks, and the
  /// channels of both multiples of 16.
  static bool isPossible(const Shape &shape);
  /// Whether this is faster than ConvGradientTiles on this processor: packs
  /// less, and keeps all sums in a cache. Not where those of several
  /// micro-batches pass over the gradient together.
  static bool isPreferred(const Shape &shape);

  ConvGradientShifts(const Shape &shape, const MatrixTiles &tiles);

  /// How many pixels are packed for each hundred that would be, place by place.
  /// Places far apart see pixels of which few are seen by all.
  int64_t packedPercent() const;
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x window, dense. Each
  /// number is one sum over all terms, in their order, in f32.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  /// Every so many pixels of x, and which of the two copies places need.
  struct Image {
    ImageAxes first; // pixel of x that is its first one
    int64_t mostShift = 0;
    std::array<bool, 2> copies{};
    std::array<int64_t, 2> at{}; // of a copy, in panels of 16 channels
  };
  struct Place {
    size_t image;
    int64_t shift;
  };

  int64_t terms() const { return shape.samples * countOf(extents); }
  /// Pixels that a copy has, for so many terms.
  int64_t pixelsOf(const Image &image, int64_t count) const;
  uint64_t measureRows(int64_t count) const;
  uint64_t measureImages(int64_t count) const;
  uint64_t measureSums() const;
  struct Line;
  /// Where so many pixels begin, from `term` on; negative: it is none.
  void findOffsets(const ImagePlaces &places, const std::array<Line, 3> &lines,
                   int64_t term, std::vector<int64_t> &offsets) const;
  void packRows(const uint16_t *dy, int64_t term, int64_t count,
                char *to) const;
  void packImages(const uint16_t *x, int64_t term, int64_t count,
                  char *to) const;
  void multiply(const char *rows, const char *images, int64_t count,
                bool isAdded, float *sums) const;

  Shape shape;
  const MatrixTiles &tiles;
  ImageAxes extents; // of an image with its zeros
  std::vector<Image> images;
  std::vector<Place> places;
  int64_t panelPixels = 0; // of all copies, for the terms at once
  int64_t termsAtOnce = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGRADIENTSHIFTS_H
