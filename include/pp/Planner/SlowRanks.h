//===- SlowRanks.h - What if a rank were slower ---------------------------===//
#ifndef PP_PLANNER_SLOWRANKS_H
#define PP_PLANNER_SLOWRANKS_H

#include "pp/Planner/PlanEvaluation.h"

namespace pp::planner {

/// A rank all of whose computations take `factor` times as long.
struct SlowRank {
  size_t rank = 0;
  double factor = 1;
};

/// The plan's step with these ranks. Fails where a rank does not exist, a
/// factor is not positive, or the schedule cannot be simulated.
Result<Simulation> simulateSlowRanks(const PlanEvaluation &evaluation,
                                     const std::vector<SlowRank> &slow);

} // namespace pp::planner

#endif // PP_PLANNER_SLOWRANKS_H
