//===- StageCosts.cpp - What a stage costs --------------------------------===//
#include "StageCosts.h"
#include <limits>
#include <set>

using namespace pp::planner;

StageCosts::StageCosts(const ChainProblem &problem) : problem(problem) {
  Link link = problem.cluster->slowestLink(problem.stages);
  for (const Value &value : problem.graph->values) {
    double time = 0;
    for (int64_t bytes : {value.bytes, value.gradientBytes})
      if (bytes > 0)
        time += link.transferTime(bytes);
    transfer.push_back(time);
  }
  leastInFlight = std::numeric_limits<int>::max();
  for (size_t stage = 0; stage < problem.stages; ++stage) {
    speed.push_back(problem.cluster->devices[stage].speed);
    fastest = std::max(fastest, speed.back());
    totalSpeed += speed.back();
    leastInFlight = std::min(leastInFlight, problem.memory.inFlightOf(stage));
  }
}

double StageCosts::weight(size_t index) const {
  const Kernel &kernel = problem.graph->kernels[index];
  if (problem.objective == Objective::Time)
    return kernel.time() / fastest;
  return problem.memory.parameterCopies *
             static_cast<double>(kernel.parameterBytes) +
         leastInFlight * static_cast<double>(kernel.savedBytes);
}

double StageCosts::lowerBound() const {
  double total = 0, largest = 0;
  for (size_t i = 0; i < problem.graph->kernels.size(); ++i) {
    total += weight(i);
    largest = std::max(largest, weight(i));
  }
  double share = problem.objective == Objective::Time
                     ? total * fastest / totalSpeed
                     : total / static_cast<double>(problem.stages);
  return std::max(share, largest);
}

std::vector<StageSummary>
StageCosts::summarize(const std::vector<size_t> &boundaries) const {
  const Graph &graph = *problem.graph;
  size_t stages = boundaries.size() - 1;
  std::vector<StageSummary> result(stages);
  std::vector<size_t> stageOf(graph.kernels.size());
  for (size_t stage = 0; stage < stages; ++stage) {
    StageSummary &summary = result[stage];
    summary.begin = boundaries[stage];
    summary.end = boundaries[stage + 1];
    double time = 0, parameters = 0, saved = 0, workspace = 0;
    for (size_t i = summary.begin; i < summary.end; ++i) {
      const Kernel &kernel = graph.kernels[i];
      stageOf[i] = stage;
      time += kernel.time();
      parameters += static_cast<double>(kernel.parameterBytes);
      saved += static_cast<double>(kernel.savedBytes);
      workspace =
          std::max(workspace, static_cast<double>(kernel.workspaceBytes));
    }
    summary.computeTime = time / speed[stage];
    summary.memoryBytes = memory(stage, parameters, saved, workspace);
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value &value = graph.values[v];
    size_t home = stageOf[value.producer];
    std::set<size_t> readers;
    for (size_t consumer : value.consumers)
      if (stageOf[consumer] != home)
        readers.insert(stageOf[consumer]);
    if (!readers.empty())
      result[home].communicationTime += transfer[v];
    for (size_t reader : readers)
      result[reader].communicationTime += transfer[v];
  }
  for (size_t stage = 0; stage < stages; ++stage) {
    StageSummary &summary = result[stage];
    summary.cost = cost(stage, summary.computeTime * speed[stage],
                        summary.communicationTime, summary.memoryBytes);
  }
  return result;
}
