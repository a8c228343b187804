//===- CheapOperations.h - What is computed where it is read ----*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

/// Whether a cast is from a float of 16 bits to f32.
inline bool isWidening(CastOp cast) {
  auto elementOf = [](mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  };
  auto from = mlir::dyn_cast<mlir::FloatType>(elementOf(cast.getInput()));
  return from && from.getWidth() == 16 && elementOf(cast.getOutput()).isF32();
}

/// Whether each generated kernel that reads the operation has a copy of it: it
/// costs less than its result in memory. What all stages compute of the counter
/// of a step ties no stages together, then.
inline bool isCheap(mlir::Operation *op) {
  auto isMadeOfCheap = [](mlir::Operation *op) {
    return llvm::all_of(op->getOperands(), [](mlir::Value operand) {
      mlir::Operation *producer = operand.getDefiningOp();
      return producer && isCheap(producer);
    });
  };
  if (auto constant = mlir::dyn_cast<ConstantOp>(op))
    return constant.getValue().isSplat();
  // Twice the bytes of what it reads.
  if (auto cast = mlir::dyn_cast<CastOp>(op); cast && isWidening(cast))
    return true;
  // A mask of drawn numbers takes as little as the numbers, that of rows with
  // samples less.
  auto isOfMask = [](mlir::Value operand) {
    auto broadcast = operand.getDefiningOp<BroadcastOp>();
    return operand.getDefiningOp<UniformOp>() ||
           (broadcast && broadcast.getInput().getDefiningOp<PresentRowsOp>());
  };
  if (mlir::isa<CompareOp>(op) && llvm::any_of(op->getOperands(), isOfMask))
    return isMadeOfCheap(op);
  // A number made of such numbers.
  if (op->hasTrait<mlir::OpTrait::Elementwise>() && op->getNumOperands() > 0 &&
      mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType())
              .getRank() == 0)
    return isMadeOfCheap(op);
  return mlir::isa<BroadcastOp, IotaOp, PresentRowsOp, UniformOp>(op);
}

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H
