//===- Rebatch.cpp - Change the batch size --------------------------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

namespace pp::nn {
#define GEN_PASS_DEF_REBATCH
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Follows the batch axis through one function and changes its size.
class Rebatcher {
public:
  Rebatcher(func::FuncOp function, int64_t newBatch)
      : function(function), newBatch(newBatch) {}

  LogicalResult run() {
    if (failed(findBatch()))
      return failure();
    if (newBatch == 0)
      newBatch = oldBatch;
    bool ok = true;
    {
      // Where the size stays, samples may be mixed.
      std::optional<ScopedDiagnosticHandler> quiet;
      if (oldBatch == newBatch)
        quiet.emplace(function.getContext(), [](Diagnostic &) {});
      for (Operation &op : function.getBody().front().without_terminator())
        ok &= succeeded(propagate(&op));
    }
    markResults(/*isFollowed=*/ok);
    placeSamples(/*isFollowed=*/ok);
    if (oldBatch == newBatch)
      return success();
    if (!ok)
      return failure();
    rewrite();
    return success();
  }

private:
  BatchPosition positionOf(Value value) { return positions.lookup(value); }

  LogicalResult findBatch() {
    oldBatch = step::getBatchSize(function).value_or(0);
    for (BlockArgument argument : function.getArguments()) {
      auto type = cast<RankedTensorType>(argument.getType());
      if (!function.getArgAttr(argument.getArgNumber(), step::batchedAttrName))
        continue;
      if (type.getRank() == 0 || type.getDimSize(0) != oldBatch) {
        auto name = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), step::feedAttrName);
        return function.emitError()
               << "input '" << (name ? name.getValue() : "?") << "' has "
               << (type.getRank() ? type.getDimSize(0) : 0)
               << " samples on axis 0, the inputs before it have " << oldBatch;
      }
      positions[argument] = {0, 1, 1};
    }
    if (oldBatch == 0)
      return function.emitError("has no input with a batch axis");
    return success();
  }

  /// Says which results have the samples on axis 0, and nothing else there.
  /// Where the samples were not followed through all operations, a result with
  /// as many rows as there are samples counts: a program that is fed several
  /// mini-batches must not keep the rows of the last one only.
  void markResults(bool isFollowed) {
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
      auto type = cast<RankedTensorType>(value.getType());
      bool hasRows = type.getRank() > 0 && type.getDimSize(0) == oldBatch;
      if (isFollowed ? positionOf(value) == BatchPosition{0, 1, 1} : hasRows)
        function.setResultAttr(index, step::batchedAttrName,
                               UnitAttr::get(function.getContext()));
    }
  }

  /// Tells what is drawn at random where its samples are. Where samples were
  /// not followed through all operations, numbers that would belong to no
  /// sample may be of several: then they are the first one's of a micro-batch.
  void placeSamples(bool isFollowed) {
    for (auto uniform : function.getBody().front().getOps<UniformOp>()) {
      auto type = uniform.getOutput().getType();
      if (auto [axis, outer, inner] = positionOf(uniform); positionOf(uniform))
        uniform.setSamples(ArrayRef<int64_t>{axis, outer, inner});
      else if (!isFollowed && type.getRank() > 0)
        uniform.setSamples(ArrayRef<int64_t>{0, 1, type.getDimSize(0)});
    }
  }

  /// Makes `value`, which is the same for all samples, hold the samples at
  /// `position`.
  LogicalResult demand(Value value, BatchPosition position) {
    if (positionOf(value) == position)
      return success();
    if (positionOf(value))
      return failure();
    Operation *op = value.getDefiningOp();
    auto batched = dyn_cast_or_null<BatchAxisOpInterface>(op);
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<BatchPosition> operands;
    if (!batched || op->getNumResults() != 1 ||
        type.getDimSize(position.axis) !=
            position.outer * oldBatch * position.inner ||
        failed(batched.demandBatch(position, operands)))
      return failure();
    for (auto [operand, wanted] : llvm::zip(op->getOperands(), operands))
      if (wanted && failed(demand(operand, wanted)))
        return failure();
    positions[value] = position;
    return success();
  }

  LogicalResult propagate(Operation *op) {
    auto batched = dyn_cast<BatchAxisOpInterface>(op);
    if (!batched)
      return op->emitOpError("is not known to the re-batching of models");
    // An elementwise operation needs the samples in all of its operands.
    if (op->hasTrait<OpTrait::Elementwise>() || isa<ConcatOp>(op)) {
      BatchPosition common;
      for (Value operand : op->getOperands())
        if (!common)
          common = positionOf(operand);
      for (auto [index, operand] : llvm::enumerate(op->getOperands()))
        if (common && !positionOf(operand) && failed(demand(operand, common)))
          return op->emitOpError()
                 << "combines samples with operand #" << index
                 << ", which is the same for all " << oldBatch
                 << " samples but cannot be made for another number";
    }
    demandOfIndexed(op);
    SmallVector<BatchPosition> operands, results;
    for (Value operand : op->getOperands())
      operands.push_back(positionOf(operand));
    auto emitError = [&] { return op->emitOpError("cannot be re-batched: "); };
    if (failed(batched.propagateBatch(operands, results, emitError)))
      return failure();
    for (auto [value, position] : llvm::zip(op->getResults(), results))
      if (position)
        positions[value] = position;
    return success();
  }

  /// Gathers and scatters that have the samples on an axis that their operands
  /// share need them in all of these, where that can be had; a scatter needs
  /// them in what it changes and in the updates.
  void demandOfIndexed(Operation *op) {
    if (auto gather = dyn_cast<GatherOp>(op))
      demandTogether({gather.getInput(), gather.getIndices()},
                     gather.getShared());
    if (auto add = dyn_cast<ScatterAddOp>(op))
      demandTogether({add.getIndices(), add.getUpdates()}, add.getShared());
    auto scatter = dyn_cast<ScatterOp>(op);
    if (!scatter)
      return;
    int64_t axis = scatter.getAxis(), shared = scatter.getShared();
    Value input = scatter.getInput(), updates = scatter.getUpdates();
    demandTogether({input, scatter.getIndices(), updates}, shared);
    // Behind the indexed axis, updates have more axes.
    int64_t added = scatter.getIndices().getType().getRank() - shared - 1;
    BatchPosition position = positionOf(input), other = positionOf(updates);
    if (position && !other) {
      position.axis += position.axis > axis ? added : 0;
      (void)demand(updates, position);
    } else if (other && !position &&
               (other.axis < axis || other.axis > axis + added)) {
      other.axis -= other.axis > axis ? added : 0;
      (void)demand(input, other);
    }
  }

  void demandTogether(ArrayRef<Value> values, int64_t shared) {
    BatchPosition common;
    for (Value value : values)
      if (!common && positionOf(value) && positionOf(value).axis < shared)
        common = positionOf(value);
    for (Value value : values)
      if (common && !positionOf(value))
        (void)demand(value, common);
  }

  void rewrite() {
    for (BlockArgument argument : function.getArguments())
      retype(argument);
    for (Operation &op : function.getBody().front().without_terminator()) {
      SmallVector<BatchPosition> operands, results;
      for (Value operand : op.getOperands())
        operands.push_back(positionOf(operand));
      for (Value result : op.getResults())
        results.push_back(positionOf(result));
      // A constant that several operations read may be needed in both forms;
      // demand() changed the one that all of them read.
      cast<BatchAxisOpInterface>(op).rebatch(operands, results, oldBatch,
                                             newBatch);
      for (Value result : op.getResults())
        retype(result);
    }
    Operation *terminator = function.getBody().front().getTerminator();
    function.setType(FunctionType::get(function.getContext(),
                                       function.getBody().getArgumentTypes(),
                                       terminator->getOperandTypes()));
  }

  void retype(Value value) {
    if (BatchPosition position = positionOf(value))
      value.setType(rebatchType(cast<RankedTensorType>(value.getType()),
                                position, oldBatch, newBatch));
  }

  func::FuncOp function;
  int64_t oldBatch = 0;
  int64_t newBatch;
  DenseMap<Value, BatchPosition> positions;
};

