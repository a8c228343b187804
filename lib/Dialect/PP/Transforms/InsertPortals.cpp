//===- InsertPortals.cpp - Make edges that skip stages explicit -----------===//

#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_INSERTPORTALS
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct InsertPortals : pipeline::impl::InsertPortalsBase<InsertPortals> {
  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    if (!step)
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    SmallVector<Operation *> producers;
    for (Operation &op : step.getBody().front().without_terminator())
      if (isKernel(&op) && getStage(&op))
        producers.push_back(&op);
    for (Operation *producer : producers)
      for (Value result : producer->getResults())
        insert(symbols, step, producer, result);
  }

  /// Readers of `value` by stage, in program order. Views are read through:
  /// they belong to their reader.
  void collectReaders(Value value, SmallVectorImpl<OpOperand *> &readers) {
    for (OpOperand &use : value.getUses()) {
      if (isView(use.getOwner()))
        collectReaders(use.getOwner()->getResult(0), readers);
      else if (getStage(use.getOwner()))
        readers.push_back(&use);
    }
  }

  void insert(SymbolTable &symbols, func::FuncOp step, Operation *producer,
              Value value) {
    int64_t from = *getStage(producer);
    SmallVector<OpOperand *> readers;
    collectReaders(value, readers);
    llvm::MapVector<int64_t, SmallVector<OpOperand *>> byStage;
    llvm::stable_sort(readers, [](OpOperand *a, OpOperand *b) {
      return a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    for (OpOperand *reader : readers) {
      int64_t to = *getStage(reader->getOwner());
      if (std::abs(to - from) > 1)
        byStage[to].push_back(reader);
    }
    OpBuilder builder(producer);
    for (auto &[to, uses] : byStage) {
      builder.setInsertionPoint(step);
      std::string name = "portal_" + getDisplayName(producer) + "_" +
                         std::to_string(from) + "_" + std::to_string(to);
      auto portal =
          PortalOp::create(builder, producer->getLoc(), name, from, to,
                           step::getPhase(producer), value.getType());
      symbols.insert(portal);
      auto symbol = FlatSymbolRefAttr::get(portal.getSymNameAttr());
      builder.setInsertionPointAfter(producer);
      auto stash = StashOp::create(builder, producer->getLoc(), symbol, value);
      place(stash, from, step::getPhase(producer));
      Operation *first = uses.front()->getOwner();
      builder.setInsertionPoint(first);
      auto pop =
          PopOp::create(builder, producer->getLoc(), value.getType(), symbol);
      place(pop, to, step::getPhase(first));
      IRMapping mapping;
      mapping.map(value, pop.getValue());
      for (OpOperand *use : uses)
        use->set(viewOf(builder, use->get(), mapping));
    }
  }

  static void place(Operation *op, int64_t stage, Phase phase) {
    op->setAttr(stageAttrName,
                Builder(op->getContext()).getI64IntegerAttr(stage));
    step::setPhase(op, phase);
  }

  /// `value`, a view of what `mapping` replaces, as a view of the replacement.
  static Value viewOf(OpBuilder &builder, Value value, IRMapping &mapping) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *view = value.getDefiningOp();
    viewOf(builder, view->getOperand(0), mapping);
    return builder.clone(*view, mapping)->getResult(0);
  }
};

} // namespace
