//===- OrderDecoder.h - Put weight gradients into an order of F and I -----===//
//
// The search works on orders of F and I only. A W delays nobody but its own
// rank, so where W stand follows: in the gaps in which a rank would wait, where
// memory must be freed, and at the end.
//
//===----------------------------------------------------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_ORDERDECODER_H
#define PP_LIB_PLANNER_SCHEDULE_ORDERDECODER_H

#include "PipelineModel.h"

namespace pp::planner {

/// An F, I or W of a stage; the k-th of them is that of micro-batch k.
struct StageAction {
  int stage = 0;
  Phase phase = Phase::Forward;
  bool operator==(const StageAction &) const = default;
};

/// One list per rank of a pipeline, without W if not said otherwise.
using StageOrder = std::vector<std::vector<StageAction>>;

/// The order of F and I in `schedule`, in which every stage must take its
/// micro-batches in order.
StageOrder orderOf(const Schedule &schedule);

struct TimedStageAction {
  StageAction action;
  int microbatch;
  double start, end;
};

struct DecodedOrder {
  /// False: the order has a circle, or exceeds the memory of a rank.
  bool feasible = false;
  double makespan = 0, span = 0;
  /// With W, without U.
  std::vector<std::vector<TimedStageAction>> ranks;
  std::vector<int64_t> peak; // Bytes, by rank.
  /// By rank, before the last F or I: the most I whose W had not run.
  std::vector<int> heldWeights;

  /// The order with W, for DecodeRule::listed.
  StageOrder order() const;
  std::vector<std::vector<Action>> actions(const PipelineModel &model) const;
};

struct DecodeRule {
  /// By which part of the time of a W the next F or I may be late because of
  /// it. 0: a W must fit into the gap. 1: no rank waits while it has a W.
  double overrun = 0;
  /// Per rank: the most I whose W has not run when the rank goes on. Empty: no
  /// limit.
  std::vector<int> heldWeights = {};
  /// The order has the W, and they stay where they are.
  bool listed = false;
};

/// Runs the order. Exact, since a rank decides only when it knows when its next
/// F or I could start, and independent of the order in which ranks are looked
/// at. O(actions).
DecodedOrder decodeOrder(const PipelineModel &model, const StageOrder &order,
                         const DecodeRule &rule);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_ORDERDECODER_H
