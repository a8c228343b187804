//===- FewRowsProduct.h - Products of a few rows --------------------------===//
//
// With one to three rows, as of one sample, a product takes as long as reading
// its other factor. That is read once, where it lies, several of its rows or
// columns at a time: memory gives a core most then (measured on Zen 3: 14 GB/s
// of one stream, 20 of four).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_FEWROWSPRODUCT_H
#define PP_RUNTIME_CPU_FEWROWSPRODUCT_H

#include "cpu/MatrixTilePanels.h"

#include <cstdint>
#include <optional>

namespace pp::runtime {

/// c = a b, or c += a b, of f32, where a and c have up to three rows, or b and
/// c up to three columns: then their transposes have. A number of c has the
/// bits that TiledProduct gives it where it adds to c itself. Needs AVX2 and
/// FMA.
class FewRowsProduct {
public:
  /// Nothing where neither side is as few, or the numbers of the other factor
  /// are not side by side.
  static std::optional<FewRowsProduct>
  find(int64_t m, int64_t k, int64_t n, const MatrixStrides &a,
       const MatrixStrides &b, const MatrixStrides &c, bool isAdded);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  void run(const float *a, const float *b, float *c, void *scratchpad) const;

private:
  FewRowsProduct(int64_t m, int64_t k, int64_t n, const MatrixStrides &a,
                 const MatrixStrides &b, const MatrixStrides &c, bool isAdded)
      : m(m), k(k), n(n), a(a), b(b), c(c), isAdded(isAdded) {}

  FewRowsProduct transposed() const;
  bool fits() const;
  /// Where rows of b are in one piece.
  void addRows(const float *a, const float *b, float *c, float *sums) const;
  /// Where columns are.
  void addColumns(const float *a, const float *b, float *c) const;
  /// Writes chains of the block that begins with `term`, rows `pitch` apart.
  void write(const float *chains, int64_t pitch, int64_t column,
             int64_t columns, int64_t term, float *c) const;

  int64_t m, k, n;
  MatrixStrides a, b, c;
  bool isAdded, isTransposed = false;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_FEWROWSPRODUCT_H
