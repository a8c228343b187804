//===- Recompute.h - Run forward passes again -----------------------------===//
#ifndef PP_PLANNER_SCHEDULE_RECOMPUTE_H
#define PP_PLANNER_SCHEDULE_RECOMPUTE_H

#include "plan/CheckpointMode.h"
#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

using pp::CheckpointMode;

/// Puts an R before the first backward action (B or I) of every micro-batch
/// that `mode` recomputes. Insert transfers afterwards: the receive of the
/// gradient then comes after the R, which so runs while the gradient is on its
/// way.
void insertRecompute(Schedule &schedule, CheckpointMode mode);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_RECOMPUTE_H
