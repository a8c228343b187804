//===- PairMatrixProduct.h - Gradients of weights in pairs of bf16 --------===//
//
// The gradient of a weight is the product of two matrices whose terms are
// samples, words or pixels: each of them is a row of numbers.
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

#include <array>
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
  /// Where the terms of a factor lie, along up to four axes: of a matrix, rows;
  /// of images, pixels. Each 16 columns lie together and are `block` apart.
  struct Terms {
    std::array<int64_t, 4> counts, strides;
    int64_t block = 16;
  };
  static Terms ofRows(int64_t count, int64_t stride) {
    return {{1, 1, 1, count}, {0, 0, 0, stride}};
  }
  /// The rows of c are `cRow` numbers apart.
  struct Shape {
    int64_t m, k, n;
    Terms a, b;
    int64_t cRow;
  };
  static bool isPossible(const Shape &shape);
  /// Whether this is faster than tiles and the library, or as fast but added in
  /// place (measured on Zen 5: 3 % with 1024 terms, 20 % with 128).
  static bool isPreferred(const Shape &shape);
  /// How many micro-batches, up to `most`, to add in one pass: what is packed
  /// of all of them should stay in a cache.
  static int64_t countTogether(const Shape &shape, int64_t most);

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
  uint64_t offsetBytes() const;
  uint64_t packedBytes(int64_t columns) const;

  Shape shape;
  bool isAdded;
  int64_t most;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PAIRMATRIXPRODUCT_H
