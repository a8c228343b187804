//===- Recompute.cpp - Run forward passes again ---------------------------===//
#include "pp/Planner/Schedule/Recompute.h"

using namespace pp::planner;

void pp::planner::insertRecompute(Schedule &schedule, CheckpointMode mode) {
  int stop = mode == CheckpointMode::Always       ? schedule.microbatches
             : mode == CheckpointMode::ExceptLast ? schedule.microbatches - 1
                                                  : 0;
  for (std::vector<Action> &rank : schedule.ranks) {
    std::vector<Action> actions;
    for (const Action &action : rank) {
      if (action.performs(Phase::BackwardInput) && action.microbatch < stop) {
        actions.push_back(
            {ActionKind::Recompute, action.stage, action.microbatch});
        // Without a flush, with the weights of the backward pass.
        actions.back().lag = action.lag;
        actions.back().version = action.version;
      }
      actions.push_back(action);
    }
    rank = std::move(actions);
  }
}
