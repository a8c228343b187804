//===- MemoryChoice.h - The best plan whose memory fits ---------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_MEMORYCHOICE_H
#define PP_TOOLS_PP_PLAN_MEMORYCHOICE_H

#include "pp/Driver/Compiler.h"
#include "pp/Planner/PlanSearch.h"

namespace pp {

/// Counts the memory of a plan as the compiler does: the plan gets those bytes,
/// and says what it does not fit into.
llvm::Error checkMemory(planner::PlanCandidate &candidate, ModelImport &model,
                        const CompileOptions &options,
                        mlir::MLIRContext &context);

/// Moves the best plan whose memory fits as the compiler counts it to the
/// front, and gives it those bytes. If none of the best fits, the first one
/// says why.
llvm::Error chooseByMemory(planner::PlanSearchResult &result,
                           ModelImport &model, const CompileOptions &options,
                           mlir::MLIRContext &context);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_MEMORYCHOICE_H
