//===- GroupConvolution.h - Convolutions in groups of channels --*- C++ -*-===//
//
// For groups of 8, 16, ... channels, as ResNeXt and RegNet have them, oneDNN's
// code for AVX2 runs at a fifth to a half of a core's peak where channels lie
// together: groups have too few of them for its tiles. Here sums of up to 12
// pixels and 16 outputs are in registers (GroupTiles.h), of rows that a cache
// has (GroupRows.h). The gradient of x is such a convolution of dY. So are
// windows over few channels of large images that are all one group.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_GROUPCONVOLUTION_H
#define PP_RUNTIME_CPU_GROUPCONVOLUTION_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"
#include "cpu/GroupRows.h"

#include <cstdint>

namespace pp::runtime {

/// A convolution of f32, or the gradient of its image. Each number is a chain
/// of fused multiply-adds over what its window sees, which begins at 0: its
/// bits depend on nothing else.
class GroupConvolution {
public:
  using Range = KernelBuilder::Range;

  /// Whether this processor should compute it so, with weights of any layout.
  static bool isPreferred(const ConvShape &whole, ConvDirection direction);

  GroupConvolution(const ConvShape &whole, ConvDirection direction);

  /// What a part writes: of the rows, some of each class.
  struct Share {
    Range samples, groups, rows;
  };
  Share all() const {
    return {{0, rows.sizes.samples}, {0, rows.groups}, {0, rows.countRows()}};
  }

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const {
    return alignUp(rows.countCopied() * sizeof(float));
  }
  /// `weights` as packWeights() leaves them.
  void run(const float *x, const float *weights, const ConvEpilogue &epilogue,
           const ConvSummands &summands, float *y, const Share &share,
           void *scratchpad) const;

  uint64_t getPackedBytes() const {
    return rows.groups * weightsOfGroup() * sizeof(float);
  }
  /// Brings weights of some groups, outputs x channels of a group x window,
  /// into the order in which they are multiplied.
  void packWeights(Range some, const float *weights, float *packed) const;

private:
  int64_t ofWritten() const { ///< weights that a channel is a sum with
    return countOf(rows.sizes.window) * rows.from.channels;
  }
  int64_t weightsOfGroup() const { return ofWritten() * rows.to.channels; }
  /// Writes `count` rows of each class, from row `first` of them on, of some
  /// channels; `row` says which, from where a sample has them.
  void writeRows(const float *copy, int64_t first, int64_t count,
                 int64_t vectors, const GroupRow &row,
                 const ConvEpilogue &epilogue) const;

  bool isForward;
  GroupRows rows;
};

void buildGroupConvolution(const ConvShape &whole, ConvDirection direction,
                           const ConvEpilogue &epilogue,
                           KernelBuilder &builder);
void buildPackGroups(const ConvShape &whole, ConvDirection direction,
                     KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_GROUPCONVOLUTION_H
