//===- IntervalPacker.cpp - Blocks of memory with lifetimes ---------------===//

#include "IntervalPacker.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace pp::pipeline;

namespace {

/// The blocks placed so far, by time: a segment tree finds those that live at a
/// moment, a list those that are born at one.
class Timeline {
public:
  explicit Timeline(size_t moments) : bornAt(moments) {
    while (width < moments)
      width *= 2;
    living.resize(2 * width);
  }

  void insert(size_t block, size_t first, size_t last) {
    bornAt[first].push_back(block);
    for (size_t l = first + width, r = last + width + 1; l < r;
         l /= 2, r /= 2) {
      if (l % 2 == 1)
        living[l++].push_back(block);
      if (r % 2 == 1)
        living[--r].push_back(block);
    }
  }

  /// Every block that lives at some moment of [first, last], once.
  template <typename Visit>
  void visitLiving(size_t first, size_t last, Visit &&visit) const {
    for (size_t node = first + width; node > 0; node /= 2)
      for (size_t block : living[node])
        visit(block);
    for (size_t moment = first + 1; moment <= last; ++moment)
      for (size_t block : bornAt[moment])
        visit(block);
  }

private:
  size_t width = 1;
  std::vector<std::vector<size_t>> bornAt;
  std::vector<std::vector<size_t>> living;
};

} // namespace

size_t IntervalPacker::add(int64_t bytes, size_t first, size_t last) {
  blocks.push_back({bytes, first, last, 0});
  return blocks.size() - 1;
}

int64_t IntervalPacker::pack() {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return blocks[a].bytes > blocks[b].bytes;
  });
  size_t moments = 1;
  for (const Block &block : blocks)
    moments = std::max(moments, block.last + 1);

  Timeline placed(moments);
  std::vector<std::pair<int64_t, int64_t>> taken;
  int64_t total = 0;
  for (size_t index : order) {
    Block &block = blocks[index];
    taken.clear();
    placed.visitLiving(block.first, block.last, [&](size_t other) {
      taken.push_back(
          {blocks[other].offset, blocks[other].offset + blocks[other].bytes});
    });
    std::sort(taken.begin(), taken.end());
    for (auto [begin, end] : taken) {
      if (block.offset + block.bytes <= begin)
        break;
      block.offset = std::max(block.offset, end);
    }
    placed.insert(index, block.first, block.last);
    total = std::max(total, block.offset + block.bytes);
  }
  return total;
}
