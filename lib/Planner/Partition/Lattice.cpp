//===- Lattice.cpp - The ideals of a graph of groups ----------------------===//
#include "Lattice.h"
#include <algorithm>

using namespace pp::planner;
using namespace pp::planner::partition;

std::vector<uint32_t> Lattice::difference(size_t ideal, size_t inside) const {
  auto members = [&](size_t from) {
    std::vector<uint32_t> result;
    while (from != 0) {
      result.push_back(down(from)->group);
      from = down(from)->ideal;
    }
    std::sort(result.begin(), result.end());
    return result;
  };
  std::vector<uint32_t> all = members(ideal), some = members(inside), result;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(),
                      std::back_inserter(result));
  return result;
}

namespace {

/// Numbers without pattern (the finalizer of SplitMix64): sums of some of them
/// spread over a table.
uint64_t spread(uint64_t x) {
  x *= 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Sets of groups, found by content.
class SetTable {
public:
  explicit SetTable(size_t groups)
      : words((groups + 63) / 64), slots(1024, empty) {}

  size_t size() const { return hashes.size(); }
  const uint64_t *set(size_t id) const { return &bits[id * words]; }

  /// The id of set(base) with `group`; the flag says that it is new.
  std::pair<uint32_t, bool> insert(uint32_t base, uint32_t group,
                                   uint64_t hash) {
    if ((size() + 1) * 2 > slots.size())
      grow();
    size_t slot = hash & (slots.size() - 1);
    for (; slots[slot] != empty; slot = (slot + 1) & (slots.size() - 1))
      if (hashes[slots[slot]] == hash && equals(slots[slot], base, group))
        return {slots[slot], false};
    auto id = static_cast<uint32_t>(size());
    slots[slot] = id;
    hashes.push_back(hash);
    size_t at = bits.size();
    bits.resize(at + words);
    std::copy_n(bits.begin() + base * words, words, bits.begin() + at);
    bits[at + group / 64] |= uint64_t(1) << (group % 64);
    return {id, true};
  }

  void insertEmpty() {
    hashes.push_back(0);
    bits.assign(words, 0);
    slots[0] = 0;
  }
  uint64_t hash(size_t id) const { return hashes[id]; }
  size_t bytes() const { return bits.size() * sizeof(uint64_t); }

private:
  static constexpr uint32_t empty = 0xffffffff;

  bool equals(uint32_t id, uint32_t base, uint32_t group) const {
    for (size_t w = 0; w < words; ++w) {
      uint64_t expected = bits[base * words + w];
      if (w == group / 64)
        expected |= uint64_t(1) << (group % 64);
      if (bits[id * words + w] != expected)
        return false;
    }
    return true;
  }

  void grow() {
    slots.assign(slots.size() * 2, empty);
    for (uint32_t id = 0; id < size(); ++id) {
      size_t slot = hashes[id] & (slots.size() - 1);
      while (slots[slot] != empty)
        slot = (slot + 1) & (slots.size() - 1);
      slots[slot] = id;
    }
  }

  size_t words;
  std::vector<uint64_t> bits;
  std::vector<uint64_t> hashes;
  std::vector<uint32_t> slots;
};

} // namespace

std::optional<Lattice> Lattice::all(const GroupGraph &graph, bool reversed,
                                    size_t limit) {
  constexpr size_t mostBytes = size_t(512) << 20;
  size_t n = graph.groups.size();
  auto needs = [&](uint32_t group) -> const std::vector<uint32_t> & {
    return reversed ? graph.groups[group].after : graph.groups[group].before;
  };
  auto frees = [&](uint32_t group) -> const std::vector<uint32_t> & {
    return reversed ? graph.groups[group].before : graph.groups[group].after;
  };
  std::vector<uint64_t> code(n);
  for (size_t g = 0; g < n; ++g)
    code[g] = spread(g + 1);

  SetTable sets(n);
  sets.insertEmpty();
  // What can be added to each ideal, while it is not yet done.
  std::vector<std::vector<uint32_t>> addable(1);
  for (uint32_t g = 0; g < n; ++g)
    if (needs(g).empty())
      addable[0].push_back(g);
  struct Up {
    uint32_t from, group, to;
  };
  std::vector<Up> ups;
  for (uint32_t ideal = 0; ideal < sets.size(); ++ideal) {
    std::vector<uint32_t> next = std::move(addable[ideal]);
    for (uint32_t group : next) {
      auto [id, isNew] =
          sets.insert(ideal, group, sets.hash(ideal) ^ code[group]);
      ups.push_back({ideal, group, id});
      if (!isNew)
        continue;
      if (sets.size() > limit || sets.bytes() > mostBytes)
        return std::nullopt;
      std::vector<uint32_t> list;
      for (uint32_t other : next)
        if (other != group)
          list.push_back(other);
      const uint64_t *set = sets.set(id);
      for (uint32_t freed : frees(group))
        if (std::all_of(needs(freed).begin(), needs(freed).end(),
                        [&](uint32_t needed) {
                          return set[needed / 64] >> (needed % 64) & 1;
                        }))
          list.push_back(freed);
      addable.push_back(std::move(list));
    }
  }
  Lattice lattice;
  lattice.reversed = reversed;
  lattice.begin.assign(sets.size() + 1, 0);
  for (const Up &up : ups)
    ++lattice.begin[up.to + 1];
  for (size_t i = 0; i < sets.size(); ++i)
    lattice.begin[i + 1] += lattice.begin[i];
  lattice.steps.resize(ups.size());
  std::vector<size_t> next(lattice.begin.begin(), lattice.begin.end() - 1);
  for (const Up &up : ups)
    lattice.steps[next[up.to]++] = {up.group, up.from};
  return lattice;
}

Lattice Lattice::chain(const std::vector<uint32_t> &order, bool reversed) {
  Lattice lattice;
  lattice.reversed = reversed;
  lattice.begin = {0};
  for (size_t i = 0; i <= order.size(); ++i)
    lattice.begin.push_back(i);
  for (size_t i = 0; i < order.size(); ++i)
    lattice.steps.push_back({reversed ? order[order.size() - 1 - i] : order[i],
                             static_cast<uint32_t>(i)});
  return lattice;
}
