//===- MinMaxChain.cpp - Cut a sequence of weights evenly -----------------===//
#include "MinMaxChain.h"
#include <algorithm>
#include <limits>

namespace {

class Chain {
public:
  explicit Chain(const std::vector<double> &weights) : prefix(1, 0) {
    for (double weight : weights)
      prefix.push_back(prefix.back() + weight);
  }

  size_t size() const { return prefix.size() - 1; }
  double sum(size_t begin, size_t end) const {
    return prefix[end] - prefix[begin];
  }

  /// Can [begin, n) be cut into `parts` parts of at most `bound`?
  bool fits(size_t begin, size_t parts, double bound) const {
    for (; parts && begin < size(); --parts)
      begin = furthest(begin, bound);
    return begin == size();
  }

  /// The largest end with sum(begin, end) <= bound. Compares differences, as
  /// sum() does: adding the bound to the prefix would round differently.
  size_t furthest(size_t begin, double bound) const {
    auto end = std::partition_point(
        prefix.begin() + begin + 1, prefix.end(),
        [&](double value) { return value - prefix[begin] <= bound; });
    return end - prefix.begin() - 1;
  }

  /// The smallest begin with sum(begin, end) <= bound.
  size_t nearest(size_t end, double bound) const {
    auto begin = std::partition_point(
        prefix.begin(), prefix.begin() + end,
        [&](double value) { return prefix[end] - value > bound; });
    return begin - prefix.begin();
  }

private:
  std::vector<double> prefix;
};

} // namespace

std::vector<size_t>
pp::planner::partition::cutMinMax(const std::vector<double> &weights,
                                  size_t parts) {
  Chain chain(weights);
  size_t n = chain.size();
  // Part s is either the bottleneck of an optimal partition, then its smallest
  // end for which the rest fits under its sum is the answer; or it is not, then
  // it can end one kernel before that and the bottleneck comes later.
  double best = std::numeric_limits<double>::infinity();
  size_t begin = 0;
  for (size_t left = parts - 1; left > 0; --left) {
    size_t low = begin, high = n;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (chain.fits(middle, left, chain.sum(begin, middle)))
        high = middle;
      else
        low = middle + 1;
    }
    best = std::min(best, chain.sum(begin, low));
    begin = low > begin ? low - 1 : low;
  }
  best = std::min(best, chain.sum(begin, n));

  std::vector<size_t> boundaries(parts + 1);
  boundaries[parts] = n;
  for (size_t part = parts - 1; part > 0; --part)
    // Every part before needs a kernel.
    boundaries[part] =
        std::max(part, chain.nearest(boundaries[part + 1], best));
  return boundaries;
}
