//===- NNRowOperations.cpp - Softmax, layer norm, cross entropy -----------===//

#include "pp/Dialect/NN/IR/RowOperations.h"

using namespace mlir;
using namespace pp::nn;

bool pp::nn::isRowOperation(Operation *op) {
  return isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp, LayerNormBackwardOp,
             SoftmaxCrossEntropyOp, SoftmaxCrossEntropyBackwardOp>(op);
}

static bool isOf(Value value, bool isShort) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return isShort ? element.isBF16() || element.isF16() : element.isF32();
}

Operation *pp::nn::getRowsOfWidening(CastOp cast) {
  if (!isOf(cast.getInput(), true) || !isOf(cast.getOutput(), false) ||
      !cast->hasOneUse())
    return nullptr;
  Operation *reader = *cast->user_begin();
  return isRowOperation(reader) ? reader : nullptr;
}

Operation *pp::nn::getRowsOfNarrowing(CastOp cast) {
  if (!isOf(cast.getInput(), false) || !isOf(cast.getOutput(), true))
    return nullptr;
  Operation *producer = cast.getInput().getDefiningOp();
  // Other results have one number for each row.
  bool isRows = producer && isRowOperation(producer) &&
                cast.getInput() == producer->getResult(0) &&
                cast.getInput().getType() == producer->getOperand(0).getType();
  return isRows ? producer : nullptr;
}
