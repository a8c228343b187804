//===- Evaluate.cpp - What a placement of kernels costs -------------------===//
#include "Evaluate.h"
#include "StageLinks.h"
#include <algorithm>
#include <set>

using namespace pp::planner;
using namespace pp::planner::partition;

std::vector<int>
pp::planner::partition::inFlightPerStage(const CostModel &model,
                                         const PartitionSolution &solution) {
  size_t count = solution.stages.size();
  const MemoryModel &memory = model.problem.memory;
  std::vector<int> result(count);
  int replicasFromHere = 0;
  for (size_t s = count; s-- > 0;) {
    int replicas = solution.stages[s].replicas;
    replicasFromHere += replicas;
    switch (memory.rule) {
    case InFlightRule::FromFirst:
      result[s] = memory.inFlightOf(s);
      break;
    case InFlightRule::FromLast:
      result[s] = memory.inFlightOf(count - 1 - s);
      break;
    case InFlightRule::Replicas:
      result[s] = (replicasFromHere + replicas - 1) / replicas;
      break;
    }
  }
  return result;
}

void pp::planner::partition::evaluate(const CostModel &model,
                                      PartitionSolution &solution) {
  const PartitionProblem &problem = model.problem;
  const Graph &graph = *problem.graph;
  size_t count = solution.stages.size();
  std::vector<Load> loads(count);
  std::vector<Surroundings> around(count);
  std::vector<const Device *> device(count);
  StageLinks links(*problem.cluster, solution);
  auto linkOf = [&](size_t from, size_t to) {
    return model.linksDiffer ? links.between(from, to) : model.link;
  };
  for (size_t s = 0; s < count; ++s) {
    device[s] = &problem.cluster->devices[solution.stages[s].devices.front()];
    around[s].first = s == 0;
  }
  for (size_t k = 0; k < graph.kernels.size(); ++k) {
    const Kernel &kernel = graph.kernels[k];
    size_t stage = solution.stageOf[k], v = solution.variantOf[k];
    Load load;
    load.time = kernel.timeOn(device[stage]->kind, device[stage]->speed, v);
    const KernelVariant *variant = v ? &kernel.variants[v - 1] : nullptr;
    load.parameterBytes = static_cast<double>(variant ? variant->parameterBytes
                                                      : kernel.parameterBytes);
    load.savedBytes =
        static_cast<double>(variant ? variant->savedBytes : kernel.savedBytes);
    load.workspaceBytes = static_cast<double>(variant ? variant->workspaceBytes
                                                      : kernel.workspaceBytes);
    loads[stage].add(load);
  }
  for (const Value &value : graph.values) {
    std::set<int> stages = {solution.stageOf[value.producer]};
    for (size_t consumer : value.consumers)
      stages.insert(solution.stageOf[consumer]);
    if (stages.size() < 2)
      continue;
    // The producer pays for its slowest reader, a reader for itself.
    int producer = solution.stageOf[value.producer];
    double slowest = 0;
    for (int stage : stages)
      if (stage != producer) {
        double time = model.transfer(value, linkOf(producer, stage),
                                     linkOf(stage, producer));
        around[stage].communication += time;
        slowest = std::max(slowest, time);
      }
    around[producer].communication += slowest;
    // Everything between the first and the last stage is crossed.
    for (int stage = *stages.begin(); stage < *stages.rbegin(); ++stage) {
      double time = model.crossing(value, linkOf(stage, stage + 1),
                                   linkOf(stage + 1, stage));
      around[stage].cutAfter += time;
      around[stage + 1].cutBefore += time;
    }
  }
  std::vector<int> inFlight = inFlightPerStage(model, solution);
  double largest = 0, sum = 0;
  for (size_t s = 0; s < count; ++s) {
    PlannedStage &stage = solution.stages[s];
    stage.memoryBytes = model.memory(loads[s], inFlight[s]);
    auto of =
        std::find_if(model.classes.begin(), model.classes.end(),
                     [&](const DeviceClass &candidate) {
                       return std::binary_search(candidate.members.begin(),
                                                 candidate.members.end(),
                                                 stage.devices.front());
                     });
    Mode mode = {static_cast<size_t>(of - model.classes.begin()), stage.degree,
                 stage.replicas};
    CostParts parts =
        model.cost(mode, stage.replicas, loads[s], around[s], linkOf(s, s));
    stage.computeTime = parts.compute;
    stage.communicationTime = parts.communication;
    stage.syncTime = parts.sync;
    stage.cost = problem.objective == Objective::Memory ? stage.memoryBytes
                                                        : parts.total;
    largest = std::max(largest, stage.cost);
    sum += stage.cost;
  }
  solution.value = model.value(largest, sum);
}
