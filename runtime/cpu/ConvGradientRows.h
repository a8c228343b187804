//===- ConvGradientRows.h - Gradients of weights from few channels -------===//
//
// With channels last, what a row of the window sees of an image lies together:
// its places times its channels. Of few channels, as an image's three, those
// take the place of the 16 that ConvGradientShifts.h packs at once:
//
//   3 channels, a window of 7, strides of 2
//
//     x      r g b r g b r g b r g b ...      pixel 0 of a row of the result
//            └──── 21, packed as 32 ───┘
//                        └──── 21 ...         pixel 1
//
// Rows of x are copied first, with zeros before and behind them. What belongs
// to the numbers beyond the 21 is left out in the end.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVGRADIENTROWS_H
#define PP_RUNTIME_CPU_CONVGRADIENTROWS_H

#include "cpu/ConvGradientShifts.h"

#include <cstdint>

namespace pp::runtime {

class ConvGradientRows {
public:
  using Shape = ConvGradientShifts::Shape;

  /// Whether x and dY are bf16, pixels of x lie side by side with channels
  /// last, whose number is no multiple of 16, as that of outputs is, and
  /// windows have no holes along a row.
  static bool isPossible(const Shape &shape);
  /// Whether that is so on a processor on which it is faster than the library.
  static bool isPreferred(const Shape &shape);

  ConvGradientRows(const Shape &shape, const MatrixTiles &tiles);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes the gradient, or adds it: outputs x channels x window, dense. Each
  /// number is the sum of those of the samples, one after the other.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  uint64_t measureImage() const;
  uint64_t measureSums() const;
  void copyImage(const uint16_t *x, uint16_t *to) const;
  void writeSums(const float *sums, float *gradient) const;

  Shape shape, sample; // `sample`: one, with rows of the window for channels
  ConvGradientShifts first, next;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVGRADIENTROWS_H
