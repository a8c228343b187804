//===- SampleSums.cpp - Losses that the model adds up itself --------------===//

#include "SampleSums.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

bool SampleSums::take(Operation *op, BatchPosition position) {
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || !position || reduce.getReduction() != Reduction::sum ||
      !llvm::is_contained(reduce.getAxes(), position.axis) ||
      !isa<FloatType>(getElementTypeOrSelf(reduce)))
    return false;
  sums.insert(reduce);
  return true;
}

LogicalResult SampleSums::follow(Operation *op) {
  auto refuse = [&](const Twine &why) {
    return op->emitOpError("cannot be re-batched: ") << why;
  };
  auto take = [&]() {
    sums.insert(op->getResult(0));
    return success();
  };
  bool isFloat = op->getNumResults() == 1 &&
                 isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  if (isFloat &&
      isa<NegOp, CastOp, ReshapeOp, TransposeOp, BroadcastOp, SliceOp, CopyOp>(
          op))
    return take();
  if (auto reduce = dyn_cast<ReduceOp>(op);
      reduce && reduce.getReduction() == Reduction::sum)
    return take();
  if (isa<AddOp, SubOp>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      if (!isSum(operand.get()))
        sharedOperands.push_back(&operand);
    return take();
  }
  if (isa<MulOp>(op) && !(isSum(op->getOperand(0)) && isSum(op->getOperand(1))))
    return take();
  if (isa<DivOp>(op) && !isSum(op->getOperand(1)))
    return take();
  if (isa<DivOp>(op) && isSum(op->getOperand(0))) {
    if (!averagesMeans)
      return refuse("is a mean over samples of which not all need to count, so "
                    "that of a mini-batch is not the mean over its "
                    "micro-batches; --mean-of-microbatches trains with the "
                    "latter, --microbatches=1 with the former");
    means.push_back(op->getResult(0));
    return take();
  }
  return refuse("computes with a sum over all samples, of which a micro-batch "
                "has a part, and is not linear");
}

void SampleSums::divide(double share) {
  if (share == 1)
    return;
  auto multiply = [&](OpBuilder &builder, Value value) -> Operation * {
    auto type = cast<RankedTensorType>(value.getType());
    Value factor = ConstantOp::create(
        builder, value.getLoc(),
        DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(), share)));
    return MulOp::create(builder, value.getLoc(), value, factor);
  };
  for (OpOperand *operand : sharedOperands) {
    OpBuilder builder(operand->getOwner());
    operand->set(multiply(builder, operand->get())->getResult(0));
  }
  for (Value mean : means) {
    OpBuilder builder(mean.getContext());
    builder.setInsertionPointAfterValue(mean);
    Operation *part = multiply(builder, mean);
    mean.replaceAllUsesExcept(part->getResult(0), part);
  }
}
