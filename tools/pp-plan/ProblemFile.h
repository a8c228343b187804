//===- ProblemFile.h - Planning problems as files ---------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_PROBLEMFILE_H
#define PP_TOOLS_PP_PLAN_PROBLEMFILE_H

#include "pp/Planner/PlanSearch.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// Reads a problem (docs/problem-format.md), partitions its graph, checks the
/// answer and prints it. The search ends at the deadline, and after so many
/// `steps` if the file has no limit of its own; its progress goes to `notes`.
/// Returns the answer as JSON.
llvm::Expected<std::string>
solveProblemFile(llvm::StringRef path,
                 std::optional<std::chrono::steady_clock::time_point> deadline,
                 uint64_t steps, llvm::raw_ostream &os,
                 llvm::raw_ostream &notes);

/// The first graph of the space and its cluster as a problem: the least largest
/// time of a stage, with at most `maxRanks` stages. Memory is that of 1F1B; it
/// is counted but not limited. Names of kernels that repeat get numbers: `add`,
/// `add#2`.
std::string problemToJson(const planner::PlanSpace &space);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_PROBLEMFILE_H
