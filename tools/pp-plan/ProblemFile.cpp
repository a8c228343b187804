//===- ProblemFile.cpp - Planning problems as files -----------------------===//

#include "ProblemFile.h"
#include "TimeLimit.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/Problem.h"
#include "pp/Report/Format.h"
#include "pp/Report/Table.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include <set>

using namespace pp;
using namespace pp::planner;

/// The first and the last where there are many.
static std::string devicesOf(const PlannedStage &stage,
                             const Cluster &cluster) {
  std::string text = cluster.devices[stage.devices.front()].name;
  size_t count = stage.devices.size();
  if (count > 3)
    return text + " ... " + cluster.devices[stage.devices.back()].name;
  for (size_t i = 1; i < count; ++i)
    text += ", " + cluster.devices[stage.devices[i]].name;
  return text;
}

static std::string formatValue(Objective objective, double value) {
  return objective == Objective::Memory
             ? formatBytes(static_cast<int64_t>(value))
             : formatTime(value);
}

static void print(const PartitionProblem &problem,
                  const PartitionSolution &solution, llvm::raw_ostream &os) {
  os << problem.graph->kernels.size() << " kernels, "
     << problem.cluster->devices.size() << " devices\n";
  Table table({"stage", "kernels", "first", "last", "devices", "replicas",
               "degree", "compute", "communication", "sync", "memory", "cost"});
  for (size_t s = 0; s < solution.stages.size(); ++s) {
    const PlannedStage &stage = solution.stages[s];
    bool isEmpty = stage.kernels.empty();
    auto nameOf = [&](size_t kernel) {
      return problem.graph->kernels[kernel].name;
    };
    table.add({std::to_string(s), std::to_string(stage.kernels.size()),
               isEmpty ? "" : nameOf(stage.kernels.front()),
               isEmpty ? "" : nameOf(stage.kernels.back()),
               devicesOf(stage, *problem.cluster),
               std::to_string(stage.replicas), std::to_string(stage.degree),
               formatTime(stage.computeTime),
               formatTime(stage.communicationTime), formatTime(stage.syncTime),
               formatBytes(static_cast<int64_t>(stage.memoryBytes)),
               formatValue(problem.objective, stage.cost)});
  }
  table.print(os);
  os << "method " << solution.method << ", value "
     << formatValue(problem.objective, solution.value) << ", lower bound "
     << formatValue(problem.objective, solution.lowerBound) << ", gap "
     << llvm::formatv("{0:F2} %", 100 * solution.gap()) << ": "
     << (solution.exact ? "no partition of this problem is better"
                        : "not proven to be the best")
     << "\n";
  if (solution.stopped == SearchStop::Time)
    os << "the time limit ended the search: another run may find another "
          "partition; --time-limit gives it more\n";
  if (solution.stopped == SearchStop::Steps)
    os << "the limit of steps ended the search: $.limits.steps or --time-limit "
          "gives it more\n";
  size_t count = problem.cluster->devices.size();
  if (problem.cluster->slowestLink(count) !=
      problem.cluster->fastestLink(count))
    os << "the value is by the links between the devices that are used; the "
          "bound is with the fastest link everywhere\n";
}

llvm::Expected<std::string> pp::solveProblemFile(
    llvm::StringRef path,
    std::optional<std::chrono::steady_clock::time_point> deadline,
    uint64_t steps, llvm::raw_ostream &os, llvm::raw_ostream &notes) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  auto file = PlanningProblem::fromJson((*buffer)->getBuffer());
  if (!file)
    return makeError(exitInvalid, "'" + path + "': " + file.error());
  PartitionProblem problem = file->problem();
  problem.limits.deadline = deadline;
  if (problem.limits.steps == 0)
    problem.limits.steps = steps;
  problem.limits.report = makeProgressReport(problem.objective, notes);
  auto solution = partitionGraph(problem);
  if (!solution)
    return makeError(exitInvalid, "'" + path + "': " + solution.error());
  if (auto fault = verify(problem, *solution))
    return makeError(exitInternal, "'" + path + "': the answer is wrong: " +
                                       *fault + "; please report this");
  print(problem, *solution, os);
  return file->answerToJson(*solution);
}

std::string pp::problemToJson(const PlanSpace &space) {
  PlanningProblem problem;
  const MicrobatchGraph &entry = space.graphs.front();
  problem.graph = entry.graph;
  problem.cluster = *space.cluster;
  std::set<std::string> names;
  for (Kernel &kernel : problem.graph.kernels) {
    std::string name = kernel.name;
    for (int number = 2; !names.insert(kernel.name).second; ++number)
      kernel.name = name + "#" + std::to_string(number);
  }
  PartitionProblem &settings = problem.settings;
  settings.microbatches = entry.microbatches;
  size_t most = problem.cluster.devices.size();
  if (space.maxRanks > 0)
    most = std::min<size_t>(most, space.maxRanks);
  settings.maxStages = most;
  settings.memory.parameterCopies = space.parameterCopies;
  if (space.training) {
    settings.memory.rule = InFlightRule::FromLast;
    for (int i = 1; i <= std::min(static_cast<int>(most), entry.microbatches);
         ++i)
      settings.memory.inFlight.push_back(i);
  }
  return problem.toJson();
}
