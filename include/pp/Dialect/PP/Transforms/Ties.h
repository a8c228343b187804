//===- Ties.h - Parameters that several stages have -------------*- C++ -*-===//
//
// A tied parameter has a reader in several places of the model. Each stage with
// a reader has a copy of it, and adds up the part of the gradient that comes
// from there. Once per step all parts are added, in the order of their numbers,
// and each copy gets the same update:
//
//   stage 0   wte, part 0 ──┐                  ┌─▶ U of stage 0
//                           ├─▶ part 0 + part 1 ┤
//   stage 3   wte, part 1 ──┘    (on stage 0)  └─▶ U of stage 3
//
//===----------------------------------------------------------------------===//

#ifndef PP_DIALECT_PP_TRANSFORMS_TIES_H
#define PP_DIALECT_PP_TRANSFORMS_TIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace pp::pipeline {

struct TiedParameter {
  mlir::StringAttr symbol;
  int64_t bytes = 0;
  /// The stage of each part, by its number. The parts are added up on that of
  /// part 0.
  llvm::SmallVector<int64_t> stages;

  int64_t home() const { return stages.front(); }
  /// Whether the part has to be sent to where all are added.
  bool isRemote(size_t part) const { return stages[part] != home(); }
  /// The first part of the same stage, which has its place where the parameter
  /// has its own; further ones have a place behind all parameters.
  size_t firstOfStage(size_t part) const;
};

/// Those of an outlined step, in the order of their names. Fails with an error
/// where two stages add to the same part, or a part is missing.
mlir::FailureOr<llvm::SmallVector<TiedParameter>>
findTiedParameters(mlir::ModuleOp module, mlir::func::FuncOp step);

} // namespace pp::pipeline

#endif // PP_DIALECT_PP_TRANSFORMS_TIES_H
