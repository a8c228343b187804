//===- PhaseCasts.cpp - Casts that know their phase -----------------------===//

#include "PhaseCasts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

PhaseCasts::PhaseCasts(func::FuncOp function, Type shortElement)
    : builder(function.getContext()), shortElement(shortElement),
      marks(function) {
  for (Operation &op : function.getBody().front())
    if (!isa<CastOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
          return isConstant(operand);
        }))
      constants.insert(&op);
}

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

RankedTensorType PhaseCasts::getShortType(Value value) const {
  return cast<RankedTensorType>(
      cast<RankedTensorType>(value.getType()).clone(shortElement));
}

CastOp PhaseCasts::getNarrowing(Operation *op) const {
  auto narrowing = dyn_cast_or_null<CastOp>(op);
  bool isIt = narrowing && elementOf(narrowing.getInput()).isF32() &&
              elementOf(narrowing.getOutput()) == shortElement;
  return isIt ? narrowing : CastOp();
}

Value PhaseCasts::getExactShort(Value value) const {
  auto widening = value.getDefiningOp<CastOp>();
  bool isIt = widening && elementOf(value).isF32() &&
              elementOf(widening.getInput()) == shortElement;
  return isIt ? widening.getInput() : Value();
}

bool PhaseCasts::isConstant(Value value) const {
  // Casts come and go; the other operations stay.
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  return constants.contains(value.getDefiningOp());
}

Value PhaseCasts::make(Type type, Value value, Operation *like) {
  Operation *op = CastOp::create(builder, like->getLoc(), type, value);
  marks.mark(op, like);
  return op->getResult(0);
}

Value PhaseCasts::narrowBehind(Value value, Operation *like) {
  if (Operation *producer = value.getDefiningOp())
    builder.setInsertionPointAfter(producer);
  else
    builder.setInsertionPointToStart(like->getBlock());
  return make(getShortType(value), value, like);
}

Value PhaseCasts::narrowBefore(Value value, Operation *like) {
  builder.setInsertionPoint(like);
  return make(getShortType(value), value, like);
}

void PhaseCasts::widenForReaders(Value value, Value from, Operation *producer,
                                 Type longType,
                                 function_ref<bool(Phase)> isChosen) {
  llvm::SmallMapVector<int, SmallVector<OpOperand *>, 4> byPhase;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user == from.getDefiningOp() && value != from)
      continue;
    bool isReturned = user->hasTrait<OpTrait::IsTerminator>();
    Phase phase = step::getPhase(isReturned ? producer : user);
    if (isChosen(phase))
      byPhase[static_cast<int>(phase)].push_back(&use);
  }
  for (auto &[phase, uses] : byPhase) {
    Operation *first = uses.front()->getOwner();
    for (OpOperand *use : uses)
      if (use->getOwner()->isBeforeInBlock(first))
        first = use->getOwner();
    bool isReturned = first->hasTrait<OpTrait::IsTerminator>();
    builder.setInsertionPoint(first);
    Value widened = make(longType, from, isReturned ? producer : first);
    for (OpOperand *use : uses)
      use->set(widened);
  }
}
