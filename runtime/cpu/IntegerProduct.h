//===- IntegerProduct.h - Products of bytes ---------------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_INTEGERPRODUCT_H
#define PP_RUNTIME_CPU_INTEGERPRODUCT_H

#include "cpu/Processor.h"

#include <cstdint>

namespace pp::runtime {

/// c[row, n] = the sum of a[row, k] * b[k, n], with b in panels of 64 columns:
/// b[n / 64][k / 4][n % 64][k % 4]. a and c are dense. Sums wrap around.
struct IntegerProduct {
  static constexpr int64_t panelColumns = 64, panelTerms = 4;

  int64_t rows, terms, columns;
  /// The instructions, which the processor must have.
  enum class Way { Anywhere, Avx2, Vnni };
  static Way findWay();
  Way way = findWay();

  int64_t countPanels() const {
    return (columns + panelColumns - 1) / panelColumns;
  }
  /// Of one panel.
  int64_t panelBytes() const {
    return (terms + panelTerms - 1) / panelTerms * panelTerms * panelColumns;
  }
  /// Of run(); a multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// The columns of `count` panels from `first` on.
  void run(const uint8_t *a, const int8_t *b, int32_t *c, int64_t first,
           int64_t count, void *scratchpad) const;

private:
  /// The same by AVX2.
  void runWidened(const uint8_t *a, const int8_t *b, int32_t *c, int64_t first,
                  int64_t count, void *scratchpad) const;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_INTEGERPRODUCT_H
