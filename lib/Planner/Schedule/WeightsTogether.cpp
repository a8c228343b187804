//===- WeightsTogether.cpp - W for several micro-batches ------------------===//
#include "pp/Planner/Schedule/WeightsTogether.h"
#include <algorithm>

using namespace pp::planner;

void pp::planner::joinWeights(Schedule &schedule, int together) {
  if (together < 2)
    return;
  auto hasWeight = [](const Action &action) {
    return action.performs(Phase::BackwardWeight);
  };
  for (std::vector<Action> &rank : schedule.ranks) {
    std::vector<int> left(schedule.stages, 0);
    for (const Action &action : rank)
      if (hasWeight(action))
        ++left[action.stage];
    std::vector<std::vector<Action>> waiting(schedule.stages);
    std::vector<Action> actions;
    for (const Action &action : rank) {
      if (!hasWeight(action)) {
        actions.push_back(action);
        continue;
      }
      if (action.kind == ActionKind::Backward) {
        actions.push_back(action);
        actions.back().kind = ActionKind::BackwardInput;
      }
      std::vector<Action> &own = waiting[action.stage];
      own.push_back(action);
      own.back().kind = ActionKind::BackwardWeight;
      if (--left[action.stage] == 0 ||
          own.size() == static_cast<size_t>(together)) {
        actions.insert(actions.end(), own.begin(), own.end());
        own.clear();
      }
    }
    rank = std::move(actions);
  }
}
