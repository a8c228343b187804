//===- Action.h - One entry of a rank's list ------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_ACTION_H
#define PP_PLANNER_SCHEDULE_ACTION_H

#include <cstdint>

namespace pp::planner {

/// Names as in the plan: F, R, I, W, B, SEND, RECV, U, REDUCE_GRAD, ALLREDUCE.
enum class ActionKind : uint8_t {
  Forward,
  /// Forward again, to have the residuals back.
  Recompute,
  /// Backward of inputs.
  BackwardInput,
  /// Backward of weights.
  BackwardWeight,
  /// BackwardInput, then BackwardWeight.
  Backward,
  Send,
  Receive,
  /// The optimizer's step.
  Update,
  /// The replicas of a stage add up their gradients.
  ReduceGradients,
  /// The ranks of a group add up something else.
  AllReduce
};

/// A part of a stage that computes and owns values.
enum class Phase : uint8_t { Forward, BackwardInput, BackwardWeight };

struct Action {
  ActionKind kind = ActionKind::Forward;
  int stage = 0;
  int microbatch = -1; // -1: Update and collectives.
  int channel = -1;    // Send and Receive only.
  int group = -1;      // ReduceGradients and AllReduce only.

  bool operator==(const Action &) const = default;

  bool isTransfer() const {
    return kind == ActionKind::Send || kind == ActionKind::Receive;
  }
  /// All ranks of the group meet in it.
  bool isCollective() const {
    return kind == ActionKind::ReduceGradients || kind == ActionKind::AllReduce;
  }
  /// True if the action runs `phase` for the first time: Recompute runs
  /// Forward, but its values exist already.
  bool performs(Phase phase) const {
    switch (kind) {
    case ActionKind::Forward:
      return phase == Phase::Forward;
    case ActionKind::BackwardInput:
      return phase == Phase::BackwardInput;
    case ActionKind::BackwardWeight:
      return phase == Phase::BackwardWeight;
    case ActionKind::Backward:
      return phase != Phase::Forward;
    default:
      return false;
    }
  }
};

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_ACTION_H
