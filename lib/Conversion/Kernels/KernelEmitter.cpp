//===- KernelEmitter.cpp - nn operations as loops over memory -------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

LogicalResult KernelEmitter::emit(ValueRange results) {
  // In program order: a result that is made of another one reads it from
  // memory.
  SmallVector<Value> ordered(results);
  if (llvm::any_of(ordered, [](Value value) { return !value.getDefiningOp(); }))
    return failure();
  llvm::stable_sort(ordered, [](Value a, Value b) {
    return a.getDefiningOp() != b.getDefiningOp() &&
           a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  for (Value result : ordered) {
    Operation *op = result.getDefiningOp();
    bool isLoop = op->hasTrait<OpTrait::Elementwise>() ||
                  isa<ReduceOp, BroadcastOp, IotaOp, ConstantOp>(op);
    if (isLoop) {
      if (failed(emitLoop(result)))
        return failure();
      continue;
    }
    // Operations with several results write all of them at once.
    if (result == *llvm::find_if(
                      op->getResults(),
                      [&](Value value) { return memories.count(value); }) &&
        failed(emitOperation(op)))
      return failure();
  }
  return success();
}

LogicalResult KernelEmitter::materialize(Value value) {
  if (memories.count(value))
    return success();
  Operation *op = value.getDefiningOp();
  if (!op)
    return failure();
  OpBuilder::InsertionGuard guard(builder);
  bind(value,
       memref::AllocaOp::create(builder, loc, getMemRefType(value.getType())));
  return emitLoop(value);
}

LogicalResult KernelEmitter::emitOperation(Operation *op) {
  for (Value operand : op->getOperands())
    if (failed(materialize(operand)))
      return failure();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](SliceOp slice) { return emitSlice(slice); })
      .Case([&](PadOp pad) { return emitPad(pad); })
      .Case([&](ConcatOp concat) { return emitConcat(concat); })
      .Case([&](GatherOp gather) { return emitGather(gather); })
      .Case([&](ScatterAddOp scatter) { return emitScatterAdd(scatter); })
      .Case([&](TransposeOp transpose) { return emitTranspose(transpose); })
      .Case([&](DotGeneralOp dot) { return emitDotGeneral(dot); })
      .Case([&](SoftmaxOp softmax) { return emitSoftmax(softmax, false); })
      .Case([&](LogSoftmaxOp softmax) { return emitSoftmax(softmax, true); })
      .Case([&](LayerNormOp norm) { return emitLayerNorm(norm); })
      .Case(
          [&](LayerNormBackwardOp norm) { return emitLayerNormBackward(norm); })
      .Case([&](SoftmaxCrossEntropyOp loss) { return emitCrossEntropy(loss); })
      .Case([&](SoftmaxCrossEntropyBackwardOp loss) {
        return emitCrossEntropyBackward(loss);
      })
      .Default([](Operation *unknown) {
        return unknown->emitOpError("has no code generator");
      });
}
