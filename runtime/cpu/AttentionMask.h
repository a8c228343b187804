//===- AttentionMask.h - What is added to scores ----------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_ATTENTIONMASK_H
#define PP_RUNTIME_CPU_ATTENTIONMASK_H

#include <cstdint>

namespace pp::runtime {

/// The mask of one head: a row of numbers for each row of the query, or one for
/// all, which are added to the scores. Minus infinity hides a score.
class AttentionMask {
public:
  /// None.
  AttentionMask() = default;
  /// `rowStride` numbers lie between two rows; 0: there is one. Rows that are
  /// hidden as a whole are `zeroed`, or else no numbers.
  AttentionMask(const float *first, int64_t rowStride, bool isZeroed)
      : first(first), rowStride(rowStride), isZeroed(isZeroed) {}

  explicit operator bool() const { return first; }

  /// Turns `count` scores of a row into scale * score + mask, less the largest
  /// if that is far from 0: so their logarithm of a sum, which the derivative
  /// reads, is exact where a row is hidden by large numbers as a whole. Returns
  /// false if the row is zeroed: all of them are minus infinity.
  bool add(float *scores, float scale, int64_t row, int64_t count) const;

private:
  const float *first = nullptr;
  int64_t rowStride = 0;
  bool isZeroed = false;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_ATTENTIONMASK_H
