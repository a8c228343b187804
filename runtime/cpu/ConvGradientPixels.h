//===- ConvGradientPixels.h - Gradients of weights with AVX2 ----*- C++ -*-===//
//
// For processors without AVX-512, where oneDNN 2.6 makes gradients of weights
// of f32 at two thirds of the peak, at a third where windows have holes or a
// depth, and in one thread.
//
// The gradient is a product of matrices: outputs x pixels of dY with pixels x
// columns of x, where a column is eight channels at one place of the window.
// Pixels of some rows of the result, a band, are packed at a time, x with zeros
// around it, so that a place of the window is only another beginning:
//
//      x, 8 channels of a pixel          dY, 4 outputs of a pixel
//      ┌ ┬ ┬ ┬ ┬ ┬ ┐ row 0               ┌ ┬ ┬ ┬ ┐
//      ├ ┼ ┼ ┼ ┼ ┼ ┤ row 1               ├ ┼ ┼ ┼ ┤
//      └ ┴ ┴ ┴ ┴ ┴ ┘ row 2               └ ┴ ┴ ┴ ┘
//        0 1 2 ─▶ places of the window
//
// Twelve registers have the sums of 4 outputs and 3 columns while all pixels of
// the band pass: three numbers of eight lanes and four that are broadcast are
// read for twelve multiplications. With a stride along rows, every second pixel
// of x comes first, and then the others. Rows and ends of rows at which the
// columns see nothing but padding are left out, which changes no sum; where
// that are many, the columns of a tile are three blocks at the same place.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVGRADIENTPIXELS_H
#define PP_RUNTIME_CPU_CONVGRADIENTPIXELS_H

#include "cpu/ConvGradientProduct.h"
#include "cpu/ImagePlaces.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

class ConvGradientPixels {
public:
  using Shape = ConvGradientProduct::Shape;

  /// Whether x and dY are f32, and the processor has AVX2.
  static bool isPossible(const Shape &shape);
  /// Whether that is faster than the library on this processor (measured on
  /// Zen 3).
  static bool isPreferred(const Shape &shape);
  /// Whether most pixels see nothing but padding at most places of the window.
  static bool seesLittle(const Shape &shape);

  explicit ConvGradientPixels(const Shape &shape);

  /// Some pixels of a row of a band: where packed x and dY have the first.
  struct Line {
    int64_t x, dy;
  };
  /// As many pixels of each.
  struct Lines {
    std::vector<Line> all;
    int64_t width = 0;

    int64_t pixels() const { return static_cast<int64_t>(all.size()) * width; }
  };

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x window, dense. Each
  /// number is the sum of chains of fused multiply-adds, of a band each, one
  /// after the other; its bits depend on nothing but its channel of x and its
  /// output of dY.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const {
    runGroup(x, dy, /*group=*/0, gradient, scratchpad);
  }
  /// The same of some of several groups, each of the channels and outputs of
  /// the shape.
  void runGroups(const void *x, const void *dy, int64_t first, int64_t count,
                 float *gradient, void *scratchpad) const {
    for (int64_t group = first; group < first + count; ++group)
      runGroup(x, dy, group, gradient, scratchpad);
  }

private:
  /// Samples and rows of the result, or some columns of one row.
  struct Band {
    int64_t sample, samples;
    ImageAxes begin, count;

    int64_t pixels() const { return samples * countOf(count); }
  };

  void splitIntoBands();
  /// The pixels of a band that see the image at some of the window's places,
  /// one after the other.
  Lines findLines(const Band &band, int64_t firstPlace, int64_t count) const;
  /// Whether a place of the window sees this pixel of an axis of a band, or
  /// others as far from it as the stride says.
  bool isSeen(size_t axis, int64_t at) const;
  int64_t blocks() const; ///< of channels
  int64_t columns() const { return blocks() * countOf(shape.window); }
  int64_t tiles() const; ///< of outputs
  uint64_t measureRows() const;
  uint64_t measureBlocks() const;
  uint64_t measureSums() const;
  void runGroup(const void *x, const void *dy, int64_t group, float *gradient,
                void *scratchpad) const;
  /// From an output on.
  void packRows(const float *dy, const Band &band, int64_t firstOutput,
                float *to) const;
  void packBlock(const float *x, const Band &band, int64_t channel,
                 int64_t channels, float *to) const;
  void packLine(const float *from, int64_t channel, int64_t channels,
                int64_t first, float *to) const;
  /// Adds a band to the columns of some blocks.
  void multiply(const float *rows, const float *packed, const Band &band,
                int64_t firstBlock, int64_t count, float *sums) const;
  void writeSums(const float *sums, float *gradient) const;

  Shape shape;
  bool isByPlaces; ///< columns of a tile are blocks at one place
  std::vector<Band> bands;
  // Of a packed block, for the largest band:
  ImageAxes extents; // pixels of x that it sees, along rows of each phase
  ImageAxes pitches; // in numbers, from one phase of a row to the next too
  int64_t phasePitch = 0, samplePitch = 0, blockNumbers = 0;
  int64_t blocksAtOnce = 1;
  std::vector<int64_t> places; // of the window: where they begin
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGRADIENTPIXELS_H
