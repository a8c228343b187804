//===- PlacedChain.cpp - A chain of stages on devices that are placed -----===//
#include "PlacedChain.h"
#include "../Infinity.h"
#include <algorithm>
#include <cmath>

using namespace pp::planner;
using namespace pp::planner::partition;

namespace {

class PlacedChain {
public:
  PlacedChain(const CostModel &model, const GroupGraph &graph,
              const std::vector<size_t> &devices)
      : model(model), cluster(*model.problem.cluster), graph(graph),
        devices(devices), sets(graph.groups.size()), width(devices.size() + 1) {
  }

  std::optional<PartitionSolution> run(double bound) {
    measure();
    size_t count = devices.size();
    best.assign((sets + 1) * width * width, infinity);
    from.assign(best.size(), {});
    best[cell(0, 0, 0)] = 0;
    for (size_t i = 0; i < sets; ++i)
      for (size_t end = i == 0 ? 0 : 1; end < (i == 0 ? 1 : count); ++end)
        for (size_t begin = 0; begin <= end; ++begin)
          if (best[cell(i, begin, end)] < bound)
            for (size_t next : {end, nextGroup(end)})
              extend(i, begin, end, next, bound);
    std::optional<std::pair<size_t, size_t>> last;
    for (size_t end = 1; end <= count; ++end)
      for (size_t begin = 0; begin < end; ++begin)
        if (best[cell(sets, begin, end)] < bound &&
            (!last || best[cell(sets, begin, end)] <
                          best[cell(sets, last->first, last->second)]))
          last = {begin, end};
    if (!last)
      return std::nullopt;
    return follow(last->first, last->second);
  }

private:
  struct From {
    uint32_t sets = 0, begin = 0, end = 0;
  };

  size_t cell(size_t i, size_t begin, size_t end) const {
    return (i * width + begin) * width + end;
  }

  void measure() {
    const Graph &kernels = *model.problem.graph;
    time.assign(sets + 1, 0);
    parameters.assign(sets + 1, 0);
    bytes.assign(sets + 1, 0);
    std::vector<size_t> setOf(kernels.kernels.size());
    for (size_t g = 0; g < sets; ++g) {
      const Load &load = graph.groups[g].fastest.front();
      time[g + 1] = time[g] + load.time;
      parameters[g + 1] = parameters[g] + load.parameterBytes;
      for (size_t kernel : graph.groups[g].kernels)
        setOf[kernel] = g;
    }
    for (const Value &value : kernels.values) {
      size_t first = setOf[value.producer], last = first;
      for (size_t consumer : value.consumers) {
        first = std::min(first, setOf[consumer]);
        last = std::max(last, setOf[consumer]);
      }
      for (size_t border = first + 1; border <= last; ++border)
        bytes[border] += static_cast<double>(value.bytes) +
                         static_cast<double>(value.gradientBytes);
    }
    size_t count = devices.size();
    groupEnd.assign(count + 1, count);
    for (size_t d = count; d-- > 0;)
      groupEnd[d] = d + 1 < count && groupOf(d) == groupOf(d + 1)
                        ? groupEnd[d + 1]
                        : d + 1;
  }

  std::optional<size_t> groupOf(size_t d) const {
    return devices[d] < cluster.groupOf.size() ? cluster.groupOf[devices[d]]
                                               : std::nullopt;
  }

  /// The first device of the next group, unless one begins here.
  size_t nextGroup(size_t at) const {
    bool begins = at == 0 || at >= devices.size() ||
                  groupOf(at - 1) != groupOf(at) ||
                  groupEnd[at] >= devices.size();
    return begins ? at : groupEnd[at];
  }

  /// The two ends of a range meet in the largest group.
  Link linkOf(size_t first, size_t last) const {
    return first == last ? cluster.defaultLink
                         : cluster.link(devices[first], devices[last]);
  }

