//===- MoveCasts.cpp - Move values in their short form --------------------===//

#include "MoveCasts.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

int64_t sizeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

class CastMover {
public:
  CastMover(func::FuncOp function, Type shortElement)
      : block(function.getBody().front()), casts(function, shortElement),
        semantics(cast<FloatType>(shortElement).getFloatSemantics()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block))
      moveShort(&op);
    // A movement that is rounded first may let that before it be rounded first.
    while (roundFirst())
      ;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa<CastOp>(op) && op.use_empty())
        op.erase();
  }

private:
  /// Whether the elements of the result are elements of the operands, or have
  /// a value that is the same in both types.
  bool isMovement(Operation *op) const {
    auto isF32 = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getElementType().isF32();
    };
    if (auto pad = dyn_cast<PadOp>(op)) {
      bool isRounded = false;
      APFloat value = pad.getValue();
      value.convert(semantics, APFloat::rmNearestTiesToEven, &isRounded);
      return !isRounded && isF32(pad.getOutput());
    }
    return isa<ReshapeOp, TransposeOp, SliceOp, ConcatOp, GatherOp>(op) &&
           isF32(op->getResult(0));
  }

  /// The operands that are moved: indices are not.
  static MutableArrayRef<OpOperand> movedOperands(Operation *op) {
    return isa<GatherOp>(op) ? op->getOpOperands().take_front(1)
                             : op->getOpOperands();
  }

  /// Parameters are made short in each phase anew, and so is what is made of
  /// them.
  bool isMovable(Operation *op) const {
    return isMovement(op) && !casts.isConstant(op->getResult(0));
  }

  void setShort(Operation *op, ArrayRef<Value> operands) {
    for (auto [operand, value] : llvm::zip(movedOperands(op), operands))
      operand.set(value);
    Value result = op->getResult(0);
    result.setType(casts.getShortType(result));
  }

  void moveShort(Operation *op) {
    if (CastOp narrowing = casts.getNarrowing(op)) {
      if (Value value = casts.getExactShort(narrowing.getInput()))
        replace(narrowing, value);
      return;
    }
    if (!isMovable(op))
      return;
    SmallVector<Value> values;
    for (OpOperand &operand : movedOperands(op)) {
      values.push_back(casts.getExactShort(operand.get()));
      if (!values.back())
        return;
    }
    Value result = op->getResult(0);
    Type longType = result.getType();
    setShort(op, values);
    casts.widenForReaders(result, result, op, longType);
  }

  static void replace(CastOp narrowing, Value value) {
    narrowing.getOutput().replaceAllUsesWith(value);
    narrowing.erase();
  }

  /// The cast that is all that reads what `op` moves, in the same phase.
  CastOp getOnlyNarrowing(Operation *op) {
    if (!isMovable(op) || !op->getResult(0).hasOneUse())
      return CastOp();
    CastOp narrowing = casts.getNarrowing(*op->getResult(0).getUsers().begin());
    bool isHere = narrowing && step::getPhase(narrowing) == step::getPhase(op);
    return isHere ? narrowing : CastOp();
  }

  /// A cast that makes `value` short in the phase of `reader` or in its own;
  /// null if there is none. It may stand behind `reader`.
  CastOp findNarrowing(Value value, Operation *reader) const {
    Operation *producer = value.getDefiningOp();
    for (Operation *user : value.getUsers()) {
      CastOp narrowing = casts.getNarrowing(user);
      if (!narrowing)
        continue;
      Phase phase = step::getPhase(narrowing);
      if (phase == step::getPhase(reader) ||
          (producer && !casts.isConstant(value) &&
           phase == step::getPhase(producer)))
        return narrowing;
    }
    return CastOp();
  }

  bool isWorthRounding(Value value, Operation *movement) {
    if (casts.isConstant(value) || casts.getExactShort(value) ||
        findNarrowing(value, movement))
      return true;
    Operation *producer = value.getDefiningOp();
    Phase own = step::getPhase(producer ? producer : movement);
    int64_t moved = 0;
    for (Operation *user : value.getUsers()) {
      if (getOnlyNarrowing(user))
        moved += sizeOf(user->getResult(0));
      else if (producer && step::getPhase(user) != own)
        return false;
    }
    return moved >= sizeOf(value);
  }

  /// Rounds before movements that only roundings follow; returns whether there
  /// was one.
  bool roundFirst() {
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      CastOp narrowing = getOnlyNarrowing(&op);
      if (!narrowing ||
          !llvm::all_of(movedOperands(&op), [&](OpOperand &operand) {
            return isWorthRounding(operand.get(), &op);
          }))
        continue;
      SmallVector<Value> values;
      for (OpOperand &operand : movedOperands(&op))
        values.push_back(round(operand.get(), &op));
      setShort(&op, values);
      replace(narrowing, op.getResult(0));
      changed = true;
    }
    return changed;
  }

  Value round(Value value, Operation *movement) {
    if (Value exact = casts.getExactShort(value))
      return exact;
    if (CastOp known = findNarrowing(value, movement)) {
      if (!known->isBeforeInBlock(movement))
        known->moveBefore(movement);
      return known.getOutput();
    }
    if (casts.isConstant(value))
      return casts.narrowBefore(value, movement);
    Operation *producer = value.getDefiningOp();
    return casts.narrowBehind(value, producer ? producer : movement);
  }

  Block &block;
  PhaseCasts casts;
  const llvm::fltSemantics &semantics;
};

} // namespace

void pp::nn::moveCasts(func::FuncOp function, Type shortElement) {
  CastMover(function, shortElement).run();
}
