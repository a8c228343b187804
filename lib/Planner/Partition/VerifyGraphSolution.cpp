//===- VerifyGraphSolution.cpp - Is a partition what it claims to be? -----===//
#include "Evaluate.h"
#include "GroupGraph.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace pp::planner;
using namespace pp::planner::partition;

static bool isClose(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

static std::optional<std::string>
verifyShape(const PartitionProblem &problem,
            const PartitionSolution &solution) {
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  if (solution.stageOf.size() != kernels.size() ||
      solution.variantOf.size() != kernels.size())
    return "the solution does not have an entry for each kernel";
  if (solution.stages.empty())
    return "there are no stages";
  size_t most =
      problem.maxStages ? problem.maxStages : problem.cluster->devices.size();
  if (problem.cuts.empty() && solution.stages.size() > most)
    return "there are more than " + std::to_string(most) + " stages";
  if (problem.exactStageCount && solution.stages.size() != problem.maxStages)
    return "there are not " + std::to_string(problem.maxStages) + " stages";
  std::vector<std::vector<size_t>> kernelsOf(solution.stages.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    int stage = solution.stageOf[k], variant = solution.variantOf[k];
    if (stage < 0 || static_cast<size_t>(stage) >= solution.stages.size())
      return "kernel '" + kernels[k].name + "' is in no stage";
    if (variant < 0 ||
        static_cast<size_t>(variant) > kernels[k].variants.size())
      return "kernel '" + kernels[k].name + "' has no variant " +
             std::to_string(variant);
    int degree = variant ? kernels[k].variants[variant - 1].devices : 1;
    if (degree != solution.stages[stage].degree)
      return "kernel '" + kernels[k].name + "' runs on " +
             std::to_string(degree) + " devices, its stage on " +
             std::to_string(solution.stages[stage].degree) + " per replica";
    kernelsOf[stage].push_back(k);
  }
  for (size_t s = 0; s < solution.stages.size(); ++s) {
    if (kernelsOf[s].empty())
      return "stage " + std::to_string(s) + " has no kernels";
    if (kernelsOf[s] != solution.stages[s].kernels)
      return "stage " + std::to_string(s) +
             " does not list the kernels that are in it";
  }
  return std::nullopt;
}

static std::optional<std::string>
verifyDevices(const PartitionProblem &problem, const CostModel &model,
              const PartitionSolution &solution) {
  std::set<size_t> used;
  for (size_t s = 0; s < solution.stages.size(); ++s) {
    const PlannedStage &stage = solution.stages[s];
    std::string name = "stage " + std::to_string(s);
    if (stage.replicas < 1 || stage.degree < 1 ||
        !model.allows(stage.replicas) ||
        (!problem.replicate && stage.replicas != 1))
      return name + " has " + std::to_string(stage.replicas) + " replicas";
    if (stage.devices.size() !=
        static_cast<size_t>(stage.replicas) * stage.degree)
      return name + " has " + std::to_string(stage.devices.size()) + " devices";
    const DeviceClass *shared = nullptr;
    for (size_t device : stage.devices) {
      if (device >= problem.cluster->devices.size())
        return name + " runs on a device that does not exist";
      if (!used.insert(device).second)
        return "device '" + problem.cluster->devices[device].name +
               "' is used twice";
      for (const DeviceClass &candidate : model.classes)
        if (std::binary_search(candidate.members.begin(),
                               candidate.members.end(), device)) {
          if (shared && shared != &candidate)
            return name + " runs on devices of different classes";
          shared = &candidate;
        }
    }
  }
  if (problem.useAllDevices && used.size() != problem.cluster->devices.size())
    return "not all devices are used";
  return std::nullopt;
}

static std::optional<std::string>
verifyOrder(const PartitionProblem &problem,
            const PartitionSolution &solution) {
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  for (auto [before, after] : orderEdges(*problem.graph))
    if (solution.stageOf[before] > solution.stageOf[after])
      return "kernel '" + kernels[before].name +
             "' is in a later stage than '" + kernels[after].name +
             "', which comes after it";
  std::map<int, size_t> firstOfClass;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].stageHint && *kernels[k].stageHint != solution.stageOf[k])
      return "kernel '" + kernels[k].name + "' is not in the stage it wants";
    if (kernels[k].colocationClass < 0)
      continue;
    size_t first =
        firstOfClass.try_emplace(kernels[k].colocationClass, k).first->second;
    if (solution.stageOf[first] != solution.stageOf[k])
      return "kernels '" + kernels[first].name + "' and '" + kernels[k].name +
             "' must be in one stage";
  }
  size_t begin = 0;
  for (size_t i = 0; i < problem.cuts.size() + 1 && !problem.cuts.empty();
       ++i) {
    size_t end = i < problem.cuts.size() ? problem.cuts[i] : kernels.size();
    for (size_t k = begin; k < end; ++k)
      if (static_cast<size_t>(solution.stageOf[k]) != i)
        return "kernel '" + kernels[k].name + "' is not where the cuts put it";
    begin = end;
  }
  return std::nullopt;
}

std::optional<std::string>
pp::planner::verify(const PartitionProblem &problem,
                    const PartitionSolution &solution) {
  if (std::optional<std::string> fault = check(problem))
    return fault;
  if (std::optional<std::string> fault = verifyShape(problem, solution))
    return fault;
  CostModel model(problem);
  if (std::optional<std::string> fault =
          verifyDevices(problem, model, solution))
    return fault;
  if (std::optional<std::string> fault = verifyOrder(problem, solution))
    return fault;
  PartitionSolution fresh = solution;
  evaluate(model, fresh);
  for (size_t s = 0; s < fresh.stages.size(); ++s) {
    const PlannedStage &is = fresh.stages[s], &says = solution.stages[s];
    if (!isClose(is.computeTime, says.computeTime) ||
        !isClose(is.communicationTime, says.communicationTime) ||
        !isClose(is.syncTime, says.syncTime) ||
        !isClose(is.memoryBytes, says.memoryBytes) ||
        !isClose(is.cost, says.cost))
      return "the costs of stage " + std::to_string(s) + " are wrong";
    const Device &device = problem.cluster->devices[is.devices.front()];
    if (problem.limitMemory &&
        is.memoryBytes > static_cast<double>(device.memoryBytes))
      return "stage " + std::to_string(s) +
             " needs more memory than its devices have";
  }
  if (!isClose(fresh.value, solution.value))
    return "the value is not that of the stages";
  if (!(solution.lowerBound >= 0) ||
      (solution.lowerBound > solution.value &&
       !isClose(solution.lowerBound, solution.value)))
    return "the lower bound lies above the value";
  if (solution.exact && !isClose(solution.lowerBound, solution.value))
    return "the solution claims to be exact but leaves a gap";
  if (solution.exact && !problem.cuts.empty())
    return "cuts that were given are not the result of a search";
  return std::nullopt;
}
