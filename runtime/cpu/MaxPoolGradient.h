//===- MaxPoolGradient.h - Gradients of maxima ------------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_MAXPOOLGRADIENT_H
#define PP_RUNTIME_CPU_MAXPOOLGRADIENT_H

#include "cpu/ImagePlaces.h"

#include <cstdint>

namespace pp::runtime {

/// dX of y = max pool of x, without a record of the maxima: they are looked for
/// again. oneDNN computes y once more and writes where they were; with channels
/// last that takes 4 times as long (measured on an Intel Xeon).
///
/// Each number of dY goes to the first maximum of its window, or to the last
/// number in it that is none (as in PyTorch). Sums have the order of dY.
class MaxPoolGradient {
public:
  using Shape = WindowSizes;

  /// Whether channels come last, in eights, and windows are not too large.
  static bool isPossible(const Shape &shape);

  explicit MaxPoolGradient(const Shape &shape) : shape(shape) {}
  void run(const float *x, const float *dy, float *dx) const;

private:
  /// One sample.
  void runImage(const float *x, const float *dy, float *dx) const;

  Shape shape;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MAXPOOLGRADIENT_H
