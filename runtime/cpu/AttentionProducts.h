//===- AttentionProducts.h - Attention of f32 -------------------*- C++ -*-===//
//
// A head, 48 rows of the query at a time: of their scores, a matrix that stays
// in the second cache, become weights, and of these a part of the result.
//
//   s = scale q k^T + mask      p = exp(s - largest)      o = p v / sum
//
// and back, with p from s and the logarithm of the sum:
//
//   dp = do v^T    ds = scale p (dp - row's do . o)
//   dq = ds k      dk += ds^T q      dv += p^T do
//
// T. Dao et al., "FlashAttention", NeurIPS 2022. What a causal head does not
// see is not computed, but for what is left of a block. Products are those of
// TiledProduct, whose tiles read keys and values as they lie or, transposed, in
// panels that are packed once.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_ATTENTIONPRODUCTS_H
#define PP_RUNTIME_CPU_ATTENTIONPRODUCTS_H

#include "cpu/AttentionMask.h"
#include "cpu/TiledProduct.h"

#include <cstdint>
#include <functional>

namespace pp::runtime {

/// Attention of one head with `rows` of the query and `columns` of key and
/// value. Its result depends on nothing else. All matrices are dense, row after
/// row.
class AttentionProducts {
public:
  struct Sizes {
    int64_t rows, columns, width, valueWidth;
    float scale;
    bool isCausal;
  };

  /// Products are oneDNN's unless they are `inTiles`.
  explicit AttentionProducts(const Sizes &sizes,
                             bool inTiles = TiledProduct::isPossible())
      : sizes(sizes), inTiles(inTiles) {}

  /// A multiple of 64.
  uint64_t measureForward() const;
  uint64_t measureBackward() const;

  /// A row that the mask zeroes has an infinite logarithm.
  void forward(const float *query, const float *key, const float *value,
               const AttentionMask &mask, float *output, float *logsumexp,
               void *scratchpad) const;

  struct Gradients {
    float *query, *key, *value;
  };
  void backward(const float *query, const float *key, const float *value,
                const float *output, const float *logsumexp,
                const float *diffOutput, const AttentionMask &mask,
                const Gradients &gradients, void *scratchpad) const;

private:
  /// Rows of the query that are multiplied at once, and how many of the key the
  /// last of them sees.
  struct Block {
    int64_t first, count, seen;
  };
  class Product;
  struct Places;
  Places place() const;
  void forBlocks(const std::function<void(const Block &)> &visit) const;
  int64_t visible(int64_t row) const {
    return sizes.isCausal ? row + 1 : sizes.columns;
  }
  /// Numbers between rows of scores: whole vectors, and no multiple of a page,
  /// whose lines would share a place of the cache.
  int64_t pitch() const;

  // Products of a block.
  Product scoresOf(const Block &block) const;
  Product outputOf(const Block &block) const;
  Product diffWeightsOf(const Block &block) const;
  Product diffQueryOf(const Block &block) const;
  Product diffKeyOf(const Block &block) const;
  Product diffValueOf(const Block &block) const;

  Sizes sizes;
  bool inTiles;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_ATTENTIONPRODUCTS_H
