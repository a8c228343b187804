//===- EvaluateInput.h - What a given plan costs ----------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_EVALUATEINPUT_H
#define PP_TOOLS_PP_PLAN_EVALUATEINPUT_H

#include "Flags.h"
#include "pp/Driver/Compiler.h"

namespace pp {

/// Proves and simulates the plan of --evaluate for the model, counts its memory
/// to the byte, prints both and writes what the flags ask for. Fails with all
/// faults of its partition, or of its schedule.
llvm::Error evaluateGivenPlan(const Flags &flags, CompileOptions options,
                              ModelImport &import, mlir::MLIRContext &context);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_EVALUATEINPUT_H
