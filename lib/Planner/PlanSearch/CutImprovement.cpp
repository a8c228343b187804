//===- CutImprovement.cpp - Move the cuts of plans ------------------------===//
#include "CutImprovement.h"
#include <set>

using namespace pp::planner;

/// What is simulated, in actions: a second or two.
static constexpr int64_t mostMovedActions = 1'500'000;

static void improve(const PlanSpace &space, PlanCandidate &candidate,
                    int64_t &budget) {
  constexpr int maxRounds = 20;
  int64_t actions = 0;
  for (const std::vector<Action> &rank : candidate.draft.schedule.ranks)
    actions += static_cast<int64_t>(rank.size());
  int64_t round = actions * candidate.draft.schedule.stages;
  for (int i = 0; i < maxRounds && !candidate.overflow && budget >= round;
       ++i) {
    budget -= round;
    const CutAlternative *best = nullptr;
    // A millionth is rounding.
    double limit = candidate.plan.predicted.step * (1 - 1e-6);
    std::vector<CutAlternative> alternatives =
        explainCuts(candidate, /*reach=*/2, limit);
    for (const CutAlternative &alternative : alternatives)
      if (!alternative.overflow &&
          alternative.step < (best ? best->step : limit))
        best = &alternative;
    if (!best)
      return;
    for (size_t kernel : best->kernels)
      candidate.draft.stageOf[kernel] = best->to;
    auto evaluation = evaluatePlan(candidate.draft);
    candidate.movedKernels += best->kernels.size();
    candidate.plan = makePlan(candidate.draft, *evaluation, space.batch,
                              candidate.plan.scheduleName);
  }
}

void pp::planner::improveCuts(const PlanSpace &space,
                              std::vector<PlanCandidate> &candidates) {
  std::set<std::string> schedules;
  int64_t budget = mostMovedActions;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (schedules.insert(candidates[i].plan.scheduleName).second ||
        i < space.refined)
      improve(space, candidates[i], budget);
}
