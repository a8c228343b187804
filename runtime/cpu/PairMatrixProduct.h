//===- PairMatrixProduct.h - Gradients of weights in pairs of bf16 --------===//
//
// The gradient of a weight is the product of two matrices whose terms, samples
// and places, lie one after the other: each of them a row of numbers.
//
//                 n                        a block of 96 x 32 numbers of c
//                 stays
//          ┌─────────────┐                 in the nearest cache until those of
//    terms │      b      │                 all micro-batches have been added
//          └─────────────┘
//      m           n
//    ┌───┐  ┌─────────────┐
//    │   │  │             │
//    │a  │  │ c += a^T b  │
//    └───┘  └─────────────┘
//
// oneDNN's product writes what another kernel adds: a sum of its own jumps
// between tiles of a result that no cache holds.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_PAIRMATRIXPRODUCT_H
#define PP_RUNTIME_CPU_PAIRMATRIXPRODUCT_H

#include <cstdint>
#include <span>

namespace pp::runtime {

/// c = a^T b, or c += a^T b, for matrices k x m and k x n of bf16 and a dense
/// one, m x n, of f32. A number of c is a chain of products of pairs that
/// begins at 0, and then is added to what c has: parts of c have the bits of
/// the whole, and sums over micro-batches those of another kernel that adds.
/// Only where hasPairProducts().
class PairMatrixProduct {
public:
  /// The rows of a and b are so many numbers apart.
  struct Shape {
    int64_t m, k, n;
    int64_t aRow, bRow, cRow;
  };
  static bool isPossible(const Shape &shape);

  /// Of up to `most` micro-batches at once.
  PairMatrixProduct(const Shape &shape, bool isAdded, int64_t most = 1)
      : shape(shape), isAdded(isAdded), most(most) {}

  struct Factors {
    const void *a, *b;
  };
  int64_t atOnce() const { return most; }
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  void run(const void *a, const void *b, void *c, void *scratchpad) const {
    const Factors factors{a, b};
    run(std::span(&factors, 1), static_cast<float *>(c), !isAdded, scratchpad);
  }
  /// c = ((c + a1^T b1) + a2^T b2) + ...; with `isFirst`, the first one is
  /// written, not added.
  void run(std::span<const Factors> factors, float *c, bool isFirst,
           void *scratchpad) const;

private:
  uint64_t packedBytes(int64_t columns) const;

  Shape shape;
  bool isAdded;
  int64_t most;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PAIRMATRIXPRODUCT_H
