//===- FewTermsProduct.h - Products of a few terms ------------------------===//
//
// A gradient of weights from a few rows, as of one sample, takes as long as
// writing it. Four of its rows are written at a time, and past the caches where
// they cannot hold it: then memory is not read first (measured on Zen 3, 4,096
// x 4,096 of one term: tiles of registers 9.3 ms, four rows at a time 4.2, past
// the caches 3.1).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_FEWTERMSPRODUCT_H
#define PP_RUNTIME_CPU_FEWTERMSPRODUCT_H

#include "cpu/MatrixTilePanels.h"

#include <cstdint>

namespace pp::runtime {

/// c = a b, or c += a b, of f32, where a has up to eight columns. A number of c
/// has the bits that TiledProduct gives it where it adds to c itself. Needs
/// AVX2 and FMA.
class FewTermsProduct {
public:
  /// Whether it is faster than tiles: c is no longer in the second cache, and
  /// rows of b and of c are in one piece.
  static bool isPreferred(int64_t m, int64_t k, int64_t n,
                          const MatrixStrides &b, const MatrixStrides &c);

  FewTermsProduct(int64_t m, int64_t k, int64_t n, const MatrixStrides &a,
                  const MatrixStrides &b, const MatrixStrides &c, bool isAdded)
      : m(m), k(k), n(n), a(a), b(b), c(c), isAdded(isAdded) {}

  void run(const float *a, const float *b, float *c) const;

private:
  int64_t m, k, n;
  MatrixStrides a, b, c;
  bool isAdded;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_FEWTERMSPRODUCT_H
