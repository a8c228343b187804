//===- CheapOperations.h - What is computed where it is read ----*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

/// Whether each generated kernel that reads the operation has a copy of it: it
/// costs less than its result in memory.
inline bool isCheap(mlir::Operation *op) {
  if (auto constant = mlir::dyn_cast<ConstantOp>(op))
    return constant.getValue().isSplat();
  // A mask of drawn numbers takes as little as the numbers, that of rows with
  // samples less.
  auto isOfMask = [](mlir::Value operand) {
    auto broadcast = operand.getDefiningOp<BroadcastOp>();
    return operand.getDefiningOp<UniformOp>() ||
           (broadcast && broadcast.getInput().getDefiningOp<PresentRowsOp>());
  };
  if (auto compare = mlir::dyn_cast<CompareOp>(op))
    return llvm::any_of(op->getOperands(), isOfMask) &&
           llvm::all_of(op->getOperands(), [](mlir::Value operand) {
             mlir::Operation *producer = operand.getDefiningOp();
             return producer && isCheap(producer);
           });
  return mlir::isa<BroadcastOp, IotaOp, PresentRowsOp, UniformOp>(op);
}

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H