struct Rebatch : nn::impl::RebatchBase<Rebatch> {
  using RebatchBase::RebatchBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> main = findMain(getOperation());
    if (failed(main))
      return signalPassFailure();
    func::FuncOp function = *main;
    if (batch < 0 || microbatches < 1) {
      getOperation().emitError()
          << "needs a batch of 0 or more and 1 or more "
             "micro-batches, got "
          << batch.getValue() << " and " << microbatches.getValue();
      return signalPassFailure();
    }
    int64_t oldBatch = step::getBatchSize(function).value_or(0);
    // Each user gets its own constants, so that one can change without the
    // others.
    uniqueConstants(function);
    if ((batch != 0 || oldBatch != 0) &&
        failed(Rebatcher(function, batch).run()))
      return signalPassFailure();
    int64_t newBatch = batch == 0 ? oldBatch : batch;
    function.walk([&](CommitStatisticsOp commit) {
      commit.setMicrobatches(microbatches);
      if (oldBatch)
        commit.setElements(commit.getElements() / oldBatch * newBatch);
    });
  }

  /// Clones splat constants (and what broadcasts them) for each use.
  static void uniqueConstants(func::FuncOp function) {
    SmallVector<Operation *> leaves;
    function.walk([&](Operation *op) {
      if (isa<ConstantOp, BroadcastOp>(op))
        leaves.push_back(op);
    });
    for (Operation *op : llvm::reverse(leaves)) {
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : op->getUses())
        uses.push_back(&use);
      auto constant = dyn_cast<ConstantOp>(op);
      if (uses.size() < 2 || (constant && !constant.getValue().isSplat()))
        continue;
      for (OpOperand *use : ArrayRef(uses).drop_front()) {
        OpBuilder builder(op);
        use->set(builder.clone(*op)->getResult(0));
      }
    }
  }
};

} // namespace
