//===- TimeLimit.h - How long a search may take -----------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_TIMELIMIT_H
#define PP_TOOLS_PP_PLAN_TIMELIMIT_H

#include "Flags.h"
#include "pp/Planner/Partition/GraphPartitioner.h"

namespace pp {

/// --time-limit as a moment, counted from now; nothing for 0. Fails if it is
/// none.
llvm::Expected<std::optional<std::chrono::steady_clock::time_point>>
readDeadline(const Flags &flags);

/// Prints how far a search is on `os`: a line after two seconds, then one every
/// ten. Values of `objective` have its unit.
std::function<void(const planner::PartitionProgress &)>
makeProgressReport(planner::Objective objective, llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_TIMELIMIT_H
