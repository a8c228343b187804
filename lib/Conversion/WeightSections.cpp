//===- WeightSections.cpp - Parts of W that have nothing in common --------===//

#include "WeightSections.h"
#include "pp/Interfaces/KernelOpInterface.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace pp;

/// Whether an operation emits no code: its result is another view of a value.
static bool isView(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelClass() == KernelClass::View;
}

/// Calls `visit` with the operations whose results another one reads, or sees
/// through views.
static void forSources(Operation *op,
                       llvm::function_ref<void(Operation *)> visit) {
  for (Value operand : op->getOperands()) {
    Operation *maker = operand.getDefiningOp();
    if (maker && isView(maker))
      forSources(maker, visit);
    else if (maker)
      visit(maker);
  }
}

SmallVector<SmallVector<Operation *>>
pp::findWeightSections(pipeline::StageOp phase) {
  llvm::EquivalenceClasses<Operation *> classes;
  DenseMap<Attribute, Operation *> owners; // of states
  SmallVector<Operation *> all;
  for (Operation &op : phase.getBody().front().without_terminator()) {
    if (isView(&op))
      continue;
    all.push_back(&op);
    classes.insert(&op);
    forSources(&op, [&](Operation *maker) { classes.unionSets(maker, &op); });
    if (auto kernel = dyn_cast<KernelOpInterface>(op))
      for (const StateReference &state : kernel.getUpdatedStates())
        classes.unionSets(owners.try_emplace(state.symbol, &op).first->second,
                          &op);
  }
  // Leaders are looked up, never listed: their order is that of addresses.
  llvm::MapVector<Operation *, SmallVector<Operation *>> sections;
  for (Operation *op : all)
    sections[classes.getLeaderValue(op)].push_back(op);
  SmallVector<SmallVector<Operation *>> result;
  for (auto &[leader, section] : sections)
    result.push_back(section);
  return result;
}