  void extend(size_t i, size_t begin, size_t end, size_t next, double bound) {
    if (next != end && model.problem.useAllDevices)
      return;
    double before = best[cell(i, begin, end)];
    size_t most = model.problem.replicate ? devices.size() - next : 1;
    for (size_t m = 1; m <= most && next + m <= devices.size(); ++m) {
      if (!model.allows(static_cast<int>(m)))
        continue;
      Link among = linkOf(next, next + m - 1);
      Surroundings around;
      around.first = i == 0;
      double previous = 0;
      if (i > 0 && bytes[i] > 0) {
        Link cut = linkOf(begin, next + m - 1);
        double seconds = bytes[i] / cut.bandwidth;
        around.cutBefore = seconds;
        around.communication = seconds + 2 * cut.latency;
        // The first stage pays for nothing in PipeDreamForm::Code.
        if (model.problem.objective == Objective::PipeDream && begin > 0)
          previous = model.problem.form == PipeDreamForm::Code
                         ? seconds / static_cast<double>(end - begin)
                         : seconds;
      }
      for (size_t j = i + 1; j <= sets; ++j) {
        Load load;
        load.time = time[j] - time[i];
        load.parameterBytes = parameters[j] - parameters[i];
        double cost = model
                          .cost(model.modes.front(), static_cast<int>(m), load,
                                around, among)
                          .total;
        double value = std::max({before, previous, cost});
        if (value >= bound)
          break; // More sets cost more.
        size_t target = cell(j, next, next + m);
        if (value < best[target]) {
          best[target] = value;
          from[target] = {static_cast<uint32_t>(i),
                          static_cast<uint32_t>(begin),
                          static_cast<uint32_t>(end)};
        }
      }
    }
  }

  PartitionSolution follow(size_t begin, size_t end) const {
    PartitionSolution solution;
    solution.method = "levels";
    size_t at = sets;
    while (at > 0) {
      const From &step = from[cell(at, begin, end)];
      PlannedStage stage;
      for (size_t g = step.sets; g < at; ++g)
        stage.kernels.insert(stage.kernels.end(),
                             graph.groups[g].kernels.begin(),
                             graph.groups[g].kernels.end());
      std::sort(stage.kernels.begin(), stage.kernels.end());
      stage.replicas = static_cast<int>(end - begin);
      stage.devices.assign(devices.begin() + begin, devices.begin() + end);
      solution.stages.push_back(std::move(stage));
      at = step.sets;
      begin = step.begin;
      end = step.end;
    }
    std::reverse(solution.stages.begin(), solution.stages.end());
    size_t n = model.problem.graph->kernels.size();
    solution.stageOf.assign(n, 0);
    solution.variantOf.assign(n, 0);
    for (size_t s = 0; s < solution.stages.size(); ++s)
      for (size_t kernel : solution.stages[s].kernels)
        solution.stageOf[kernel] = static_cast<int>(s);
    return solution;
  }

  const CostModel &model;
  const Cluster &cluster;
  const GroupGraph &graph;
  const std::vector<size_t> &devices;
  size_t sets, width;
  /// Of the first 0, 1, ... sets; bytes over the border after them.
  std::vector<double> time, parameters, bytes;
  std::vector<size_t> groupEnd; // Where the group of a device ends.
  std::vector<double> best;
  std::vector<From> from;
};

} // namespace

std::optional<PartitionSolution> pp::planner::partition::placeChain(
    const CostModel &model, const GroupGraph &graph,
    const std::vector<size_t> &devices, double bound) {
  constexpr double most = 1e9;
  double count = static_cast<double>(devices.size());
  auto sets = static_cast<size_t>(
      std::min(64.0, std::sqrt(2 * most / (count * count * count))));
  if (model.classes.size() != 1 || model.modes.size() != 1 ||
      model.hasChoices || model.hasHints || sets < 8)
    return std::nullopt;
  size_t n = graph.groups.size();
  std::vector<size_t> labels(n);
  double done = 0;
  for (size_t g = 0; g < n; ++g) {
    double share = graph.totalWeight > 0
                       ? done / graph.totalWeight
                       : static_cast<double>(g) / static_cast<double>(n);
    labels[g] = std::min(static_cast<size_t>(share * static_cast<double>(sets)),
                         sets - 1);
    done += graph.groups[g].weight;
  }
  if (n <= sets)
    return PlacedChain(model, graph, devices).run(bound);
  GroupGraph merged = graph.merge(model, labels);
  return PlacedChain(model, merged, devices).run(bound);
}
