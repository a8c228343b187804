//===- MaxPool.h - Maxima of windows --------------------------------------===//
#ifndef PP_RUNTIME_CPU_MAXPOOL_H
#define PP_RUNTIME_CPU_MAXPOOL_H

#include "cpu/ImagePlaces.h"

#include <cstdint>

namespace pp::runtime {

/// y = max pool of x, and its gradient without a record of the maxima: they are
/// looked for again. oneDNN computes y once more for that and writes where they
/// were; with channels last that takes 4 times as long (measured on an Intel
/// Xeon).
///
/// The maximum of a window is the first of its largest numbers, or the last one
/// that is no number (as in PyTorch); the lowest number where it sees nothing
/// but padding. The gradient is a sum of f32 in the order of dY, rounded once.
///
/// Of bf16, the sums of the rows of x that windows still see are kept in a
/// ring:
///
///       dx, rounded        ring            not yet seen
///     ├──────────────┼──────────────────┼────────────────┤ rows of x
///                     what windows of
///                     one row reach
class MaxPool {
public:
  /// Of images, with `dy` where y lies, too.
  struct Shape : WindowSizes {
    bool isShort = false; ///< x and y are bf16, else f32
  };

  /// Whether each 16 or 8 channels lie together, and windows are not too large;
  /// of bf16, only of images with height and width.
  static bool isPossible(const Shape &shape);

  explicit MaxPool(const Shape &shape) : shape(shape) {}

  void run(const void *x, void *y) const;
  /// Of the gradient; a multiple of 64.
  uint64_t getScratchpadBytes() const;
  void runGradient(const void *x, const void *dy, void *dx,
                   void *scratchpad) const;

private:
  Shape shape;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MAXPOOL_H
