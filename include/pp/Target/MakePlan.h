//===- MakePlan.h - The plan of a lowered program ---------------*- C++ -*-===//

#ifndef PP_TARGET_MAKEPLAN_H
#define PP_TARGET_MAKEPLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "plan/Plan.h"

namespace pp {

/// The plan of a module that pp-plan-memory has planned, of one replica.
/// `model` is the name to show. Fails with an error on the module if something
/// that the plan needs is missing. `bucket` says which of several sizes of a
/// dimension it is for.
mlir::FailureOr<runtime::Plan>
makePlan(mlir::ModuleOp module, llvm::StringRef model,
         const std::optional<runtime::PlanBucket> &bucket = std::nullopt);

} // namespace pp

#endif // PP_TARGET_MAKEPLAN_H
