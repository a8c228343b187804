//===- Heuristic.cpp - Good plans for graphs with too many ideals ---------===//
#include "Heuristic.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

using namespace pp::planner;
using namespace pp::planner::partition;

namespace {

using Order = std::vector<uint32_t>;

/// Takes the ready group with the smallest key first.
Order orderByKey(const GroupGraph &graph, const std::vector<double> &key) {
  size_t n = graph.groups.size();
  std::vector<size_t> missing(n);
  using Entry = std::pair<double, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t g = 0; g < n; ++g) {
    missing[g] = graph.groups[g].before.size();
    if (missing[g] == 0)
      ready.push({key[g], g});
  }
  Order order;
  while (!ready.empty()) {
    uint32_t group = ready.top().second;
    ready.pop();
    order.push_back(group);
    for (uint32_t next : graph.groups[group].after)
      if (--missing[next] == 0)
        ready.push({key[next], next});
  }
  return order;
}

/// Depth first: what was made last is read first. Forward it follows the first
/// branch to its end; backward (from the sinks) it finishes a branch before the
/// next one begins.
Order orderByDepth(const GroupGraph &graph, bool backward) {
  size_t n = graph.groups.size();
  std::vector<size_t> missing(n);
  Order stack, order;
  for (uint32_t g = 0; g < n; ++g) {
    const Group &group = graph.groups[g];
    missing[g] = backward ? group.after.size() : group.before.size();
    if (missing[g] == 0)
      stack.push_back(g);
  }
  if (!backward)
    std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    uint32_t group = stack.back();
    stack.pop_back();
    order.push_back(group);
    const std::vector<uint32_t> &next =
        backward ? graph.groups[group].before : graph.groups[group].after;
    for (size_t i = 0; i < next.size(); ++i) {
      uint32_t other = backward ? next[i] : next[next.size() - 1 - i];
      if (--missing[other] == 0)
        stack.push_back(other);
    }
  }
  if (backward)
    std::reverse(order.begin(), order.end());
  return order;
}

/// Takes the group after which the fewest seconds of values are open; among
/// equal ones the one that was ready last. Groups of earlier stages come first.
Order orderByCut(const GroupGraph &graph, const std::vector<int> &stageOf) {
  size_t n = graph.groups.size();
  std::vector<size_t> missing(n), readySince(n, 0);
  std::vector<uint32_t> inside(graph.nets.size(), 0), ready;
  for (uint32_t g = 0; g < n; ++g) {
    missing[g] = graph.groups[g].before.size();
    if (missing[g] == 0)
      ready.push_back(g);
  }
  auto change = [&](uint32_t g) {
    double sum = 0;
    for (uint32_t id : graph.groups[g].nets) {
      const Net &net = graph.nets[id];
      double size = net.transfer + net.crossing;
      if (inside[id] == 0)
        sum += size;
      if (inside[id] + 1 == net.pins.size())
        sum -= size;
    }
    return sum;
  };
  Order order;
  while (!ready.empty()) {
    size_t best = 0;
    auto bestKey = std::tuple(0, 0.0, size_t(0), uint32_t(0));
    for (size_t i = 0; i < ready.size(); ++i) {
      uint32_t g = ready[i];
      auto key = std::tuple(stageOf.empty() ? 0 : stageOf[g], change(g),
                            n - readySince[g], g);
      if (i == 0 || key < bestKey) {
        best = i;
        bestKey = key;
      }
    }
    uint32_t group = ready[best];
    ready.erase(ready.begin() + best);
    order.push_back(group);
    for (uint32_t id : graph.groups[group].nets)
      ++inside[id];
    for (uint32_t next : graph.groups[group].after)
      if (--missing[next] == 0) {
        readySince[next] = order.size();
        ready.push_back(next);
      }
  }
  return order;
}

} // namespace

std::vector<Order>
pp::planner::partition::topologicalOrders(const GroupGraph &graph) {
  size_t n = graph.groups.size();
  std::vector<double> index(n), level(n, 0), tail(n, 0), late(n);
  for (size_t g = 0; g < n; ++g) {
    index[g] = static_cast<double>(g);
    for (uint32_t before : graph.groups[g].before)
      level[g] = std::max(level[g], level[before] + 1);
  }
  for (size_t g = n; g-- > 0;) {
    for (uint32_t after : graph.groups[g].after)
      tail[g] = std::max(tail[g], tail[after]);
    tail[g] += graph.groups[g].weight;
    late[g] = -tail[g];
  }
  std::vector<Order> orders = {
      orderByKey(graph, index), orderByDepth(graph, false),
      orderByDepth(graph, true), orderByKey(graph, level),
      orderByKey(graph, late)};
  // Quadratic in the width.
  if (n <= 20000)
    orders.push_back(orderByCut(graph, {}));
  return orders;
}

/// A plan for the groups of `merged` as one for those of `graph`.
static void unmerge(Plan &plan, const GroupGraph &merged,
                    const GroupGraph &graph) {
  std::vector<uint32_t> groupOf; // By kernel; none for those without cost.
  for (const Group &group : graph.groups)
    groupOf.resize(std::max(groupOf.size(), group.kernels.back() + 1));
  for (uint32_t g = 0; g < graph.groups.size(); ++g)
    for (size_t kernel : graph.groups[g].kernels)
      groupOf[kernel] = g;
  for (StagePlan &stage : plan.stages) {
    std::vector<uint32_t> groups;
    for (uint32_t group : stage.groups)
      for (size_t kernel : merged.groups[group].kernels)
        groups.push_back(groupOf[kernel]);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    stage.groups = std::move(groups);
  }
}

