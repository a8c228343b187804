//===- DepthwiseGradient.h - Gradients of windows of single channels ------===//
//
// The gradient of the weights of DepthwiseConvolution: for each place of the
// window, the sum over all pixels of dY of dY times what they see there. As
// many places as there are registers for are added up at a time, over rows of
// 16 channels.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_DEPTHWISEGRADIENT_H
#define PP_RUNTIME_CPU_DEPTHWISEGRADIENT_H

#include "cpu/DepthwiseWindows.h"

#include <cstdint>

namespace pp::runtime {

/// Computes in f32. Sums have chains of about 64 pixels, of whole rows, added
/// one after the other: their order depends on the shape alone.
class DepthwiseGradient {
public:
  using Shape = depthwise::Shape;

  /// See depthwise::isPossible(). With `isAdded`, to what is there.
  DepthwiseGradient(const Shape &shape, bool isAdded,
                    const depthwise::RowLoops &loops = depthwise::rowLoops());
  // Rows refer to axes.
  DepthwiseGradient(const DepthwiseGradient &other)
      : DepthwiseGradient(other.shape, other.isAdded, other.loops) {}
  DepthwiseGradient &operator=(const DepthwiseGradient &) = delete;

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes some blocks of 16 outputs of the gradient, outputs x channels of a
  /// group x window, dense.
  void run(const void *x, const void *dy, float *gradient, int64_t firstBlock,
           int64_t blocks, void *scratchpad) const;

private:
  int64_t windowSize() const { return countOf(shape.window); }
  int64_t countWeights() const { return shape.groupChannels * windowSize(); }
  int64_t rowsOfChain() const;
  /// Adds what rows from `first` to `end` give, of the blocks of `place`, which
  /// is that of dY; `rows` are padded ones of x.
  void addRows(const float *rows, const void *dy, depthwise::RowPlace place,
               int64_t first, int64_t end, float *factors, float *sums) const;

  Shape shape;
  bool isAdded;
  const depthwise::RowLoops &loops;
  depthwise::Axis depth, height, width;
  depthwise::PaddedRows padded;
  depthwise::Segments segments;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_DEPTHWISEGRADIENT_H
