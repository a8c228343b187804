//===- MeasuredChoice.h - The best plan as it runs --------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_MEASUREDCHOICE_H
#define PP_TOOLS_PP_PLAN_MEASUREDCHOICE_H

#include "pp/Driver/Compiler.h"
#include "pp/Planner/PlanSearch.h"

namespace pp {

/// Compiles the `count` best plans of each kind (describeKind) that fit, runs
/// them on this machine in turns, and moves the fastest to the front. Prints
/// what each took beside what was predicted.
///
///   turn 1: A B C D    what takes far longer than the best is left out
///   turn 2: A   C      the median of a plan's turns counts
///   turn 3: A   C
///
/// `linkFile` has the arguments that link with the runtime. The plans' memory
/// is what the compiler counts afterwards.
llvm::Error chooseByMeasuring(planner::PlanSearchResult &result, unsigned count,
                              llvm::StringRef linkFile, ModelImport &model,
                              const CompileOptions &options,
                              mlir::MLIRContext &context,
                              llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_MEASUREDCHOICE_H
