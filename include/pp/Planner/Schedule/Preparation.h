//===- Preparation.h - Compute once what parameters alone decide ----------===//
#ifndef PP_PLANNER_SCHEDULE_PREPARATION_H
#define PP_PLANNER_SCHEDULE_PREPARATION_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

/// Puts a P of each stage for which `prepares` is true, by stage, at the head
/// of its rank's list, in the order in which the rank first runs the stages.
/// Stages that have a P keep it.
void insertPreparation(Schedule &schedule, const std::vector<bool> &prepares);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_PREPARATION_H
