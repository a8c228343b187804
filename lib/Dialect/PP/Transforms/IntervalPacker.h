//===- IntervalPacker.h - Blocks of memory with lifetimes -------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_INTERVALPACKER_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_INTERVALPACKER_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pp::pipeline {

/// Gives blocks that live from one moment to another their places in an area,
/// such that blocks that live at the same time do not overlap: first fit, the
/// largest block first (the "greedy by size" of Pisarchyk and Lee, arXiv
/// 2001.03288). Equal sizes keep the order in which they were added, so the
/// result depends on the calls alone.
class IntervalPacker {
public:
  /// Adds a block of `bytes` (a multiple of the alignment) that lives from
  /// moment `first` to moment `last`, both included; returns its number.
  size_t add(int64_t bytes, size_t first, size_t last);

  /// Places all blocks; returns the size of the area. For n blocks of which
  /// each meets at most k others, and lives at most l moments:
  /// O(n (log n + k log k + l)).
  int64_t pack();

  int64_t offsetOf(size_t block) const { return blocks[block].offset; }

private:
  struct Block {
    int64_t bytes;
    size_t first, last;
    int64_t offset;
  };
  std::vector<Block> blocks;
};

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_INTERVALPACKER_H
