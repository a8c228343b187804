//===- CheckGraphProblem.cpp - Which problems can be solved ---------------===//
#include "GroupGraph.h"
#include "IdealSearch.h"
#include <algorithm>
#include <cmath>
#include <map>

using namespace pp::planner;
using namespace pp::planner::partition;

static std::string count(size_t number, const std::string &noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

static std::optional<std::string>
checkNumbers(const PartitionProblem &problem) {
  size_t kernels = problem.graph->kernels.size();
  size_t devices = problem.cluster->devices.size();
  if (kernels == 0)
    return "the graph has no kernels";
  if (problem.exactStageCount) {
    if (problem.maxStages == 0)
      return "an exact number of stages is asked for, but not which";
    if (problem.maxStages > kernels)
      return count(problem.maxStages, "stage") +
             " need at least as many kernels; there are " +
             std::to_string(kernels);
    if (problem.maxStages > devices)
      return count(problem.maxStages, "stage") +
             " need as many devices; the cluster has " +
             std::to_string(devices);
  }
  if (problem.microbatches < 1)
    return "a mini-batch has at least 1 micro-batch, not " +
           std::to_string(problem.microbatches);
  for (double number :
       {problem.memory.parameterCopies, problem.memory.stashedCopies})
    if (!std::isfinite(number) || number < 0)
      return "the number of parameter copies is not 0 or more";
  for (int inFlight : problem.memory.inFlight)
    if (inFlight < 0)
      return "a number of micro-batches in flight is negative";
  if (problem.memory.rule == InFlightRule::Replicas &&
      !problem.memory.inFlight.empty())
    return "micro-batches in flight follow from the replicas: there is "
           "nothing to list";
  if (!std::isfinite(problem.allReduceFactor) || problem.allReduceFactor < 0)
    return "the factor of the all-reduce is not 0 or more";
  return std::nullopt;
}

static std::optional<std::string>
checkCombination(const PartitionProblem &problem, const CostModel &model) {
  if (problem.objective == Objective::Memory && problem.replicate)
    return "replication with the objective memory is not supported: it "
           "lowers no device's parameters";
  if (problem.objective == Objective::Memory && model.hasChoices)
    return "the choice of variants with the objective memory is not "
           "supported: use the objective time with a memory limit";
  if (problem.objective == Objective::PipeDream &&
      problem.communication != Communication::Added)
    return "the objective pipedream defines its own communication";
  if (!problem.replicate)
    return std::nullopt;
  // The all-reduce depends on the variant, not the time alone.
  for (const Kernel &kernel : problem.graph->kernels) {
    std::map<int, int64_t> parameters = {{1, kernel.parameterBytes}};
    for (const KernelVariant &variant : kernel.variants)
      if (parameters.try_emplace(variant.devices, variant.parameterBytes)
              .first->second != variant.parameterBytes)
        return "kernel '" + kernel.name + "' has variants on " +
               count(variant.devices, "device") +
               " with different parameters: with replication this is not "
               "supported";
  }
  return std::nullopt;
}

static std::optional<std::string> checkHints(const PartitionProblem &problem,
                                             const CostModel &model) {
  for (const Kernel &kernel : problem.graph->kernels) {
    if (!kernel.stageHint)
      continue;
    if (*kernel.stageHint < 0 ||
        static_cast<size_t>(*kernel.stageHint) >= model.maxStages)
      return "kernel '" + kernel.name + "' wants stage " +
             std::to_string(*kernel.stageHint) + ", but there are " +
             count(model.maxStages, "stage");
    bool countsMemory =
        problem.limitMemory || problem.objective == Objective::Memory;
    if (countsMemory && !problem.exactStageCount &&
        problem.memory.rule != InFlightRule::FromFirst)
      return "kernel '" + kernel.name +
             "' wants a stage, counted from the first, and memory is counted "
             "from the last: this needs an exact number of stages";
  }
  return std::nullopt;
}

/// A device with everything must not need more bytes than can be counted.
static std::optional<std::string> checkMemory(const CostModel &model) {
  if (model.mostMemory() < 9.2e18)
    return std::nullopt;
  return "all kernels in one stage need more than 9.2e18 bytes, the most that "
         "can be counted: there are too many copies of the parameters or "
         "micro-batches in flight, or sizes are too large";
}

/// Kernels that must stay together, as far as it matters.
static std::optional<std::string> checkGroups(const PartitionProblem &problem,
                                              const CostModel &model) {
  bool hasHints = false;
  for (const Kernel &kernel : problem.graph->kernels)
    hasHints |= kernel.stageHint.has_value();
  if (!hasHints && !problem.exactStageCount)
    return std::nullopt;
  Result<GroupGraph> graph = GroupGraph::build(model, GroupGraph::Simplify::No);
  if (!graph)
    return graph.error();
  if (problem.exactStageCount && graph->groups.size() < problem.maxStages)
    return count(problem.maxStages, "stage") +
           " cannot be made: kernels that must stay together leave " +
           count(graph->groups.size(), "group");
  return std::nullopt;
}

static std::optional<std::string> checkCuts(const PartitionProblem &problem) {
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  if (problem.replicate || problem.useAllDevices)
    return "cuts leave no choice of replicas or devices";
  size_t stages = problem.cuts.size() + 1;
  if (stages > problem.cluster->devices.size())
    return count(stages, "stage") + " need as many devices; the cluster has " +
           std::to_string(problem.cluster->devices.size());
  if (problem.maxStages &&
      (problem.exactStageCount ? stages != problem.maxStages
                               : stages > problem.maxStages))
    return count(problem.cuts.size(), "cut") + " make " +
           count(stages, "stage") + ", not " +
           std::to_string(problem.maxStages);
  size_t before = 0;
  for (size_t i = 0; i < problem.cuts.size(); ++i) {
    if (problem.cuts[i] <= before || problem.cuts[i] >= kernels.size())
      return "cut " + std::to_string(i) + " is at kernel " +
             std::to_string(problem.cuts[i]) +
             ": cuts must increase and lie between 1 and " +
             std::to_string(kernels.size() - 1);
    before = problem.cuts[i];
  }
  std::map<int, int> stageOfClass;
  int stage = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel &kernel = kernels[k];
    if (static_cast<size_t>(stage) < problem.cuts.size() &&
        problem.cuts[stage] == k)
      ++stage;
    if (kernel.backward)
      return "kernel '" + kernel.name +
             "' is of the backward pass: cuts of such graphs are not "
             "supported";
    if (kernel.stageHint && *kernel.stageHint != stage)
      return "kernel '" + kernel.name + "' wants stage " +
             std::to_string(*kernel.stageHint) + ", the cuts put it into " +
             std::to_string(stage);
    if (kernel.colocationClass >= 0 &&
        stageOfClass.try_emplace(kernel.colocationClass, stage).first->second !=
            stage)
      return "a cut before kernel '" + kernel.name +
             "' separates kernels that must be in one stage";
  }
  return std::nullopt;
}

std::optional<std::string> pp::planner::check(const PartitionProblem &problem) {
  if (!problem.graph || !problem.cluster)
    return "a partition needs a graph and a cluster";
  if (std::optional<std::string> fault = problem.graph->check())
    return fault;
  if (std::optional<std::string> fault = problem.cluster->check())
    return fault;
  if (std::optional<std::string> fault = checkNumbers(problem))
    return fault;
  if (!problem.cuts.empty())
    if (std::optional<std::string> fault = checkCuts(problem))
      return fault;
  CostModel model(problem);
  if (std::optional<std::string> fault = checkCombination(problem, model))
    return fault;
  if (std::optional<std::string> fault = checkMemory(model))
    return fault;
  if (std::optional<std::string> fault = checkHints(problem, model))
    return fault;
  if (std::optional<std::string> fault = checkGroups(problem, model))
    return fault;
  constexpr double mostStates = 1 << 22;
  if (countStates(model) > mostStates)
    return "the cluster has too many devices in too many classes: more than "
           "4,194,304 combinations";
  return std::nullopt;
}
