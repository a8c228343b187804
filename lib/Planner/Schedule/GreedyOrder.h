//===- GreedyOrder.h - An order of F and I by list scheduling -------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_GREEDYORDER_H
#define PP_LIB_PLANNER_SCHEDULE_GREEDYORDER_H

#include "OrderDecoder.h"

namespace pp::planner {

struct GreedyRule {
  /// Per rank: the most micro-batches between F of its first stage and I.
  std::vector<int> inFlight;
  /// Of several stages of a rank, F of the last one first.
  bool deepFirst = true;
  /// F before I if both could run.
  bool forwardFirst = false;
  /// An F waits for an I that is ready within this part of its time: what is
  /// late on the way back is late on all ranks.
  double patience = 0;
  /// See DecodeRule.
  double overrun = 0;
};

/// Runs the pipeline event by event; a rank that is free takes what the rule
/// prefers among all that could start now. Never stuck, whatever the times, if
/// every rank has its leastCapacity: F of a stage leaves room for the later
/// stages of its rank, so that the oldest micro-batch can always go on.
/// O(actions (log actions + stages per rank)).
StageOrder greedyOrder(const PipelineModel &model, const GreedyRule &rule);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_GREEDYORDER_H
