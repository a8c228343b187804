//===- MemoryChoice.h - The best plan whose memory fits ---------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_MEMORYCHOICE_H
#define PP_TOOLS_PP_PLAN_MEMORYCHOICE_H

#include "pp/Driver/Compiler.h"
#include "pp/Planner/PlanSearch.h"

namespace pp {

/// Moves the best plan whose memory fits as the compiler counts it to the
/// front, and gives it those bytes. If none of the best fits, the first one
/// says why.
llvm::Error chooseByMemory(planner::PlanSearchResult &result,
                           ModelImport &model, const CompileOptions &options,
                           mlir::MLIRContext &context);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_MEMORYCHOICE_H
