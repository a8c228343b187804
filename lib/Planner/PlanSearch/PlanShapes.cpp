//===- PlanShapes.cpp - The shapes that a plan may have -------------------===//
#include "PlanShapes.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

using namespace pp::planner;

bool pp::planner::areAlike(const Cluster &cluster, size_t count) {
  const Device &first = cluster.devices.front();
  return std::all_of(cluster.devices.begin(), cluster.devices.begin() + count,
                     [&](const Device &device) {
                       return device.kind == first.kind &&
                              device.speed == first.speed &&
                              device.memoryBytes == first.memoryBytes &&
                              device.communicates == first.communicates;
                     });
}

PlanShapes::PlanShapes(const PlanSpace &space)
    : space(space), devices(space.cluster->devices.size()) {
  for (const MicrobatchGraph &entry : space.graphs)
    work.push_back(workOf(entry.graph));
}

PlanShapes::GraphWork PlanShapes::workOf(const Graph &graph) const {
  GraphWork result;
  size_t n = graph.kernels.size();
  std::vector<double> forward(n), back(n), before(n, 0), after(n, 0);
  bool hasPasses = false;
  for (size_t k = 0; k < n; ++k) {
    const Kernel &kernel = graph.kernels[k];
    // Of each phase: another device may be faster for each.
    KernelTimes least;
    bool isFirst = true;
    for (const Device &device : space.cluster->devices) {
      KernelTimes times = timesOn(kernel, device);
      if (isFirst || times.forward < least.forward)
        least.forward = times.forward;
      if (isFirst || times.backwardInput < least.backwardInput)
        least.backwardInput = times.backwardInput;
      if (isFirst || times.backwardWeight < least.backwardWeight)
        least.backwardWeight = times.backwardWeight;
      isFirst = false;
    }
    forward[k] = least.forward;
    back[k] = space.training ? least.backwardInput : 0;
    result.total += least.total();
    result.isMeasured |= !kernel.measured.empty();
    hasPasses |= kernel.backward;
  }
  if (!result.isMeasured)
    result.total = graph.totalTime();
  if (hasPasses)
    return result;
  // From the first F to F of a kernel, from there to the end of its I.
  std::vector<std::vector<size_t>> values(n);
  for (size_t v = 0; v < graph.values.size(); ++v)
    values[graph.values[v].producer].push_back(v);
  for (size_t k = 0; k < n; ++k)
    for (size_t v : values[k])
      for (size_t consumer : graph.values[v].consumers)
        before[consumer] = std::max(before[consumer], before[k] + forward[k]);
  for (size_t k = n; k-- > 0;) {
    for (size_t v : values[k])
      if (graph.values[v].gradientBytes > 0)
        for (size_t consumer : graph.values[v].consumers)
          after[k] = std::max(after[k], after[consumer]);
    after[k] += forward[k] + back[k];
    result.path = std::max(result.path, before[k] + after[k]);
  }
  return result;
}

/// Seconds of all micro-batches if the fastest `used` devices always work.
double PlanShapes::workBound(size_t graph, size_t used) const {
  std::vector<double> speeds;
  for (const Device &device : space.cluster->devices)
    speeds.push_back(device.speed);
  std::sort(speeds.begin(), speeds.end(), std::greater<>());
  double capacity =
      work[graph].isMeasured
          ? static_cast<double>(used)
          : std::accumulate(speeds.begin(), speeds.begin() + used, 0.);
  return space.graphs[graph].microbatches * work[graph].total / capacity;
}

double PlanShapes::lowerBound() const {
  double best = 0;
  for (size_t graph = 0; graph < space.graphs.size(); ++graph) {
    double bound = workBound(graph, devices);
    if (best == 0 || bound < best)
      best = bound;
  }
  return best;
}

/// 1, 2, ... while few, then powers of two.
static std::vector<int> counts(int least, int most) {
  std::vector<int> result;
  for (int n = least; n <= most; n = n < 8 ? n + 1 : 2 * n)
    result.push_back(n);
  if (!result.empty() && result.back() != most)
    result.push_back(most);
  return result;
}

std::vector<int> PlanShapes::replicaCounts(int microbatches) const {
  std::vector<int> result;
  for (int n : counts(1, static_cast<int>(devices)))
    if (n == 1 || (space.replicate && microbatches % n == 0))
      result.push_back(n);
  return result;
}

std::vector<int> PlanShapes::rankCounts(int available) const {
  int most =
      space.maxRanks > 0 ? std::min(space.maxRanks, available) : available;
  return most < space.minRanks ? std::vector<int>()
                               : counts(space.minRanks, most);
}

std::vector<PlanShape> PlanShapes::list() const {
  std::vector<PlanShape> list;
  bool linksDiffer = space.cluster->slowestLink(devices) !=
                     space.cluster->fastestLink(devices);
  for (size_t graph = 0; graph < space.graphs.size(); ++graph)
    for (int replicas : replicaCounts(space.graphs[graph].microbatches))
      for (int ranks : rankCounts(static_cast<int>(devices) / replicas))
        for (int chunks = 1; chunks <= space.maxStagesPerRank; ++chunks) {
          if (ranks * replicas < space.minDevices)
            continue;
          PlanShape shape;
          shape.graph = graph;
          shape.replicas = replicas;
          shape.ranks = ranks;
          shape.stagesPerRank = chunks;
          double busy = workBound(graph, static_cast<size_t>(ranks) * replicas);
          // Steps of inference are on their way at the same time.
          shape.bound =
              space.training ? std::max(busy, work[graph].path) : busy;
          shape.estimate = busy * (1 + (ranks - 1.) * replicas /
                                           space.graphs[graph].microbatches);
          list.push_back(shape);
          shape.pipelinesTogether = linksDiffer && replicas > 1 && ranks > 1;
          if (shape.pipelinesTogether)
            list.push_back(shape);
        }
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(list[a].estimate, a) < std::tuple(list[b].estimate, b);
  });
  std::vector<PlanShape> sorted;
  for (size_t i : order)
    sorted.push_back(list[i]);
  return sorted;
}

bool PlanShapes::isTooLarge(const PlanShape &shape) const {
  double parameters = 0;
  for (const Kernel &kernel : space.graphs[shape.graph].graph.kernels)
    parameters += static_cast<double>(kernel.parameterBytes);
  std::vector<double> memory;
  for (const Device &device : space.cluster->devices)
    memory.push_back(static_cast<double>(device.memoryBytes));
  std::sort(memory.begin(), memory.end(), std::greater<>());
  return space.parameterCopies * parameters >
         std::accumulate(memory.begin(), memory.begin() + shape.ranks, 0.);
}

std::vector<ScheduleChoice>
PlanShapes::schedulesFor(const PlanShape &shape) const {
  std::vector<std::string> names = space.schedules;
  if (names.empty()) {
    for (std::string_view name : scheduleNames())
      names.emplace_back(name);
    names.push_back("auto");
  }
  std::vector<ScheduleChoice> result;
  for (const std::string &name : names) {
    if ((name == "inference") == space.training)
      continue;
    if (name == "auto") {
      if (shape.stagesPerRank == 1)
        result.push_back({name, Placement::OnePerRank});
      else if (shape.stagesPerRank == 2)
        result.push_back({name, Placement::V});
      continue;
    }
    Placement placement = *placementOf(name);
    if (shape.stagesPerRank == 1
            ? placement == Placement::OnePerRank
            : placement == Placement::Loop ||
                  (placement == Placement::V && shape.stagesPerRank == 2))
      result.push_back({name, placement});
  }
  return result;
}
