//===- SlowRanks.h - What if a rank were slower -----------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_SLOWRANKS_H
#define PP_TOOLS_PP_PLAN_SLOWRANKS_H

#include "pp/Planner/PlanEvaluation.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// Prints the step with some ranks slower, each given as "rank:factor"; nothing
/// if there are none. Fails if one is malformed or there is no such rank.
llvm::Error printSlowRanks(llvm::ArrayRef<std::string> slow,
                           const planner::PlanEvaluation &evaluation,
                           llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_SLOWRANKS_H
