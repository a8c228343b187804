//===- PlanMemoryCurves.h - Memory of a plan over time --------------------===//

#ifndef PP_PLANNER_PLANMEMORYCURVES_H
#define PP_PLANNER_PLANMEMORYCURVES_H

#include "pp/Planner/MemoryCurve.h"
#include "pp/Planner/PlanEvaluation.h"

namespace pp::planner {

/// One curve per rank, from 0 on: residuals from F (or R) to W, on top of
/// parameters, channel buffers and workspace, which are always there.
std::vector<MemoryCurve> memoryCurves(const PlanEvaluation &evaluation);

} // namespace pp::planner

#endif // PP_PLANNER_PLANMEMORYCURVES_H
