//===- Preparation.cpp - Compute once what parameters alone decide --------===//
#include "pp/Planner/Schedule/Preparation.h"

using namespace pp::planner;

void pp::planner::insertPreparation(Schedule &schedule,
                                    const std::vector<bool> &prepares) {
  std::vector<bool> missing = prepares;
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank)
      if (action.kind == ActionKind::Prepare)
        missing[action.stage] = false;
  for (std::vector<Action> &rank : schedule.ranks) {
    std::vector<Action> actions;
    for (const Action &action : rank)
      if (missing[action.stage]) {
        actions.push_back({ActionKind::Prepare, action.stage});
        missing[action.stage] = false;
      }
    rank.insert(rank.begin(), actions.begin(), actions.end());
  }
}
