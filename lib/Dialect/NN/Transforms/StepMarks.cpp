//===- StepMarks.cpp - Where in a step a new operation belongs ------------===//

#include "StepMarks.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

StepMarks::StepMarks(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    if (auto origin = op.getAttrOfType<IntegerAttr>(step::originAttrName))
      nextOrigin = std::max(nextOrigin, origin.getInt() + 1);
}

void StepMarks::mark(Operation *op, Operation *like) {
  for (StringRef name :
       {StringRef(step::phaseAttrName), StringRef(step::originAttrName),
        StringRef(step::stageHintAttrName)})
    if (Attribute attribute = like->getAttr(name))
      op->setAttr(name, attribute);
  if (step::getPhase(op) == Phase::Forward && op->hasAttr(step::originAttrName))
    op->setAttr(step::originAttrName,
                Builder(op->getContext()).getI64IntegerAttr(nextOrigin++));
}
