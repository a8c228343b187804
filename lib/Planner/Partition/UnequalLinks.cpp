//===- UnequalLinks.cpp - Partitions where some links are faster ----------===//
#include "UnequalLinks.h"
#include "Evaluate.h"
#include "PlacedChain.h"
#include "pp/Planner/Partition/HierarchicalPartitioner.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace pp::planner;
using namespace pp::planner::partition;

namespace {

/// Of different links and of groups that are not alike.
constexpr size_t mostTries = 16;
/// partitionHierarchically takes the cube of this.
constexpr size_t mostGroups = 96;

Link worst(const Link &a, const Link &b) {
  return {std::min(a.bandwidth, b.bandwidth), std::max(a.latency, b.latency)};
}

/// The groups that hold a device, from the outside to the inside.
std::vector<size_t> pathOf(const Cluster &cluster, size_t device) {
  std::vector<size_t> path;
  for (std::optional<size_t> group = device < cluster.groupOf.size()
                                         ? cluster.groupOf[device]
                                         : std::nullopt;
       group; group = cluster.groups[*group].parent)
    path.push_back(*group);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Kernels as few as partitionHierarchically can take: neighbours in the
/// graph's order get one class. Nothing if that is not possible.
std::optional<Graph> coarsen(const Graph &graph) {
  size_t n = graph.kernels.size();
  if (n <= mostGroups)
    return graph;
  std::vector<size_t> root(n);
  std::iota(root.begin(), root.end(), 0);
  auto find = [&](size_t k) {
    while (root[k] != k)
      k = root[k] = root[root[k]];
    return k;
  };
  double total = 0, done = 0;
  for (const Kernel &kernel : graph.kernels)
    total += kernel.backward ? 0 : kernel.time();
  double step = total / mostGroups;
  std::map<int, size_t> firstOfClass;
  std::map<double, size_t> firstOfChunk;
  for (size_t k = 0; k < n; ++k) {
    const Kernel &kernel = graph.kernels[k];
    if (kernel.backward) {
      // It goes where the forward kernels of its class go.
      if (kernel.colocationClass < 0)
        return std::nullopt;
      root[find(k)] = find(
          firstOfClass.try_emplace(kernel.colocationClass, k).first->second);
      continue;
    }
    double chunk = step > 0 ? std::floor(done / step)
                            : std::floor(static_cast<double>(k * mostGroups) /
                                         static_cast<double>(n));
    done += kernel.time();
    root[find(k)] = find(firstOfChunk.try_emplace(chunk, k).first->second);
    if (kernel.colocationClass >= 0)
      root[find(k)] = find(
          firstOfClass.try_emplace(kernel.colocationClass, k).first->second);
  }
  Graph coarse = graph;
  for (size_t k = 0; k < n; ++k)
    coarse.kernels[k].colocationClass = static_cast<int>(find(k));
  return coarse;
}

class UnequalLinks {
public:
  explicit UnequalLinks(const PartitionProblem &problem)
      : problem(problem), cluster(*problem.cluster), model(problem) {}

  Result<PartitionSolution> run() {
    size_t count = cluster.devices.size();
    std::vector<size_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    Result<PartitionSolution> slowest = solve(all, model.link);
    Link fast = cluster.fastestLink(count);
    if (Result<PartitionSolution> fastest = solve(all, fast); fastest)
      lowerBound = fastest->lowerBound;
    else if (!slowest)
      return Failure{slowest.error()};
    std::vector<Link> tried = {model.link, fast};
    auto tryLink = [&](const Link &link) {
      if (tried.size() > mostTries ||
          std::find(tried.begin(), tried.end(), link) != tried.end())
        return;
      tried.push_back(link);
      (void)solve(all, link);
    };
    tryLink(cluster.defaultLink);
    for (const DeviceGroup &group : cluster.groups)
      tryLink(group.link);
    if (!problem.useAllDevices)
      tryGroups();
    if (!isOutOfTime())
      tryLevels();
    if (!isOutOfTime())
      tryChain();
    if (!best)
      return Failure{slowest.error()};
    best->stopped = stopped;
    best->exact = best->value <= lowerBound * (1 + 1e-9);
    best->lowerBound =
        best->exact ? best->value : std::min(lowerBound, best->value);
    return std::move(*best);
  }

private:
  bool isOutOfTime() const {
    return problem.limits.deadline &&
           std::chrono::steady_clock::now() >= *problem.limits.deadline;
  }

  /// The partition for these devices if all their links were `link`. It is
  /// judged by the links that they have.
  Result<PartitionSolution> solve(const std::vector<size_t> &devices,
                                  const Link &link) {
    Cluster alike;
    alike.defaultLink = link;
    for (size_t device : devices)
      alike.devices.push_back(cluster.devices[device]);
    PartitionProblem own = problem;
    own.cluster = &alike;
    // Half of what is left each time: there is more to try.
    if (own.limits.deadline) {
      auto now = std::chrono::steady_clock::now();
      if (*own.limits.deadline > now)
        own.limits.deadline = now + (*own.limits.deadline - now) / 2;
    }
    if (std::optional<std::string> fault = check(own))
      return Failure{*fault};
    Result<PartitionSolution> found = partitionAlike(own);
    if (!found)
      return found;
    if (found->stopped > stopped)
      stopped = found->stopped;
    PartitionSolution placed = *found;
    for (PlannedStage &stage : placed.stages)
      for (size_t &device : stage.devices)
        device = devices[device];
    offer(placed);
    alignStages(placed);
    return found;
  }

  void offer(PartitionSolution solution) {
    evaluate(model, solution);
    if (!best || solution.value < best->value * (1 - 1e-12))
      best = std::move(solution);
  }

  /// Stages that straddle two groups begin in the next one, while there are
  /// devices.
  void alignStages(const PartitionSolution &solution) {
    if (model.classes.size() != 1 || cluster.groups.empty())
      return;
    // Runs of devices in one innermost group.
    std::vector<size_t> order = treeOrder();
    size_t count = order.size(), needed = 0;
    std::vector<size_t> endOfRun(count);
    auto groupAt = [&](size_t i) {
      return order[i] < cluster.groupOf.size() ? cluster.groupOf[order[i]]
                                               : std::nullopt;
    };
    for (size_t i = count; i-- > 0;)
      endOfRun[i] = i + 1 < count && groupAt(i) == groupAt(i + 1)
                        ? endOfRun[i + 1]
                        : i + 1;
    for (const PlannedStage &stage : solution.stages)
      needed += stage.devices.size();
    PartitionSolution moved = solution;
    size_t at = 0;
    for (PlannedStage &stage : moved.stages) {
      size_t size = stage.devices.size(), end = endOfRun[at];
      if (at + size > end && end < count && end + needed <= count &&
          size <= endOfRun[end] - end)
        at = end;
      for (size_t i = 0; i < size; ++i)
        stage.devices[i] = order[at + i];
      at = std::min(at + size, count - 1);
      needed -= size;
    }
    offer(std::move(moved));
  }

  /// Devices such that those of each group follow each other.
  std::vector<size_t> treeOrder() const {
    std::vector<std::pair<std::vector<size_t>, size_t>> keyed;
    for (size_t d = 0; d < cluster.devices.size(); ++d)
      keyed.push_back({pathOf(cluster, d), d});
    std::sort(keyed.begin(), keyed.end());
    std::vector<size_t> order;
    for (const auto &[path, device] : keyed)
      order.push_back(device);
    return order;
  }

  void tryGroups() {
    size_t count = cluster.groups.size();
    std::vector<std::vector<size_t>> devices(count);
    std::vector<Link> slowest;
    for (const DeviceGroup &group : cluster.groups)
      slowest.push_back(group.link);
    for (size_t group = count; group-- > 0;)
      if (std::optional<size_t> parent = cluster.groups[group].parent)
        slowest[*parent] = worst(slowest[*parent], slowest[group]);
    for (size_t d = 0; d < cluster.devices.size(); ++d)
      for (size_t group : pathOf(cluster, d))
        devices[group].push_back(d);
    // Groups of as many devices of each class with such links are alike.
    std::set<std::tuple<std::vector<size_t>, double, double>> tried;
    for (size_t group = 0; group < count && tried.size() < mostTries; ++group) {
      if (devices[group].empty() ||
          devices[group].size() == cluster.devices.size())
        continue;
      std::vector<size_t> ofClass;
      for (const DeviceClass &candidate : model.classes)
        ofClass.push_back(std::count_if(
            devices[group].begin(), devices[group].end(), [&](size_t device) {
              return std::binary_search(candidate.members.begin(),
                                        candidate.members.end(), device);
            }));
      if (tried
              .insert(
                  {ofClass, slowest[group].bandwidth, slowest[group].latency})
              .second)
        (void)solve(devices[group], slowest[group]);
    }
  }

  void tryLevels() {
    std::optional<std::vector<Cluster::Level>> levels = cluster.levels();
    if (!levels || levels->size() < 2 || !problem.replicate ||
        problem.limitMemory || problem.objective == Objective::Memory)
      return;
    double work = 0;
    for (const Cluster::Level &level : *levels)
      work += static_cast<double>(level.members) *
              static_cast<double>(level.members);
    std::optional<Graph> graph = coarsen(*problem.graph);
    if (!graph || work > 600)
      return;
    PartitionProblem own = problem;
    own.graph = &*graph;
    own.objective = Objective::PipeDream;
    own.communication = Communication::Added;
    Result<HierarchicalSolution> found = partitionHierarchically(own);
    if (!found)
      return;
    PartitionSolution flat;
    flat.method = "levels";
    flat.ideals = found->ideals;
    size_t n = graph->kernels.size();
    flat.stageOf.assign(n, 0);
    flat.variantOf.assign(n, 0);
    flatten(found->stages, levels->size() - 1, *levels, {0}, treeOrder(), flat);
    for (const PlannedStage &stage : flat.stages)
      if (!model.allows(stage.replicas))
        return;
    evaluate(model, flat);
    if (verifyLimits(flat))
      offer(std::move(flat));
  }

  void tryChain() {
    GroupGraph whole = *GroupGraph::build(model, GroupGraph::Simplify::No);
    std::vector<size_t> order = treeOrder();
    // Time and flushes are only estimated.
    double bound = best && problem.objective == Objective::PipeDream
                       ? best->value
                       : std::numeric_limits<double>::infinity();
    std::optional<PartitionSolution> found =
        placeChain(model, whole, order, bound);
    if (!found)
      return;
    PartitionSolution judged = *found;
    evaluate(model, judged);
    if (!verifyLimits(judged))
      return;
    offer(std::move(judged));
  }

  /// What the search for a chain does not look at.
  bool verifyLimits(const PartitionSolution &solution) const {
    size_t devices = 0;
    for (const PlannedStage &stage : solution.stages) {
      devices += stage.devices.size();
      const Device &device = cluster.devices[stage.devices.front()];
      if (problem.limitMemory &&
          stage.memoryBytes > static_cast<double>(device.memoryBytes))
        return false;
    }
    if (problem.useAllDevices && devices != cluster.devices.size())
      return false;
    return problem.exactStageCount ? solution.stages.size() == model.maxStages
                                   : solution.stages.size() <= model.maxStages;
  }

  /// Appends the stages of one pipeline, which runs in several units at once:
  /// those that begin at the devices `begins`.
  void flatten(const std::vector<HierarchicalStage> &stages, size_t level,
               const std::vector<Cluster::Level> &levels,
               const std::vector<size_t> &begins,
               const std::vector<size_t> &order, PartitionSolution &flat) {
    size_t size = 1, next = 0;
    for (size_t l = 0; l < level; ++l)
      size *= levels[l].members;
    for (const HierarchicalStage &stage : stages) {
      std::vector<size_t> own;
      for (size_t begin : begins)
        for (int r = 0; r < stage.replicas; ++r)
          own.push_back(begin + (next + r) * size);
      next += stage.replicas;
      if (!stage.inner.empty()) {
        flatten(stage.inner, level - 1, levels, own, order, flat);
        continue;
      }
      for (size_t kernel : stage.kernels)
        flat.stageOf[kernel] = static_cast<int>(flat.stages.size());
      PlannedStage &planned = flat.stages.emplace_back();
      planned.kernels = stage.kernels;
      planned.replicas = static_cast<int>(own.size());
      for (size_t device : own)
        planned.devices.push_back(order[device]);
    }
  }

  const PartitionProblem &problem;
  const Cluster &cluster;
  CostModel model;
  double lowerBound = 0;
  SearchStop stopped = SearchStop::None;
  std::optional<PartitionSolution> best;
};

} // namespace

Result<PartitionSolution> pp::planner::partition::partitionOnUnequalLinks(
    const PartitionProblem &problem) {
  return UnequalLinks(problem).run();
}
