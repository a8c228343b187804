//===- ChainPartitioner.cpp - Cut a sequence of kernels into stages -------===//
#include "pp/Planner/Partition/ChainPartitioner.h"
#include "Constraints.h"
#include "MinMaxChain.h"
#include "StageCosts.h"
#include "WindowSearch.h"
#include <cmath>
#include <map>

using namespace pp::planner;

static std::string count(size_t number, const std::string &noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

/// What only partitionGraph understands.
static std::optional<std::string> checkSupport(const ChainProblem &problem) {
  if (problem.objective != Objective::Time &&
      problem.objective != Objective::Memory)
    return "a chain is cut for time or memory only";
  if (problem.memory.rule != InFlightRule::FromFirst ||
      problem.memory.stashedCopies != 0)
    return "in a chain, micro-batches in flight are counted from the first "
           "stage and stash no parameters";
  for (const Kernel &kernel : problem.graph->kernels)
    if (kernel.backward || !kernel.variants.empty() || !kernel.measured.empty())
      return "kernel '" + kernel.name +
             "' has variants, measured times or is of the backward pass: a "
             "chain has no such kernels";
  return std::nullopt;
}

static std::optional<std::string> checkHints(const ChainProblem &problem) {
  const Kernel *last = nullptr;
  for (const Kernel &kernel : problem.graph->kernels) {
    if (!kernel.stageHint)
      continue;
    if (*kernel.stageHint < 0 ||
        *kernel.stageHint >= static_cast<int64_t>(problem.stages))
      return "kernel '" + kernel.name + "' wants stage " +
             std::to_string(*kernel.stageHint) + ", but there are " +
             count(problem.stages, "stage");
    if (last && *kernel.stageHint < *last->stageHint)
      return "kernel '" + kernel.name + "' wants stage " +
             std::to_string(*kernel.stageHint) + ", but comes after '" +
             last->name + "', which wants stage " +
             std::to_string(*last->stageHint);
    last = &kernel;
  }
  return std::nullopt;
}

static std::optional<std::string> checkCuts(const ChainProblem &problem,
                                            const Constraints &constraints) {
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  if (problem.cuts.size() + 1 != problem.stages)
    return count(problem.cuts.size(), "cut") + " make " +
           count(problem.cuts.size() + 1, "stage") + ", not " +
           std::to_string(problem.stages);
  size_t before = 0;
  for (size_t stage = 1; stage < problem.stages; ++stage) {
    size_t cut = problem.cuts[stage - 1];
    if (cut <= before || cut >= kernels.size())
      return "cut " + std::to_string(stage - 1) + " is at kernel " +
             std::to_string(cut) +
             ": cuts must increase and lie between 1 "
             "and " +
             std::to_string(kernels.size() - 1);
    if (constraints.tearsClass(cut))
      return "the cut before kernel '" + kernels[cut].name +
             "' separates kernels that must be in one stage";
    if (!constraints.allows(stage, cut))
      return "the cut before kernel '" + kernels[cut].name +
             "' contradicts a stage that a kernel wants";
    before = cut;
  }
  return std::nullopt;
}

std::optional<std::string> pp::planner::check(const ChainProblem &problem) {
  if (!problem.graph || !problem.cluster)
    return "a partition needs a graph and a cluster";
  if (std::optional<std::string> fault = problem.graph->check())
    return fault;
  if (std::optional<std::string> fault = problem.cluster->check())
    return fault;
  if (std::optional<std::string> fault = checkSupport(problem))
    return fault;
  size_t n = problem.graph->kernels.size();
  if (n == 0)
    return "the graph has no kernels";
  if (problem.stages < 1)
    return "a pipeline needs at least 1 stage";
  if (problem.stages > n)
    return count(problem.stages, "stage") +
           " need at least as many kernels; "
           "there are " +
           std::to_string(n);
  if (problem.stages > problem.cluster->devices.size())
    return count(problem.stages, "stage") +
           " need as many devices; the "
           "cluster has " +
           std::to_string(problem.cluster->devices.size());
  if (!std::isfinite(problem.memory.parameterCopies) ||
      problem.memory.parameterCopies < 0)
    return "the number of parameter copies is not 0 or more";
  for (int inFlight : problem.memory.inFlight)
    if (inFlight < 0)
      return "a number of micro-batches in flight is negative";
  if (std::optional<std::string> fault = checkHints(problem))
    return fault;
  Constraints constraints(problem);
  if (constraints.groups() < problem.stages)
    return count(problem.stages, "stage") +
           " cannot be made: kernels that "
           "must stay together leave " +
           count(constraints.groups(), "group");
  if (!problem.cuts.empty())
    return checkCuts(problem, constraints);
  return std::nullopt;
}

/// The search fails for memory or because hints and classes collide.
static Failure explainFailure(const ChainProblem &problem,
                              const Constraints &constraints) {
  ChainProblem relaxed = problem;
  relaxed.limitMemory = false;
  relaxed.objective = Objective::Memory;
  StageCosts costs(relaxed);
  std::optional<std::vector<size_t>> boundaries =
      searchWindows(costs, constraints);
  if (!boundaries)
    return {"no cut into " + count(problem.stages, "stage") +
            " meets the stages that kernels want and the kernels that must "
            "stay together"};
  std::vector<StageSummary> stages = costs.summarize(*boundaries);
  for (size_t s = 0; s < stages.size(); ++s) {
    const Device &device = problem.cluster->devices[s];
    if (stages[s].memoryBytes > static_cast<double>(device.memoryBytes))
      return {"not enough memory: even where memory is balanced best, stage " +
              std::to_string(s) + " (kernels '" +
              problem.graph->kernels[stages[s].begin].name + "' to '" +
              problem.graph->kernels[stages[s].end - 1].name + "') needs " +
              std::to_string(std::llround(stages[s].memoryBytes)) +
              " bytes and device '" + device.name + "' has " +
              std::to_string(device.memoryBytes)};
  }
  return {"not enough memory: no cut into " + count(problem.stages, "stage") +
          " fits every device"};
}

static bool isMonotone(const ChainProblem &problem, const StageCosts &costs,
                       const Constraints &constraints) {
  if (problem.objective != Objective::Time || problem.limitMemory ||
      constraints.any())
    return false;
  for (double speed : costs.speed)
    if (speed != costs.speed.front())
      return false;
  if (problem.communication == Communication::Ignored)
    return true;
  for (double transfer : costs.transfer)
    if (transfer > 0)
      return false;
  return true;
}

Result<ChainSolution> pp::planner::partitionChain(const ChainProblem &problem) {
  if (std::optional<std::string> fault = check(problem))
    return Failure{*fault};
  StageCosts costs(problem);
  Constraints constraints(problem);
  size_t n = problem.graph->kernels.size();
  std::vector<size_t> boundaries;
  ChainSolution solution;
  solution.optimalForOrder = problem.cuts.empty();
  if (!problem.cuts.empty()) {
    boundaries = {0};
    boundaries.insert(boundaries.end(), problem.cuts.begin(),
                      problem.cuts.end());
    boundaries.push_back(n);
  } else if (isMonotone(problem, costs, constraints)) {
    std::vector<double> weights;
    for (const Kernel &kernel : problem.graph->kernels)
      weights.push_back(kernel.time());
    boundaries = cutMinMax(weights, problem.stages);
  } else {
    std::optional<std::vector<size_t>> found =
        searchWindows(costs, constraints);
    if (!found)
      return explainFailure(problem, constraints);
    boundaries = std::move(*found);
  }
  solution.stages = costs.summarize(boundaries);
  solution.lowerBound = costs.lowerBound();
  for (size_t s = 0; s < solution.stages.size(); ++s) {
    const StageSummary &stage = solution.stages[s];
    if (!costs.fits(s, stage.memoryBytes))
      return Failure{"stage " + std::to_string(s) + " needs " +
                     std::to_string(std::llround(stage.memoryBytes)) +
                     " bytes; device '" + problem.cluster->devices[s].name +
                     "' has " +
                     std::to_string(problem.cluster->devices[s].memoryBytes)};
    solution.value = std::max(solution.value, stage.cost);
    solution.stageOf.insert(solution.stageOf.end(), stage.end - stage.begin,
                            static_cast<int>(s));
  }
  return solution;
}

std::optional<std::string> pp::planner::verify(const ChainProblem &problem,
                                               const ChainSolution &solution) {
  if (std::optional<std::string> fault = check(problem))
    return fault;
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  if (solution.stageOf.size() != kernels.size())
    return "the solution has " + count(solution.stageOf.size(), "kernel") +
           ", the graph " + std::to_string(kernels.size());
  std::vector<size_t> boundaries = {0};
  for (size_t i = 0; i < kernels.size(); ++i) {
    int stage = solution.stageOf[i];
    int before = i ? solution.stageOf[i - 1] : 0;
    if (i == 0 && stage != 0)
      return "the first kernel is not in stage 0";
    if (stage != before && stage != before + 1)
      return "kernel '" + kernels[i].name + "' is in stage " +
             std::to_string(stage) + " after one in stage " +
             std::to_string(before);
    if (stage != before)
      boundaries.push_back(i);
    if (kernels[i].stageHint && *kernels[i].stageHint != stage)
      return "kernel '" + kernels[i].name + "' is in stage " +
             std::to_string(stage) + " and wants stage " +
             std::to_string(*kernels[i].stageHint);
  }
  std::map<int, size_t> firstOfClass;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].colocationClass < 0)
      continue;
    size_t first =
        firstOfClass.try_emplace(kernels[i].colocationClass, i).first->second;
    if (solution.stageOf[first] != solution.stageOf[i])
      return "kernels '" + kernels[first].name + "' and '" + kernels[i].name +
             "' must be in one stage";
  }
  boundaries.push_back(kernels.size());
  if (boundaries.size() - 1 != problem.stages)
    return "the solution has " + count(boundaries.size() - 1, "stage") +
           ", the problem " + std::to_string(problem.stages);
  StageCosts costs(problem);
  double value = 0;
  std::vector<StageSummary> stages = costs.summarize(boundaries);
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!costs.fits(s, stages[s].memoryBytes))
      return "stage " + std::to_string(s) + " does not fit its device";
    value = std::max(value, stages[s].cost);
  }
  if (std::abs(value - solution.value) > 1e-9 * value)
    return "the solution's value is " + std::to_string(solution.value) +
           ", its stages give " + std::to_string(value);
  if (solution.lowerBound > value * (1 + 1e-9))
    return "the solution's lower bound is above its value";
  return std::nullopt;
}
