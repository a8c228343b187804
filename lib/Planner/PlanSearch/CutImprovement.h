//===- CutImprovement.h - Move the cuts of plans --------------------------===//
#ifndef PP_LIB_PLANNER_PLANSEARCH_CUTIMPROVEMENT_H
#define PP_LIB_PLANNER_PLANSEARCH_CUTIMPROVEMENT_H

#include "pp/Planner/PlanSearch.h"

namespace pp::planner {

/// Moves kernels over the cuts of the first PlanSpace::refined candidates, and
/// of the first of each schedule, as long as that shortens the simulated step.
/// Stops after a number of simulated actions.
void improveCuts(const PlanSpace &space,
                 std::vector<PlanCandidate> &candidates);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANSEARCH_CUTIMPROVEMENT_H
