//===- PlanOutputs.h - What is written of a plan ----------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_PLANOUTPUTS_H
#define PP_TOOLS_PP_PLAN_PLANOUTPUTS_H

#include "Flags.h"
#include "pp/Driver/Compiler.h"
#include "pp/Planner/PlanEvaluation.h"

namespace pp {

/// Writes the files that the flags ask for: -o, --csv, --html, --trace and
/// --annotate. The model is compiled again for the last, with `options`.
llvm::Error writePlan(const Flags &flags, const CompileOptions &options,
                      ModelImport &import,
                      const planner::PlanCandidate &candidate,
                      const planner::PlanEvaluation &evaluation,
                      mlir::MLIRContext &context);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_PLANOUTPUTS_H
