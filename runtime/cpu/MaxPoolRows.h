//===- MaxPoolRows.h - Maxima of windows over plain images ------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_MAXPOOLROWS_H
#define PP_RUNTIME_CPU_MAXPOOLROWS_H

#include "cpu/MaxPool.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

/// y = max pool of x where the pixels of a row lie together, and its gradient,
/// for which oneDNN has no generated code: 26 and 40 ns for a number of y
/// (measured on Emerald Rapids, windows of two places).
///
///   x, rows of a window    largest of each column         y
///  ├────────────────┤
///  ├────────────────┤ ──▶  -inf ├────────────────┤ -inf ──▶ ├───────┤
///  ├────────────────┤
///
/// The maximum of a window is the first of its largest numbers, column by
/// column, or NaN if one of them is no number; the lowest number where it sees
/// nothing but padding. The gradient is a sum of f32 in the order of dY,
/// rounded once, at the first of the largest numbers, row by row, or the last
/// one that is no number.
class MaxPoolRows {
public:
  using Shape = MaxPool::Shape;

  static bool isPossible(const Shape &shape);

  explicit MaxPoolRows(const Shape &shape);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  void run(const void *x, void *y, void *scratchpad) const;
  void runGradient(const void *x, const void *dy, void *dx,
                   void *scratchpad) const;

private:
  Shape shape;
  /// Those of y whose windows see nothing but padding.
  std::vector<int64_t> emptyColumns;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MAXPOOLROWS_H
