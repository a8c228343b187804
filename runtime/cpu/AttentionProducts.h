//===- AttentionProducts.h - Attention of f32 -------------------*- C++ -*-===//
//
// A head, up to 48 rows of the query at a time: of their scores, a matrix that
// stays in the second cache, become weights, and of these a part of the result.
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
// panels that are packed once. While a row's weights are computed, rows of the
// next head come into the cache.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_ATTENTIONPRODUCTS_H
#define PP_RUNTIME_CPU_ATTENTIONPRODUCTS_H

#include "cpu/AttentionLayouts.h"
#include "cpu/AttentionMask.h"
#include "cpu/KernelBuilder.h"
#include "cpu/TiledProduct.h"

#include <cstdint>
#include <functional>

namespace pp::runtime {

/// Attention of one head with `rows` of the query and `columns` of key and
/// value. Its result depends on nothing else.
class AttentionProducts {
public:
  using Range = KernelBuilder::Range;

  struct Sizes {
    int64_t rows, columns, width, valueWidth;
    float scale;
    bool isCausal;
  };

  /// Products are oneDNN's unless they are `inTiles`: then all is dense.
  AttentionProducts(const Sizes &sizes, const AttentionLayouts &layouts,
                    bool inTiles = TiledProduct::isPossible())
      : sizes(sizes), layouts(layouts), inTiles(inTiles), places(place()) {}

  /// A multiple of 64.
  uint64_t measureForward() const { return places.endOfForward; }
  uint64_t measureBackward() const { return places.end; }

  /// Blocks of rows of the query, which `forward` may compute alone.
  int64_t countBlocks() const;
  /// Some blocks. A row that the mask zeroes has an infinite logarithm.
  void forward(Range blocks, const float *query, const float *key,
               const float *value, const AttentionMask &mask,
               const RowsAhead &ahead, float *output, float *logsumexp,
               void *scratchpad) const;

  struct Gradients {
    float *query, *key, *value;
  };
  void backward(const float *query, const float *key, const float *value,
                const float *output, const float *logsumexp,
                const float *diffOutput, const AttentionMask &mask,
                const RowsAhead &ahead, const Gradients &gradients,
                void *scratchpad) const;

private:
  /// Rows of the query that are multiplied at once, and how many of the key the
  /// last of them sees.
  struct Block {
    int64_t first, count, seen;
  };
  class Product;
  /// Offsets in a scratchpad; what only the derivative needs comes last.
  struct Places {
    uint64_t keys, scores, product, endOfForward;
    uint64_t values, diffWeights, end;
  };
  Places place() const;
  void forBlocks(Range blocks,
                 const std::function<void(const Block &)> &visit) const;
  Range allBlocks() const { return {0, countBlocks()}; }
  int64_t visible(int64_t row) const {
    return sizes.isCausal ? row + 1 : sizes.columns;
  }
  /// Numbers between rows of scores: whole vectors, and no multiple of a page,
  /// whose lines would share a place of the cache.
  int64_t pitch() const;

  /// Sums of the products of rows, from 0 on.
  void addMeans(const float *diffOutput, const float *output, int64_t rows,
                float *means) const;
  /// Zeros in rows that the first block does not see.
  void clearRows(float *matrix, MatrixStrides strides, int64_t width,
                 int64_t first) const;

  // Products of a block.
  Product scoresOf(const Block &block) const;
  Product outputOf(const Block &block) const;
  Product diffWeightsOf(const Block &block) const;
  Product diffQueryOf(const Block &block) const;
  Product diffKeyOf(const Block &block) const;
  Product diffValueOf(const Block &block) const;

  Sizes sizes;
  AttentionLayouts layouts;
  bool inTiles;
  Places places;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_ATTENTIONPRODUCTS_H
