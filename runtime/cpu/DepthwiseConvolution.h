//===- DepthwiseConvolution.h - A window for each channel -----------------===//
//
// Convolutions that have a group for each channel, and one output in each, load
// a number for each multiplication: they are as fast as a core loads. oneDNN
// 2.6 has generated code for some of them, but for gradients of weights only up
// to 3 x 3, and for some layouts only where channels fill blocks; its other
// code does 3 GFLOP/s. Here a number of x is loaded once for eight outputs.
//
//   x, 16 channels      rows as f32, zeros around     sums in registers    y
//  ┌──────────┐         ┌────────────┐
//  │          │  read   │ 0 0 0 0 0  │    8 outputs of a row, 16 channels
//  │          │ ──────▶ │ 0 x x x 0  │ ─────────────────────────────▶ ┌───┐
//  └──────────┘         │ 0 x x x 0  │    += window * row             └───┘
//                       └────────────┘
//
// The gradient of x is one, too: of dY, for each class of pixels that see the
// same numbers of the window. Groups of 2, 4 or 8 channels are as many such
// convolutions, whose sums go on: of rows in which all lanes of a group have
// its first channel, its second one, and so on.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_DEPTHWISECONVOLUTION_H
#define PP_RUNTIME_CPU_DEPTHWISECONVOLUTION_H

#include "cpu/DepthwiseWindows.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

struct ConvEpilogue;

/// Computes in f32 and rounds once. Each output is a chain of fused
/// multiply-adds over the window, from the first pixel to the last, which
/// begins at 0: its bits depend on nothing else.
class DepthwiseConvolution {
public:
  using Shape = depthwise::Shape;
  using Direction = depthwise::Direction;

  /// See depthwise::isPossible().
  DepthwiseConvolution(
      const Shape &shape, Direction direction,
      const depthwise::RowLoops &loops = depthwise::rowLoops());
  // Rows refer to axes.
  DepthwiseConvolution(const DepthwiseConvolution &other)
      : DepthwiseConvolution(other.shape, other.direction, other.loops) {}
  DepthwiseConvolution &operator=(const DepthwiseConvolution &) = delete;

  /// That may be divided, of each class of `to`.
  int64_t countRows() const { return height.longestCount; }
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// Writes a part of `to`. Weights are outputs x channels of a group x window,
  /// dense, of the type of the images; `bias` has a number for each output, if
  /// there is one.
  void run(const void *from, const void *weights, const float *bias,
           const ConvEpilogue &epilogue, void *to, const depthwise::Part &part,
           void *scratchpad) const;

private:
  /// Of pixels of `to`, by classes of planes, rows and columns.
  struct Work {
    const depthwise::Axis::Class *planes, *rows, *columns;
    depthwise::Segments segments;
  };

  int64_t windowSize() const { return countOf(shape.window); }
  /// What each channel of `to` is multiplied with.
  int64_t countWeights() const { return shape.groupChannels * windowSize(); }
  /// All that the works have, for 16 channels from `channel` on.
  void gatherWeights(const void *weights, int64_t channel, float *to) const;
  int64_t lineWidth() const; ///< pixels of a row of `to`
  /// Blocks of a sample.
  depthwise::RowPlace placeOf(const ImagePlaces &places, int64_t sample,
                              int64_t block, int64_t blocks) const {
    return {&places, shape.isShort,          shape.channels, block,
            blocks,  sample * places.sample, lineWidth()};
  }
  /// What padded rows become: the rows of all classes from `first` to `end`, of
  /// the blocks of `place`, in a plane of a class. `lines` are a row of each.
  void writeRows(const float *rows, const float *factors, const float *bias,
                 const ConvEpilogue &epilogue, void *to,
                 depthwise::RowPlace place,
                 const depthwise::Axis::Class &planes, int64_t first,
                 int64_t end, float *lines) const;

  Shape shape;
  Direction direction;
  const depthwise::RowLoops &loops;
  depthwise::Axis depth, height, width;
  depthwise::PaddedRows padded;
  std::vector<Work> works;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_DEPTHWISECONVOLUTION_H
