//===- PlanReport.h - Plans in words ----------------------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_PLANREPORT_H
#define PP_TOOLS_PP_PLAN_PLANREPORT_H

#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/StalePlans.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// What kind of parallelism a plan is: `a pipeline of several threads`.
std::string describeKind(const planner::PipelinePlan &plan);

/// The best `top` candidates as a table, how far the best is from the lower
/// bound, and what the best changes of the training. `mixing` as in PlanSpace.
void printCandidates(const planner::PlanSearchResult &result,
                     llvm::StringRef mixing, size_t top, llvm::raw_ostream &os);

/// Plans without a flush as a table, beside the best one with a flush, and how
/// the first is compiled.
void printStalePlans(const std::vector<planner::StalePlan> &plans,
                     const planner::PlanCandidate &best, int64_t batch,
                     llvm::raw_ostream &os);

/// The stages of a plan with their kernels, and its timeline.
void printPlan(const planner::PlanCandidate &candidate,
               const planner::PlanEvaluation &evaluation,
               llvm::raw_ostream &os);

/// What a plan that was given takes: its step, bubble, utilisation and memory,
/// then as printPlan.
void printEvaluation(const planner::PlanCandidate &candidate,
                     const planner::PlanEvaluation &evaluation,
                     llvm::raw_ostream &os);

/// For each cut: what was tried next to it, and why it lost.
void printCuts(const planner::PlanCandidate &candidate,
               const std::vector<planner::CutAlternative> &alternatives,
               llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_PLANREPORT_H
