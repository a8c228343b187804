//===- StepGraph.cpp - The step as the planner sees it --------------------===//

#include "StepGraph.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

func::FuncOp pp::pipeline::findStep(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      if (function.getArgAttr(index, step::feedAttrName))
        return function;
  module.emitError("has no function with fed arguments (step.feed)");
  return nullptr;
}

bool pp::pipeline::isKernel(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelClass() != KernelClass::View;
}

bool pp::pipeline::isView(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelClass() == KernelClass::View;
}

Value pp::pipeline::lookThroughViews(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isView(op) && op->getNumOperands() == 1) {
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  return value;
}

/// Whether the step returns a result of `op`, or a view of one.
static bool isReturned(Operation *op) {
  return llvm::any_of(op->getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>() ||
           (isView(user) && isReturned(user));
  });
}

llvm::DenseSet<Operation *>
pp::pipeline::findReplicatedKernels(func::FuncOp step) {
  // Forward kernels that a backward operation belongs to are placed with it.
  llvm::DenseSet<int64_t> differentiated;
  for (Operation &op : step.getBody().front())
    if (step::getPhase(&op) != Phase::Forward &&
        step::getPhase(&op) != Phase::Prepare && isKernel(&op))
      if (auto origin = op.getAttrOfType<IntegerAttr>(step::originAttrName))
        differentiated.insert(origin.getInt());
  llvm::DenseSet<Operation *> replicated, independent;
  for (Operation &op : step.getBody().front().without_terminator()) {
    Phase phase = step::getPhase(&op);
    if (phase != Phase::Forward && phase != Phase::Prepare)
      continue;
    bool isIndependent = llvm::all_of(op.getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer && independent.contains(producer);
    });
    // What leaves a portal has no operand, but a stage behind it.
    if (!isIndependent || isa<PopOp>(op))
      continue;
    auto origin = op.getAttrOfType<IntegerAttr>(step::originAttrName);
    if (isKernel(&op)) {
      auto kernel = cast<KernelOpInterface>(op);
      if (!kernel.getUpdatedStates().empty() || isReturned(&op) ||
          (origin && differentiated.contains(origin.getInt())))
        continue;
      replicated.insert(&op);
    }
    independent.insert(&op);
  }
  return replicated;
}

std::string pp::pipeline::getDisplayName(Operation *op) {
  std::string name;
  op->getLoc()->walk([&](Location loc) {
    if (auto named = dyn_cast<NameLoc>(loc)) {
      name = named.getName().str();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return name.empty() ? op->getName().getStringRef().str() : name;
}
