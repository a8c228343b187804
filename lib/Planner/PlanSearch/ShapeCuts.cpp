//===- ShapeCuts.cpp - The partitions of shapes ---------------------------===//
#include "ShapeCuts.h"
#include <limits>
#include <numeric>

using namespace pp::planner;

Result<Cut> ShapeCuts::find(const PlanShape &shape, Placement placement,
                            Objective objective,
                            const std::vector<int> &slots) {
  int microbatches = space.graphs[shape.graph].microbatches / shape.replicas;
  // With many devices, the links of each plan take too long.
  constexpr size_t mostLinked = 64;
  // Some seconds: there are many shapes.
  constexpr uint64_t mostSteps = 100'000'000;
  bool usesCluster =
      shape.isPlain() &&
      (!allAlike ||
       (linksDiffer && space.cluster->devices.size() <= mostLinked));
  Device device = space.cluster->devices.front();
  // A rank's memory is shared evenly.
  device.memoryBytes /= shape.stagesPerRank;
  Link link = {std::numeric_limits<double>::infinity(), 0};
  if (!usesCluster)
    // Replicas are placed alike, so the first one stands for all.
    link = space.cluster->slowestLink(
        static_cast<size_t>(shape.ranks) *
        (shape.pipelinesTogether ? 1 : shape.replicas));
  Key key = {shape.graph,
             shape.stages(),
             link.bandwidth,
             link.latency,
             objective,
             objective == Objective::FlushLatency ? microbatches : 0,
             slots.empty() ? 0 : device.memoryBytes,
             slots};
  auto found = solutions.find(key);
  if (found == solutions.end()) {
    Cluster alike;
    PartitionProblem problem;
    problem.graph = &space.graphs[shape.graph].graph;
    problem.cluster = space.cluster;
    if (!usesCluster) {
      // One device for each stage.
      alike.defaultLink = link;
      for (int stage = 0; stage < shape.stages(); ++stage) {
        alike.devices.push_back(device);
        alike.devices.back().name += "#" + std::to_string(stage);
      }
      problem.cluster = &alike;
    }
    problem.maxStages = shape.stages();
    problem.exactStageCount = true;
    problem.objective = objective;
    problem.microbatches = microbatches;
    problem.memory.parameterCopies = space.parameterCopies;
    problem.memory.inFlight = slots;
    problem.limitMemory = !slots.empty();
    problem.limits.steps = mostSteps;
    problem.limits.deadline = space.deadline;
    problem.limits.report = space.report;
    found = solutions.emplace(key, partitionGraph(problem)).first;
  }
  const Result<PartitionSolution> &solution = found->second;
  if (!solution)
    return Failure{solution.error()};
  Cut cut;
  cut.stageOf = solution->stageOf;
  cut.gap = solution->gap();
  cut.exact = solution->exact;
  cut.ideals = solution->ideals;
  cut.assumesAlikeLinks = linksDiffer && !usesCluster;
  for (int stage = 0; stage < shape.stages(); ++stage) {
    std::vector<size_t> &list = cut.devices.emplace_back();
    if (usesCluster) {
      list.push_back(solution->stages[stage].devices.front());
      continue;
    }
    int rank = stage % shape.ranks;
    if (placement == Placement::V && stage >= shape.ranks)
      rank = shape.stages() - 1 - stage;
    for (int replica = 0; replica < shape.replicas; ++replica)
      list.push_back(shape.pipelinesTogether
                         ? static_cast<size_t>(replica) * shape.ranks + rank
                         : static_cast<size_t>(rank) * shape.replicas +
                               replica);
  }
  return cut;
}

Result<Cut> ShapeCuts::findReplicated(size_t graph, int stages) {
  PartitionProblem problem;
  problem.graph = &space.graphs[graph].graph;
  problem.cluster = space.cluster;
  problem.maxStages = static_cast<size_t>(stages);
  problem.exactStageCount = true;
  problem.replicate = true;
  problem.useAllDevices = true;
  problem.microbatches = space.graphs[graph].microbatches;
  problem.memory.parameterCopies = space.parameterCopies;
  // A second: there are other plans.
  problem.limits.steps = 20'000'000;
  problem.limits.deadline = space.deadline;
  problem.limits.report = space.report;
  Result<PartitionSolution> solution = partitionGraph(problem);
  if (!solution)
    return Failure{solution.error()};
  Cut cut;
  cut.stageOf = solution->stageOf;
  cut.gap = solution->gap();
  cut.exact = solution->exact;
  // The order of the runtime's ranks.
  size_t next = 0;
  for (const PlannedStage &stage : solution->stages) {
    std::vector<size_t> &list = cut.devices.emplace_back(stage.devices.size());
    std::iota(list.begin(), list.end(), next);
    next += list.size();
  }
  return cut;
}
