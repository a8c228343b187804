//===- VerifyStep.cpp - What placement relies on --------------------------===//

#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_VERIFYSTEP
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct VerifyStep : pipeline::impl::VerifyStepBase<VerifyStep> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp function = findStep(getOperation());
    if (!function || failed(verifyStep(function)))
      return signalPassFailure();
    for (auto other : getOperation().getOps<func::FuncOp>())
      if (auto optimizer = other->getAttrOfType<step::OptimizerAttr>(
              step::optimizerAttrName);
          optimizer && failed(verifyOptimizer(other, optimizer)))
        return signalPassFailure();
  }

  static LogicalResult verifyStep(func::FuncOp function) {
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError("needs a body of one block");
    for (auto [what, types] :
         {std::pair(StringRef("input"), function.getArgumentTypes()),
          std::pair(StringRef("result"), function.getResultTypes())})
      for (auto [index, type] : llvm::enumerate(types))
        if (!isStatic(type))
          return function.emitError()
                 << what << " #" << index << " has type " << type
                 << ", expected a statically shaped tensor";
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(verifyOperation(&op)))
        return failure();
    return success();
  }

  static bool isStatic(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  }

  static LogicalResult verifyOperation(Operation *op) {
    if (!isa<KernelOpInterface>(op))
      return op->emitOpError("is not known as part of a step");
    for (Type type : op->getResultTypes())
      if (!isStatic(type))
        return op->emitOpError() << "computes a " << type
                                 << ", expected a statically shaped tensor";
    Phase phase = step::getPhase(op);
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer && isKernel(producer) &&
          runsBefore(phase, step::getPhase(producer)))
        return op->emitOpError()
               << "runs in " << nameOf(phase) << ", but reads what "
               << nameOf(step::getPhase(producer)) << " computes";
    if (phase == Phase::Prepare && isKernel(op))
      return verifyPreparation(op);
    if (isBackward(phase) && isKernel(op) && !op->hasAttr(step::originAttrName))
      return op->emitOpError()
             << "runs in " << nameOf(phase) << ", but has no '"
             << step::originAttrName << "': it belongs to no forward operation";
    return success();
  }

  /// It runs once per step, and where its readers are.
  static LogicalResult verifyPreparation(Operation *op) {
    if (!cast<KernelOpInterface>(op).getUpdatedStates().empty())
      return op->emitOpError("runs in prepare, but changes state");
    SmallVector<Value> read(op->getOperands());
    while (!read.empty()) {
      Operation *producer = read.pop_back_val().getDefiningOp();
      if (!producer ||
          (isKernel(producer) && step::getPhase(producer) != Phase::Prepare))
        return op->emitOpError("runs in prepare, but reads what is neither a "
                               "parameter nor made of parameters alone");
      if (isView(producer))
        llvm::append_range(read, producer->getOperands());
    }
    return success();
  }

  /// Parameter, gradient and states are of one type, then come scalars; the
  /// new parameter and states come back.
  static LogicalResult verifyOptimizer(func::FuncOp function,
                                       step::OptimizerAttr optimizer) {
    unsigned states = optimizer.countWholeStates();
    unsigned scalars = optimizer.getScalars().size();
    if (function.getNumArguments() == 2 + states + scalars &&
        function.getNumResults() == 1 + states)
      return success();
    return function.emitError()
           << "takes " << function.getNumArguments() << " values and returns "
           << function.getNumResults() << ", but an optimizer with " << states
           << " states and " << scalars << " scalars takes "
           << 2 + states + scalars << " and returns " << 1 + states;
  }
};

} // namespace
