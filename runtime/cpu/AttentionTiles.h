//===- AttentionTiles.h - Attention of bf16 in tiles ------------*- C++ -*-===//
//
// A head, 128 rows of the query at a time:
//
//   s = scale q k^T + mask        f32, in L2
//   p = exp(s - largest)          bf16; row by row
//   o = p v / sum                 no matrix of all scores
//
// and back, with p from s and the logarithm of the sum:
//
//   dp = do v^T    ds = scale p (dp - row's do . o)
//   dq = ds k      dk += ds^T q      dv += p^T do
//
// T. Dao et al., "FlashAttention", NeurIPS 2022; products are those of
// MatrixTileProduct.h.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_ATTENTIONTILES_H
#define PP_RUNTIME_CPU_ATTENTIONTILES_H

#include "cpu/AttentionLayouts.h"
#include "cpu/AttentionMask.h"
#include "cpu/MatrixTileProduct.h"

#include <cstdint>
#include <functional>

namespace pp::runtime {

/// Attention of one head with `rows` of the query and `columns` of key and
/// value. The result of a head depends on nothing else. For processors with
/// AVX512_BF16.
class AttentionTiles {
public:
  AttentionTiles(int64_t rows, int64_t columns, int64_t width,
                 int64_t valueWidth, float scale, bool isCausal,
                 const AttentionLayouts &layouts, const MatrixTiles &tiles)
      : rows(rows), columns(columns), width(width), valueWidth(valueWidth),
        scale(scale), isCausal(isCausal), layouts(layouts), tiles(tiles) {}

  /// A multiple of 64.
  uint64_t measureForward() const;
  uint64_t measureBackward() const;

  /// A row that the mask zeroes has an infinite logarithm.
  void forward(const uint16_t *query, const uint16_t *key,
               const uint16_t *value, const AttentionMask &mask,
               uint16_t *output, float *logsumexp, void *scratchpad) const;

  struct Gradients {
    uint16_t *query, *key, *value;
  };
  void backward(const uint16_t *query, const uint16_t *key,
                const uint16_t *value, const uint16_t *output,
                const float *logsumexp, const uint16_t *diffOutput,
                const AttentionMask &mask, const Gradients &gradients,
                void *scratchpad) const;

private:
  /// Rows of the query that are multiplied at once, and how many of the key the
  /// last of them sees.
  struct Block {
    int64_t first, count, seen;
  };
  class Places;
  struct ForwardPlaces;
  struct BackwardPlaces;
  ForwardPlaces placeForward() const;
  BackwardPlaces placeBackward() const;
  void forBlocks(const std::function<void(const Block &)> &visit) const;
  int64_t visible(int64_t row) const { return isCausal ? row + 1 : columns; }
  bool isOneBlock() const;

  // Products of a block.
  MatrixTileProduct scoresOf(const Block &block) const;
  MatrixTileProduct outputOf(const Block &block) const;
  MatrixTileProduct diffWeightsOf(const Block &block) const;
  MatrixTileProduct diffQueryOf(const Block &block) const;
  MatrixTileProduct diffKeyOf(const Block &block) const;
  MatrixTileProduct diffValueOf(const Block &block) const;

  int64_t rows, columns, width, valueWidth;
  float scale;
  bool isCausal;
  AttentionLayouts layouts;
  const MatrixTiles &tiles;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_ATTENTIONTILES_H