namespace {

class Improver {
public:
  Improver(const CostModel &model, const VariantChooser &chooser,
           const GroupGraph &graph, bool reversed, bool exactCounts,
           SearchBudget &budget)
      : model(model), chooser(chooser), graph(graph), reversed(reversed),
        exactCounts(exactCounts), budget(budget) {}

  std::optional<Plan> best;

  bool tryOrder(const Order &order) {
    return accept(search(graph, Lattice::chain(order, reversed)));
  }

  std::vector<int> stages() const {
    std::vector<int> stageOf(graph.groups.size());
    for (size_t s = 0; s < best->stages.size(); ++s)
      for (uint32_t g : best->stages[s].groups)
        stageOf[g] = static_cast<int>(s);
    return stageOf;
  }

  /// Keeps groups within `radius` dependencies of the borders from stage
  /// `first` to stage `last` apart, merges all others of a stage, and solves
  /// what remains. Nothing if it has too many ideals.
  std::optional<bool> tryAround(int first, int last, int radius) {
    std::vector<int> stageOf = stages();
    size_t n = graph.groups.size();
    // Dependencies to the nearest group of another stage, each way.
    std::vector<int> ahead(n, radius + 1), behind(n, radius + 1);
    for (size_t g = 0; g < n; ++g)
      for (uint32_t before : graph.groups[g].before)
        behind[g] = std::min(
            behind[g], stageOf[before] < stageOf[g] ? 1 : behind[before] + 1);
    for (size_t g = n; g-- > 0;)
      for (uint32_t after : graph.groups[g].after)
        ahead[g] = std::min(ahead[g],
                            stageOf[after] > stageOf[g] ? 1 : ahead[after] + 1);
    std::vector<size_t> labels(n);
    for (size_t g = 0; g < n; ++g) {
      int stage = stageOf[g];
      bool apart = (ahead[g] <= radius && stage >= first && stage < last) ||
                   (behind[g] <= radius && stage > first && stage <= last);
      labels[g] = apart ? best->stages.size() + g : stage;
    }
    GroupGraph merged = graph.merge(model, labels);
    std::optional<Lattice> lattice = Lattice::all(merged, reversed, mostIdeals);
    if (!lattice)
      return std::nullopt;
    std::optional<Plan> plan = search(merged, *lattice);
    if (!plan)
      return false;
    unmerge(*plan, merged, graph);
    return accept(std::move(plan));
  }

private:
  static constexpr size_t mostIdeals = 6000;

  std::optional<Plan> search(const GroupGraph &over, const Lattice &lattice) {
    IdealSearch search(model, chooser, over, lattice, budget);
    return best ? search.run(exactCounts, best->value)
                : search.run(exactCounts);
  }

  bool accept(std::optional<Plan> plan) {
    if (!plan || (best && plan->value >= best->value * (1 - 1e-7)))
      return false;
    best = std::move(plan);
    budget.progress.value = best->value;
    return true;
  }

  const CostModel &model;
  const VariantChooser &chooser;
  const GroupGraph &graph;
  bool reversed, exactCounts;
  SearchBudget &budget;
};

} // namespace

std::optional<Plan> pp::planner::partition::searchHeuristically(
    const CostModel &model, const VariantChooser &chooser,
    const GroupGraph &graph, bool reversed, bool exactCounts, int rounds,
    SearchBudget &budget) {
  Improver improver(model, chooser, graph, reversed, exactCounts, budget);
  budget.progress.done = budget.progress.ideals = 0;
  for (const Order &order : topologicalOrders(graph)) {
    if (budget.isOut())
      break;
    improver.tryOrder(order);
  }
  if (!improver.best || graph.groups.size() > 20000)
    return std::move(improver.best);
  for (int round = 0; round < rounds && !budget.isOut(); ++round) {
    bool changed = improver.tryOrder(orderByCut(graph, improver.stages()));
    int last = static_cast<int>(improver.best->stages.size()) - 1;
    // Around all borders, then two and one at a time, as far as ideals allow.
    for (int width : {last, 2, 1})
      for (int first = 0; first < last && width <= last; ++first) {
        // A better plan may have fewer stages.
        last = static_cast<int>(improver.best->stages.size()) - 1;
        if (first + width > last || budget.isOut())
          break;
        for (int radius : {32, 16, 8, 5, 4, 3, 2, 1}) {
          std::optional<bool> better =
              improver.tryAround(first, first + width, radius);
          if (!better)
            continue;
          changed |= *better;
          break;
        }
      }
    if (!changed)
      break;
  }
  return std::move(improver.best);
}

std::optional<Plan> pp::planner::partition::searchCoarsely(
    const CostModel &model, const VariantChooser &chooser,
    const GroupGraph &graph, bool reversed, bool exactCounts) {
  constexpr size_t mostSets = 32;
  PartitionLimits limits;
  limits.steps = 5'000'000;
  size_t n = graph.groups.size();
  std::vector<size_t> labels(n);
  double done = 0;
  for (size_t g = 0; g < n; ++g) {
    double share = graph.totalWeight > 0 && std::isfinite(graph.totalWeight)
                       ? done / graph.totalWeight
                       : static_cast<double>(g) / static_cast<double>(n);
    labels[g] = std::min(static_cast<size_t>(share * mostSets), mostSets - 1);
    done += graph.groups[g].weight;
  }
  GroupGraph merged = n <= mostSets ? graph : graph.merge(model, labels);
  Order order(merged.groups.size());
  std::iota(order.begin(), order.end(), 0);
  SearchBudget budget(limits);
  Lattice lattice = Lattice::chain(order, reversed);
  IdealSearch search(model, chooser, merged, lattice, budget);
  std::optional<Plan> plan = search.run(exactCounts);
  if (plan)
    unmerge(*plan, merged, graph);
  return plan;
}
