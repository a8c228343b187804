//===- SlowRanks.cpp - What if a rank were slower -------------------------===//
#include "pp/Planner/SlowRanks.h"

using namespace pp::planner;

Result<Simulation>
pp::planner::simulateSlowRanks(const PlanEvaluation &evaluation,
                               const std::vector<SlowRank> &slow) {
  SimulationInput input = evaluation.input;
  for (const SlowRank &entry : slow) {
    if (entry.rank >= evaluation.schedule.ranks.size())
      return Failure{"there is no rank " + std::to_string(entry.rank) +
                     ", only " +
                     std::to_string(evaluation.schedule.ranks.size())};
    if (!(entry.factor > 0))
      return Failure{"a rank cannot take " + std::to_string(entry.factor) +
                     " times as long"};
    for (size_t stage = 0; stage < input.stages.size(); ++stage) {
      if (evaluation.schedule.rankOfStage[stage] !=
          static_cast<int>(entry.rank))
        continue;
      StageTimes &times = input.stages[stage];
      for (double *time : {&times.forward, &times.backwardInput,
                           &times.backwardWeight, &times.recompute})
        *time *= entry.factor;
    }
  }
  return simulate(evaluation.schedule, input);
}
