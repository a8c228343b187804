//===- PairProduct.h - Products of pairs of bf16 in registers ---*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_PAIRPRODUCT_H
#define PP_RUNTIME_CPU_PAIRPRODUCT_H

#include <cstdint>

namespace pp::runtime {

/// The columns of a panel of b.
inline constexpr int64_t pairColumns = 16;

/// Factors of bf16 whose terms lie in pairs. Distances are in numbers.
struct PairFactors {
  /// Of c's rows; from row to row, and from pair to pair.
  const uint16_t *a;
  int64_t aRow, aPair;
  /// Panels of 16 columns, pair after pair, each with its columns.
  const uint16_t *b;
  int64_t bPanel;
  int64_t pairs;
};

/// Several products of the same sizes, so far apart. Distances are in numbers.
struct PairProducts {
  int64_t count = 1;
  int64_t a = 0, b = 0, c = 0;
};

/// Whether the processor has AVX512_BF16.
bool hasPairProducts();

/// c = a b, or c += a b where `isAdded`, for a block of rows of a and a
/// multiple of 16 columns of b, in f32; for each of some products, a tile of c
/// after the other. A number of c is a sum that begins at 0 and, with
/// `isAdded`, is added to what c has; its bits depend on its row of a and its
/// column of b alone. Only where hasPairProducts().
void multiplyPairs(const PairFactors &factors, int64_t rows, int64_t columns,
                   float *c, int64_t cRow, bool isAdded,
                   const PairProducts &products = {});

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PAIRPRODUCT_H
