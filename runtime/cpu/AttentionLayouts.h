//===- AttentionLayouts.h - Where the matrices of a head lie ----*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_ATTENTIONLAYOUTS_H
#define PP_RUNTIME_CPU_ATTENTIONLAYOUTS_H

#include "cpu/MatrixTileProduct.h"

#include <array>
#include <cstdint>

namespace pp::runtime {

/// Strides of a head's matrices, in numbers.
struct AttentionLayouts {
  MatrixStrides query, key, value, output;
  // Of the derivative.
  MatrixStrides diffOutput{}, diffQuery{}, diffKey{}, diffValue{};

  /// Each row after the one before.
  static AttentionLayouts dense(int64_t width, int64_t valueWidth) {
    const MatrixStrides own{width, 1}, ofValue{valueWidth, 1};
    return {own, own, ofValue, ofValue, ofValue, own, own, ofValue};
  }
};

/// What is read after a head: the next one's matrices, whose rows lie far apart
/// where a row has all heads, so that the processor does not read ahead itself.
class RowsAhead {
public:
  void add(const float *first, MatrixStrides strides, int64_t rows,
           int64_t columns) {
    // Columns may be what lies together.
    if (strides.column == 1)
      parts[count++] = {first, strides.row, rows, columns};
    else if (strides.row == 1)
      parts[count++] = {first, strides.column, columns, rows};
  }

  /// Brings the given one of `steps` parts of all of it into the cache.
  void fetch(int64_t step, int64_t steps) const {
    for (int64_t i = 0; i < count; ++i) {
      const Part &part = parts[i];
      if (part.stride == part.length)
        continue;
      for (int64_t row = part.rows * step / steps;
           row < part.rows * (step + 1) / steps; ++row)
        for (int64_t at = 0; at < part.length; at += numbersOfLine)
          __builtin_prefetch(part.first + row * part.stride + at);
    }
  }

private:
  static constexpr int64_t numbersOfLine = 16;
  struct Part {
    const float *first;
    int64_t stride, rows, length;
  };
  std::array<Part, 5> parts{};
  int64_t count = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_ATTENTIONLAYOUTS_H
