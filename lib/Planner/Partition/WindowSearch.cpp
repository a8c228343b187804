//===- WindowSearch.cpp - Exact cuts when costs are not monotone ----------===//
#include "WindowSearch.h"
#include "MinMaxChain.h"
#include <cmath>
#include <limits>

using namespace pp::planner;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class Search {
public:
  Search(const StageCosts &costs, const Constraints &allowed)
      : costs(costs), allowed(allowed), graph(*costs.problem.graph),
        n(graph.kernels.size()), k(costs.problem.stages) {
    produced.resize(n);
    consumed.resize(n);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Value &value = graph.values[v];
      if (value.consumers.empty() || costs.transfer[v] == 0)
        continue;
      produced[value.producer].push_back(
          {costs.transfer[v], value.consumers.front(), value.consumers.back()});
      for (size_t c = 0; c < value.consumers.size(); ++c)
        consumed[value.consumers[c]].push_back(
            {costs.transfer[v],
             c + 1 < value.consumers.size() ? value.consumers[c + 1] : n});
    }
    weight.assign(n + 1, 0);
    for (size_t i = 0; i < n; ++i)
      weight[i + 1] = weight[i] + costs.weight(i);
  }

  std::optional<std::vector<size_t>> run() {
    // Sums are rounded; a bound must not exclude what equals it.
    constexpr double tolerance = 1 + 1e-9;
    double everything = weight[n] * tolerance;
    double least = costs.lowerBound();
    double slack = 1.0 / 64;
    double bound = guess();
    if (bound == infinity)
      bound = least;
    for (;;) {
      fill(bound * tolerance);
      double value = best(k, n);
      if (value <= bound * tolerance || bound >= everything)
        break;
      bound = least > 0 ? std::min({least * (1 + slack), value, everything})
                        : std::min(value, everything);
      slack *= 2;
    }
    if (best(k, n) == infinity)
      return std::nullopt;
    std::vector<size_t> boundaries(k + 1);
    boundaries[k] = n;
    for (size_t s = k; s > 0; --s)
      boundaries[s - 1] = from[s * (n + 1) + boundaries[s]];
    return boundaries;
  }

private:
  /// The cost of the cut that balances weights alone: often close, and a
  /// bound above the optimum needs one round only.
  double guess() const {
    std::vector<double> weights(n);
    for (size_t i = 0; i < n; ++i)
      weights[i] = weight[i + 1] - weight[i];
    std::vector<size_t> boundaries = cutMinMax(weights, k);
    for (size_t s = 1; s < k; ++s)
      if (!allowed.allows(s, boundaries[s]))
        return infinity;
    double value = 0;
    std::vector<StageSummary> stages = costs.summarize(boundaries);
    for (size_t s = 0; s < k; ++s) {
      if (!costs.fits(s, stages[s].memoryBytes))
        return infinity;
      value = std::max(value, stages[s].cost);
    }
    return value;
  }

  struct Produced {
    double transfer;
    size_t first, last; // Consumers.
  };
  struct Consumed {
    double transfer;
    size_t next; // The next consumer, n if none.
  };

  double &best(size_t stages, size_t end) {
    return table[stages * (n + 1) + end];
  }

  /// Fills the table from intervals of weight at most `bound`.
  void fill(double bound) {
    table.assign((k + 1) * (n + 1), infinity);
    from.assign((k + 1) * (n + 1), 0);
    best(0, 0) = 0;
    for (size_t j = 1; j <= n; ++j) {
      // Stage counts with which the prefix, and the rest, can stay below.
      size_t fewest = 1, most = std::min(k, j);
      if (bound > 0) {
        double needed = std::ceil(weight[j] / bound - 1e-6);
        double rest = std::ceil((weight[n] - weight[j]) / bound - 1e-6);
        fewest = std::max<double>(1, std::min<double>(needed, k + 1));
        if (rest > static_cast<double>(k))
          continue;
        most = std::min(most, k - static_cast<size_t>(std::max(rest, 0.0)));
      }
      if (n - j < k)
        fewest = std::max(fewest, k - (n - j));
      // The last stage ends at n and no other does.
      if (j == n)
        fewest = most = k;
      else
        most = std::min(most, k - 1);
      extend(j, fewest, most, bound);
    }
  }

  /// Ends a stage at `j`, beginning at each `i` in the window. The walk goes
  /// down so that a stage grows by one kernel at a time.
  void extend(size_t j, size_t fewest, size_t most, double bound) {
    double time = 0, parameters = 0, saved = 0, workspace = 0;
    double in = 0, out = 0;
    for (size_t i = j; i-- > 0;) {
      if (weight[j] - weight[i] > bound)
        return;
      const Kernel &kernel = graph.kernels[i];
      time += kernel.time();
      parameters += static_cast<double>(kernel.parameterBytes);
      saved += static_cast<double>(kernel.savedBytes);
      workspace =
          std::max(workspace, static_cast<double>(kernel.workspaceBytes));
      for (const Produced &value : produced[i]) {
        if (value.last >= j)
          out += value.transfer;
        if (value.first < j) // Its reader was here before it.
          in -= value.transfer;
      }
      for (const Consumed &value : consumed[i])
        if (value.next >= j) // Otherwise a later reader has counted it.
          in += value.transfer;
      for (size_t s = fewest; s <= most; ++s) {
        double before = best(s - 1, i);
        if (before == infinity || (i > 0 && !allowed.allows(s - 1, i)))
          continue;
        double memory = costs.memory(s - 1, parameters, saved, workspace);
        if (!costs.fits(s - 1, memory))
          continue;
        double value =
            std::max(before, costs.cost(s - 1, time, in + out, memory));
        if (value <= best(s, j)) {
          best(s, j) = value;
          from[s * (n + 1) + j] = i;
        }
      }
    }
  }

  const StageCosts &costs;
  const Constraints &allowed;
  const Graph &graph;
  size_t n, k;
  std::vector<std::vector<Produced>> produced;
  std::vector<std::vector<Consumed>> consumed;
  std::vector<double> weight; // Prefix sums.
  std::vector<double> table;
  std::vector<size_t> from;
};

} // namespace

std::optional<std::vector<size_t>>
pp::planner::searchWindows(const StageCosts &costs,
                           const Constraints &allowed) {
  return Search(costs, allowed).run();
}
