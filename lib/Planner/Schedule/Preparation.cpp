//===- Preparation.cpp - Compute once what parameters alone decide --------===//
#include "pp/Planner/Schedule/Preparation.h"

using namespace pp::planner;

/// Where one slot has all versions, each is prepared as soon as it is made:
/// what reads it next may be of any lag.
static void prepareUpdated(const Schedule &schedule, std::vector<Action> &rank,
                           const std::vector<bool> &prepares) {
  std::vector<Action> actions;
  for (size_t i = 0; i < rank.size(); ++i) {
    actions.push_back(rank[i]);
    const Action &action = rank[i];
    if (action.kind != ActionKind::Update || !prepares[action.stage] ||
        schedule.versions[action.stage] != 1)
      continue;
    Action prepare{ActionKind::Prepare, action.stage};
    prepare.lag = action.lag;
    prepare.version = action.version;
    actions.push_back(prepare);
  }
  rank = std::move(actions);
}

/// Each version is read by one micro-batch, of which F comes first.
static void prepareForward(std::vector<Action> &rank,
                           const std::vector<bool> &prepares) {
  std::vector<Action> actions;
  for (const Action &action : rank) {
    if (action.kind == ActionKind::Forward && prepares[action.stage]) {
      Action prepare{ActionKind::Prepare, action.stage};
      prepare.lag = action.lag;
      prepare.version = action.version;
      actions.push_back(prepare);
    }
    actions.push_back(action);
  }
  rank = std::move(actions);
}

void pp::planner::insertPreparation(Schedule &schedule,
                                    const std::vector<bool> &prepares) {
  std::vector<bool> missing = prepares;
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank)
      if (action.kind == ActionKind::Prepare)
        missing[action.stage] = false;
  for (std::vector<Action> &rank : schedule.ranks) {
    if (schedule.clockDistance ||
        (schedule.isRolling() && !schedule.replicas.empty())) {
      prepareForward(rank, missing);
      continue;
    }
    std::vector<Action> actions;
    for (const Action &action : rank)
      if (missing[action.stage]) {
        actions.push_back({ActionKind::Prepare, action.stage});
        // Without a flush, what the first action needs.
        actions.back().lag = action.lag;
        actions.back().version = action.version;
        missing[action.stage] = false;
      }
    rank.insert(rank.begin(), actions.begin(), actions.end());
    if (schedule.isRolling())
      prepareUpdated(schedule, rank, prepares);
  }
}
