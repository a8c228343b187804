//===- PlanMemory.h - Memory of a plan over time ----------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_PLANMEMORY_H
#define PP_TOOLS_PP_PLAN_PLANMEMORY_H

#include "pp/Planner/MemoryCurve.h"
#include "pp/Planner/PlanEvaluation.h"

namespace pp {

/// One curve per rank, from 0 on: residuals from F (or R) to W, on top of
/// parameters, channel buffers and workspace, which are always there.
std::vector<planner::MemoryCurve>
memoryOf(const planner::PlanEvaluation &evaluation);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_PLANMEMORY_H
