//===- PlanWriter.h - The plan of a lowered program -------------*- C++ -*-===//

#ifndef PP_TARGET_PLANWRITER_H
#define PP_TARGET_PLANWRITER_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace pp {

/// Writes the plan (docs/plan-format.md) of a module that pp-plan-memory has
/// planned. `model` is the name to show. Keys are in a fixed order. Fails with
/// an error on the module if something the plan needs is missing.
mlir::FailureOr<std::string> writePlan(mlir::ModuleOp module,
                                       llvm::StringRef model);

} // namespace pp

#endif // PP_TARGET_PLANWRITER_H
