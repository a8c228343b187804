//===- KernelEmitter.cpp - nn operations as loops over memory -------------===//

#include "KernelEmitter.h"
#include "pp/Dialect/NN/IR/RowOperations.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// What writes a result: an operation on rows writes short copies of them too.
static Operation *getWriter(Value result) {
  Operation *op = result.getDefiningOp();
  if (auto cast = dyn_cast<CastOp>(op))
    if (Operation *rows = getRowsOfNarrowing(cast))
      return rows;
  return op;
}

Value KernelEmitter::withoutWidening(Value value) const {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && !memories.count(value) && getRowsOfWidening(cast)
             ? cast.getInput()
             : value;
}

SmallVector<Value> KernelEmitter::destinationsOf(Value result) const {
  SmallVector<Value> destinations;
  if (Value memory = memoryOf(result))
    destinations.push_back(memory);
  for (Operation *user : result.getUsers())
    if (auto cast = dyn_cast<CastOp>(user); cast && getRowsOfNarrowing(cast))
      if (Value memory = memoryOf(cast.getOutput()))
        destinations.push_back(memory);
  return destinations;
}

LogicalResult KernelEmitter::emit(ValueRange results) {
  // In program order: a result that is made of another one reads it from
  // memory, or is computed in the same loop.
  SmallVector<Value> ordered(results);
  if (llvm::any_of(ordered, [](Value value) { return !value.getDefiningOp(); }))
    return failure();
  llvm::stable_sort(ordered, [](Value a, Value b) {
    return a.getDefiningOp() != b.getDefiningOp() &&
           a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  llvm::SmallPtrSet<Operation *, 4> written;
  SmallVector<Value> together;
  for (Value result : ordered) {
    Operation *op = getWriter(result);
    if (isWrittenBeside(together, result)) {
      together.push_back(result);
      continue;
    }
    if (failed(emitLoops(together)))
      return failure();
    together.clear();
    if (isWrittenBeside({}, result)) {
      together.push_back(result);
      continue;
    }
    bool isLoop = op->hasTrait<OpTrait::Elementwise>() ||
                  isa<ReduceOp, BroadcastOp, IotaOp, PresentRowsOp, UniformOp,
                      ConstantOp>(op);
    // Other operations write all their results at once.
    if (failed(isLoop                      ? emitLoop(result)
               : written.insert(op).second ? emitOperation(op)
                                           : success()))
      return failure();
  }
  return emitLoops(together);
}

bool KernelEmitter::isWrittenBeside(ArrayRef<Value> others, Value value) const {
  Operation *op = getWriter(value);
  return op == value.getDefiningOp() && op->hasTrait<OpTrait::Elementwise>() &&
         !summands.contains(value) && llvm::all_of(others, [&](Value other) {
           return cast<RankedTensorType>(other.getType()).getShape() ==
                  cast<RankedTensorType>(value.getType()).getShape();
         });
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
    if (failed(materialize(withoutWidening(operand))))
      return failure();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](SliceOp slice) { return emitSlice(slice); })
      .Case([&](PadOp pad) { return emitPad(pad); })
      .Case([&](ConcatOp concat) { return emitConcat(concat); })
      .Case([&](GatherOp gather) { return emitGather(gather); })
      .Case([&](ScatterAddOp scatter) { return emitScatterAdd(scatter); })
      .Case([&](ScatterOp scatter) { return emitScatter(scatter); })
      .Case([&](CumSumOp sums) { return emitCumSum(sums); })
      .Case([&](TopKOp order) { return emitTopK(order); })
      .Case([&](TransposeOp transpose) { return emitTranspose(transpose); })
      .Case([&](DotGeneralOp dot) { return emitDotGeneral(dot); })
      .Case([&](SoftmaxOp softmax) { return emitSoftmax(softmax); })
      .Case([&](LogSoftmaxOp softmax) { return emitLogSoftmax(softmax); })
      .Case([&](LayerNormOp norm) { return emitLayerNorm(norm); })
      .Case(
          [&](LayerNormBackwardOp norm) { return emitLayerNormBackward(norm); })
      .Case(
          [&](ChannelMomentsOp moments) { return emitChannelMoments(moments); })
      .Case([&](ChannelSumsOp sums) { return emitChannelSums(sums); })
      .Case([&](CtcLossOp loss) { return emitCtcLoss(loss); })
      .Case([&](CtcLossBackwardOp loss) { return emitCtcLossBackward(loss); })
      .Case([&](SoftmaxCrossEntropyOp loss) { return emitCrossEntropy(loss); })
      .Case([&](SoftmaxCrossEntropyBackwardOp loss) {
        return emitCrossEntropyBackward(loss);
      })
      .Default([](Operation *unknown) {
        return unknown->emitOpError("has no code generator");
      });
}
