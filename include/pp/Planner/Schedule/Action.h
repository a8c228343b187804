//===- Action.h - One entry of a rank's list ------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_ACTION_H
#define PP_PLANNER_SCHEDULE_ACTION_H

#include "plan/Action.h"
#include <cstdint>

namespace pp::planner {

using pp::ActionKind;
using pp::Phase;

struct Action {
  ActionKind kind = ActionKind::Forward;
  int stage = 0;
  int microbatch = -1; // -1: what is done once per step.
  int channel = -1;    // Send and Receive only.
  int group = -1;      // ReduceGradients and AllReduce only.
  // Only in a schedule without a flush; see Rolling.h.
  int lag = 0;     // Steps before the one that was handed in.
  int version = 0; // Of the weights, less the number of the action's step.

  bool operator==(const Action &) const = default;

  bool isTransfer() const { return pp::isTransfer(kind); }
  bool isPerStep() const { return pp::isPerStep(kind); }
  /// All ranks of the group meet in it.
  bool isCollective() const { return pp::isCollective(kind); }
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
      return phase == Phase::BackwardInput || phase == Phase::BackwardWeight;
    default:
      return false;
    }
  }
};

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_ACTION_H
