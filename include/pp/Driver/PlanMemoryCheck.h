//===- PlanMemoryCheck.h - What a plan allocates ----------------*- C++ -*-===//

#ifndef PP_DRIVER_PLANMEMORYCHECK_H
#define PP_DRIVER_PLANMEMORYCHECK_H

#include "pp/Driver/Compiler.h"
#include "pp/Planner/PipelinePlan.h"

namespace pp {

/// Compiles a model along `plan` up to its memory, and returns the
/// bytes that each rank will allocate: the planner estimates, the compiler
/// counts. `options` are those that the plan was made with. Fails if the model
/// cannot be compiled so.
llvm::Expected<std::vector<int64_t>>
countPlanMemory(mlir::MLIRContext *context, ModelImport &import,
                const CompileOptions &options,
                const planner::PipelinePlan &plan);

} // namespace pp

#endif // PP_DRIVER_PLANMEMORYCHECK_H
