//===- StepMarks.h - Where in a step a new operation belongs ----*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_STEPMARKS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_STEPMARKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pp/Interfaces/Step.h"

namespace pp::nn {

/// Gives operations that a pass adds to a step their phase, origin and stage.
class StepMarks {
public:
  explicit StepMarks(mlir::func::FuncOp function);

  /// `op` runs in the phase of `like`, and where `like` runs. Forward
  /// operations of a training step are numbered, and `op` gets a number of its
  /// own.
  void mark(mlir::Operation *op, mlir::Operation *like);

private:
  int64_t nextOrigin = 0;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_STEPMARKS_H
