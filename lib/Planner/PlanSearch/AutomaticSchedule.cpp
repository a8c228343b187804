//===- AutomaticSchedule.cpp - Search the order of a plan -----------------===//
#include "AutomaticSchedule.h"
#include "pp/Planner/Schedule/Search.h"
#include <algorithm>

using namespace pp::planner;

/// What is simulated, in actions: a second or two.
static constexpr int64_t mostSimulatedActions = 4'000'000;

Result<AutomaticSchedule>
pp::planner::searchAutomatically(const PlanDraft &draft,
                                 PipelineShape pipeline) {
  SearchProblem problem;
  problem.shape = pipeline;
  problem.rankOfStage = draft.schedule.rankOfStage;
  problem.channels = crossingChannels(*draft.graph, draft.stageOf, true);
  std::vector<StageLoad> loads = stageLoads(draft);
  std::vector<int64_t> fixed(draft.schedule.ranks.size(), 0);
  for (size_t stage = 0; stage < loads.size(); ++stage) {
    problem.times.stages.push_back(loads[stage].times);
    // The runtime frees a residual when W has run.
    problem.forwardBytes.push_back(loads[stage].savedBytes);
    problem.weightBytes.push_back(loads[stage].savedBytes);
    fixed[draft.schedule.rankOfStage[stage]] +=
        static_cast<int64_t>(draft.parameterCopies *
                             static_cast<double>(loads[stage].parameterBytes)) +
        loads[stage].preparedBytes + loads[stage].workspaceBytes;
  }
  problem.times.transfers = channelTimes(draft, problem.channels);
  std::vector<int64_t> memory(fixed.size(), INT64_MAX);
  for (size_t stage = 0; stage < loads.size(); ++stage)
    for (size_t device : draft.devices[stage]) {
      int rank = draft.schedule.rankOfStage[stage];
      memory[rank] =
          std::min(memory[rank], draft.cluster->devices[device].memoryBytes);
    }
  for (size_t rank = 0; rank < fixed.size(); ++rank)
    problem.capacity.push_back(
        std::max<int64_t>(0, memory[rank] - fixed[rank]));
  int64_t actions = int64_t(3) * pipeline.stages * pipeline.microbatches;
  problem.simulations = static_cast<int>(
      std::clamp<int64_t>(mostSimulatedActions / actions, 100, 20000));
  auto found = searchSchedule(problem);
  if (!found)
    return Failure{found.error()};
  return AutomaticSchedule{found->schedule, "auto (" + found->origin + ")"};
}
