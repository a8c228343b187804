//===- BlockProduct.h - Products with 4-bit numbers -------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_BLOCKPRODUCT_H
#define PP_RUNTIME_CPU_BLOCKPRODUCT_H

#include "cpu/Processor.h"

#include <cstdint>

namespace pp::runtime {

/// c[row, n] = the sum of a[row, k] * (q[n, k] - zero) * scale, with numbers q
/// of 4 bits in blocks of `block` numbers, a multiple of 32. A number has the
/// same bits whatever other rows and columns there are.
struct BlockProduct {
  /// Rows that share what is unpacked; of 2,048 numbers, so many fit into a
  /// first-level cache.
  static constexpr int64_t rowsAtOnce = 4;

  int64_t rows, terms, columns, block;
  bool hasZeros;
  /// The instructions, which the processor must have. The bits are the same
  /// with AVX-512 and AVX2.
  enum class Way { Anywhere, Avx2, Avx512 };
  static Way findWay();
  Way way = findWay();

  struct Matrix {
    const uint8_t *blocks; ///< columns x countBlocks() x block / 2
    const float *scales;   ///< columns x countBlocks()
    const uint8_t *zeros;  ///< columns x half as many; null: all are 8
  };

  int64_t countBlocks() const { return (terms + block - 1) / block; }
  uint64_t getScratchpadBytes() const;
  /// `count` columns from `first` on.
  void run(const float *a, const Matrix &b, float *c, int64_t first,
           int64_t count, void *scratchpad) const;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_BLOCKPRODUCT_H
