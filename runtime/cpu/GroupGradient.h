//===- GroupGradient.h - Gradients of weights in groups ---------*- C++ -*-===//
//
// What GroupConvolution is for the gradient of its weights, where groups have 8
// outputs: sums of 4 channels at 3 places of the window stay in registers for
// all pixels of some rows of dY (GroupTiles.h), which a cache has, as what they
// see of x (GroupRows.h).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_GROUPGRADIENT_H
#define PP_RUNTIME_CPU_GROUPGRADIENT_H

#include "cpu/ConvShape.h"
#include "cpu/GroupRows.h"

#include <cstdint>

namespace pp::runtime {

/// Of f32. Each number is a sum of chains of fused multiply-adds, one for some
/// rows of a sample, from the first to the last; it is complete before it is
/// added to what is there. How many rows depends on the sizes alone.
class GroupGradient {
public:
  using Range = KernelBuilder::Range;

  /// Whether this processor should compute it so.
  static bool isPreferred(const ConvShape &whole);

  explicit GroupGradient(const ConvShape &whole);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const {
    return alignUp((rows.countCopied() + countCopiedOutputs() +
                    groupsAtOnce() * weightsOfGroup()) *
                   sizeof(float));
  }
  void run(const float *x, const float *dy, float *gradient, Range groups,
           void *scratchpad) const;

private:
  int64_t weightsOfGroup() const { return rows.weightsOfOutput() * groupLanes; }
  int64_t countCopiedOutputs() const {
    return rows.atATime * rows.width.longestCount * groupLanes;
  }
  /// Groups that are read together, as what lies together is theirs.
  int64_t groupsAtOnce() const;
  /// Copies `count` rows of a group from row `first` on.
  void copyOutputs(const float *dy, int64_t first, int64_t count,
                   float *copy) const;
  /// Adds what such rows bring to their sums, by places and channels.
  void addRows(const float *x, const float *dy, int64_t count,
               float *sums) const;

  GroupRows rows;
  bool isAdded;
};

void buildGroupGradient(const ConvShape &whole, KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_GROUPGRADIENT_H
