//===- Rebatch.cpp - Change the batch size --------------------------------===//

#include "ConstantElements.h"
#include "MainFunction.h"
#include "RunningStatistics.h"
#include "SampleCounts.h"
#include "SampleLoops.h"
#include "SampleSums.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace pp::nn {
#define GEN_PASS_DEF_REBATCH
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Follows the batch axis through one function and changes its size. A step has
/// `microbatches` of the new one; the output `loss`, if there is one of this
/// name, may add up samples.
class Rebatcher {
public:
  Rebatcher(func::FuncOp function, int64_t newBatch, int64_t microbatches,
            StringRef loss, bool averagesMeans, bool countsSamples,
            int64_t mostSeparateAxes)
      : function(function), newBatch(newBatch), microbatches(microbatches),
        countsSamples(countsSamples), mostSeparateAxes(mostSeparateAxes),
        loss(loss), elements(function->getParentOfType<ModuleOp>()),
        sums(averagesMeans) {}

  LogicalResult run() {
    if (failed(findBatch()))
      return failure();
    if (newBatch == 0)
      newBatch = oldBatch;
    loops.emplace(oldBatch);
    bool ok = true;
    Operation *mixing = nullptr; // the first one, where samples may be mixed
    {
      // Where the size stays, samples may be mixed.
      std::optional<ScopedDiagnosticHandler> quiet;
      if (oldBatch == newBatch)
        quiet.emplace(function.getContext(), [](Diagnostic &) {});
      for (Operation &op : llvm::make_early_inc_range(
               function.getBody().front().without_terminator()))
        if (failed(propagate(&op))) {
          mixing = mixing ? mixing : &op;
          ok = false;
        }
      ok &= succeeded(checkResults());
    }
    eraseDead();
    markResults(/*isFollowed=*/ok);
    placeSamples(/*isFollowed=*/ok);
    if (!ok && oldBatch != newBatch)
      return failure();
    countsSamples &= requireWholeBatches(mixing);
    if (oldBatch != newBatch) {
      loops->shrink(function.getBody().front(), newBatch);
      rewrite();
      sums.divide(1.0 / static_cast<double>(microbatches));
    }
    if (ok)
      separateResults();
    return success(!countsSamples || succeeded(countRows()));
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

  /// A result that counts samples would have other numbers in a micro-batch.
  LogicalResult checkResults() {
    for (auto [index, value] : llvm::enumerate(
             function.getBody().front().getTerminator()->getOperands()))
      if (sums.isSum(value) && !isLoss(index))
        return emitError(value.getLoc(), "cannot be re-batched: gives a ")
               << "sum over all samples as a result";
      else if (counts.lookup(value) != 0)
        return emitError(value.getLoc(), "cannot be re-batched: gives the ")
               << "numbers of samples as a result";
      else if (loops->isSingle(value))
        return emitError(value.getLoc(), "cannot be re-batched: gives a ")
               << "part of one sample as a result";
    return success();
  }

  bool isLoss(unsigned result) {
    auto name =
        function.getResultAttrOfType<StringAttr>(result, step::fetchAttrName);
    return name && !loss.empty() && name.getValue() == loss;
  }

  /// Erases what was copied for all of its readers, and what no reader took.
  void eraseDead() {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
      if (duplicates.contains(&op) && op.use_empty())
        op.erase();
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
      if (isFollowed && sums.isSum(value))
        function.setResultAttr(index, step::addedAttrName,
                               UnitAttr::get(function.getContext()));
    }
  }

  /// Samples are beside other rows, as in (samples x tokens) x words, or behind
  /// them: what runs several micro-batches could not tell whose a row is.
  ///
  ///   [8 * 64, 4096] ──▶ [8, 64, 4096]
  ///   [64 * 8, 4096] ──▶ [64, 8, 4096] ──▶ [8, 64, 4096]
  void separateResults() {
    Operation *terminator = function.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    for (OpOperand &operand : terminator->getOpOperands()) {
      Value value = operand.get();
      const BatchPosition position = positionOf(value);
      if (position && !(position == BatchPosition{0, 1, 1}) &&
          !sums.isSum(value))
        separate(operand, position, builder);
    }
    function.setType(FunctionType::get(function.getContext(),
                                       function.getBody().getArgumentTypes(),
                                       terminator->getOperandTypes()));
  }

  void separate(OpOperand &result, const BatchPosition &position,
                OpBuilder &builder) {
    Value value = result.get();
    auto type = cast<RankedTensorType>(value.getType());
    const auto [axis, outer, inner] = position;
    const bool hasRows = outer * inner > 1;
    if (type.getRank() + hasRows > mostSeparateAxes)
      return;
    ArrayRef<int64_t> shape = type.getShape();
    auto reshape = [&](Value from, ArrayRef<int64_t> sizes) -> Value {
      return ReshapeOp::create(builder, value.getLoc(), type.clone(sizes),
                               from);
    };
    SmallVector<int64_t> split(shape.take_front(axis));
    split.append({outer, newBatch, inner});
    llvm::append_range(split, shape.drop_front(axis + 1));
    SmallVector<int64_t> permutation{axis + 1};
    for (int64_t i = 0; i < std::ssize(split); ++i)
      if (i != axis + 1)
        permutation.push_back(i);
    SmallVector<int64_t> sizes{newBatch};
    llvm::append_range(sizes, shape.take_front(axis));
    if (hasRows)
      sizes.push_back(outer * inner);
    llvm::append_range(sizes, shape.drop_front(axis + 1));
    Value separate = value;
    if (axis > 0 || outer > 1)
      separate = TransposeOp::create(builder, value.getLoc(),
                                     reshape(value, split), permutation);
    result.set(reshape(separate, sizes));
    const unsigned number = result.getOperandNumber();
    function.setResultAttr(number, step::batchedAttrName,
                           builder.getUnitAttr());
    function.setResultAttr(number, step::samplesAttrName,
                           builder.getDenseI64ArrayAttr({axis, outer, inner}));
  }

  /// Says so where a sample's result depends on the other rows, which then must
  /// all be samples, unless norms leave the others out: then true.
  bool requireWholeBatches(Operation *mixing) {
    bool hasNorms = false, canCount = countsSamples && !mixing;
    StringRef what = "mixes samples";
    for (auto norm : function.getBody().front().getOps<BatchNormOp>()) {
      auto [axis, outer, inner] = positionOf(norm.getInput());
      canCount &= axis == 0 && outer == 1 && inner > 0;
      hasNorms = true;
      if (!mixing) {
        mixing = norm;
        what = "normalises over the samples of a micro-batch";
      }
    }
    if (!mixing)
      return false;
    auto named = mixing->getLoc()->findInstanceOf<NameLoc>();
    StringRef name =
        named ? named.getName().getValue() : mixing->getName().getStringRef();
    auto reason =
        StringAttr::get(function.getContext(), "'" + name + "' " + what);
    function->setAttr(step::mixesSamplesAttrName, reason);
    if (!canCount)
      function->setAttr(step::wholeBatchesAttrName, reason);
    return canCount && hasNorms;
  }

  /// Lets norms leave out the rows without a sample, and running statistics
  /// count the others.
  LogicalResult countRows() {
    auto counter = step::getRandomCounter(function);
    if (failed(counter))
      return failure();
    auto number =
        RankedTensorType::get({}, IntegerType::get(function.getContext(), 32));
    for (auto norm : function.getBody().front().getOps<BatchNormOp>()) {
      OpBuilder builder(norm);
      norm.getRowsMutable().assign(
          PresentRowsOp::create(builder, norm.getLoc(), number, *counter,
                                newBatch, positionOf(norm.getInput()).inner));
    }
    for (auto commit : function.getBody().front().getOps<CommitStatisticsOp>())
      commit.setSamples(newBatch);
    return success();
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

  /// Makes `operand`, which is the same for all samples, hold the samples at
  /// `position`. What makes it is copied where others read it as it is.
  LogicalResult demand(OpOperand &operand, BatchPosition position) {
    Value value = operand.get();
    if (positionOf(value) == position)
      return success();
    for (auto [known, copy] : copies.lookup(value))
      if (known == position && positionOf(copy) == position) {
        operand.set(copy);
        return success();
      }
    Operation *op = value.getDefiningOp();
    if (Value made =
            fits(value, position) ? makeOfEach(op, position) : Value()) {
      operand.set(made);
      if (failed(demand(operand, position)))
        return failure();
      copies[value].push_back({position, operand.get()});
      return success();
    }
    if (positionOf(value) || !isa_and_nonnull<BatchAxisOpInterface>(op) ||
        !fits(value, position) ||
        llvm::is_contained(refused.lookup(value), position))
      return failure();
    unsigned index = cast<OpResult>(value).getResultNumber();
    bool isShared = !value.hasOneUse() || !op->hasOneUse();
    Operation *made = isShared ? OpBuilder(op).clone(*op) : op;
    size_t before = demanded.size();
    if (failed(demandOfOperands(made, index, position)) ||
        failed(countSamples(made, position))) {
      forget(before);
      if (isShared)
        made->erase();
      refused[value].push_back(position);
      return failure();
    }
    positions[made->getResult(index)] = position;
    demanded.push_back(made->getResult(index));
    placeOtherResults(made, index);
    if (isShared) {
      duplicates.insert(op);
      duplicates.insert(made);
      copies[value].push_back({position, made->getResult(index)});
      operand.set(made->getResult(index));
    }
    return success();
  }

  /// Whether the value has as many samples as `position` says.
  bool fits(Value value, BatchPosition position) const {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getDimSize(position.axis) ==
           position.outer * oldBatch * position.inner;
  }

  /// What a constant or a parameter is, if it was made for the samples at
  /// `position`: as what counts them, or one sample that is repeated. Else
  /// null.
  Value makeOfEach(Operation *op, BatchPosition position) {
    if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
      Value counted = countWithIota(constant, position, oldBatch);
      if (counted)
        duplicates.insert(constant);
      return counted;
    }
    auto parameter = dyn_cast_or_null<ParameterOp>(op);
    return parameter ? repeatOne(parameter, elements, position, oldBatch)
                     : Value();
  }

  /// Finds the counts of the results of `op`, which hold the samples at
  /// `position`, from those of its operands.
  LogicalResult countSamples(Operation *op, BatchPosition position) {
    SmallVector<int64_t> own;
    for (Value operand : op->getOperands())
      own.push_back(counts.lookup(operand));
    FailureOr<int64_t> count = countOfResults(op, own);
    if (failed(count))
      return failure();
    auto iota = dyn_cast<IotaOp>(op);
    if (iota && static_cast<int64_t>(iota.getAxis()) == position.axis)
      count = position.inner;
    if (*count != 0)
      for (Value result : op->getResults())
        counts[result] = *count;
    return success();
  }

  /// Takes back what was demanded after the first `before` values.
  void forget(size_t before) {
    for (Value value : ArrayRef(demanded).drop_front(before)) {
      positions.erase(value);
      counts.erase(value);
    }
    demanded.truncate(before);
  }

  /// Where the samples of the other results are, after the operands of `op` and
  /// result `index` got theirs.
  void placeOtherResults(Operation *op, unsigned index) {
    if (op->getNumResults() == 1)
      return;
    SmallVector<BatchPosition> operands, results;
    for (Value operand : op->getOperands())
      operands.push_back(positionOf(operand));
    (void)propagateQuietly(cast<BatchAxisOpInterface>(op), operands, results);
    for (auto [result, position] : llvm::zip(op->getResults(), results))
      if (position && result.getResultNumber() != index) {
        positions[result] = position;
        demanded.push_back(result);
      }
  }

  static LogicalResult
  propagateQuietly(BatchAxisOpInterface op, ArrayRef<BatchPosition> operands,
                   SmallVectorImpl<BatchPosition> &results) {
    return op.propagateBatch(operands, results, [&] {
      InFlightDiagnostic diagnostic = op->emitError();
      diagnostic.abandon();
      return diagnostic;
    });
  }

  /// Makes the operands of `op` such that its result `index` holds the samples
  /// at `position`: as the operation says, or those from which its rule leads
  /// there.
  LogicalResult demandOfOperands(Operation *op, unsigned index,
                                 BatchPosition position) {
    auto batched = cast<BatchAxisOpInterface>(op);
    SmallVector<BatchPosition> wanted;
    if (op->getNumResults() == 1 &&
        succeeded(batched.demandBatch(position, wanted)))
      return demandAll(op, wanted);
    // The places of each operand where as many samples can be.
    SmallVector<SmallVector<BatchPosition>> places;
    for (Value operand : op->getOperands()) {
      auto type = cast<RankedTensorType>(operand.getType());
      SmallVector<BatchPosition> &own = places.emplace_back(1);
      for (int64_t axis = 0; axis < type.getRank(); ++axis)
        if (type.getDimSize(axis) == position.outer * oldBatch * position.inner)
          own.push_back({axis, position.outer, position.inner});
    }
    wanted.assign(places.size(), BatchPosition());
    return demandPlaces(batched, index, position, places, wanted, 0);
  }

  /// Tries all `places` for the operands from `next` on.
  LogicalResult demandPlaces(BatchAxisOpInterface op, unsigned index,
                             BatchPosition position,
                             ArrayRef<SmallVector<BatchPosition>> places,
                             MutableArrayRef<BatchPosition> wanted,
                             size_t next) {
    if (next < places.size()) {
      for (BatchPosition place : places[next]) {
        wanted[next] = place;
        if (succeeded(
                demandPlaces(op, index, position, places, wanted, next + 1)))
          return success();
      }
      return failure();
    }
    SmallVector<BatchPosition> results;
    bool leadsThere = succeeded(propagateQuietly(op, wanted, results)) &&
                      index < results.size() && results[index] == position;
    return success(leadsThere && succeeded(demandAll(op, wanted)));
  }

  /// Makes all operands of `op` that have a `wanted` position, or none.
  LogicalResult demandAll(Operation *op, ArrayRef<BatchPosition> wanted) {
    size_t before = demanded.size();
    for (auto [operand, position] : llvm::zip(op->getOpOperands(), wanted))
      if (position && failed(demand(operand, position))) {
        forget(before);
        return failure();
      }
    return success();
  }

  /// An operation on a part of one sample.
  LogicalResult propagateSingle(Operation *op) {
    if (auto concat = dyn_cast<ConcatOp>(op); concat && newBatch <= oldBatch)
      if (BatchPosition position = loops->join(concat)) {
        positions[concat] = position;
        return success();
      }
    bool isMixed = llvm::any_of(op->getOperands(), [&](Value operand) {
      return positionOf(operand) || counts.lookup(operand) != 0;
    });
    if (isMixed || failed(loops->follow(op)))
      return op->emitOpError("cannot be re-batched: combines a part of one "
                             "sample with others");
    return success();
  }

  /// An operation on a sum over all samples.
  LogicalResult propagateSum(Operation *op) {
    for (Value operand : op->getOperands())
      if (positionOf(operand) || counts.lookup(operand) != 0)
        return op->emitOpError("cannot be re-batched: combines samples with a "
                               "sum over all of them");
    return sums.follow(op);
  }

  LogicalResult propagate(Operation *op) {
    auto batched = dyn_cast<BatchAxisOpInterface>(op);
    if (!batched)
      return op->emitOpError("is not known to the re-batching of models");
    if (loops->hasSingle(op))
      return propagateSingle(op);
    if (sums.hasSum(op))
      return propagateSum(op);
    // What divides by the number of samples knows that of a mini-batch.
    if (!loss.empty() && microbatches > 1 &&
        newBatch * microbatches == oldBatch && op->getNumOperands() > 0 &&
        sums.take(op, positionOf(op->getOperand(0))))
      return success();
    if (op->getNumOperands() > 0 &&
        loops->take(op, positionOf(op->getOperand(0))))
      return success();
    // An elementwise operation needs the samples in all of its operands.
    if (op->hasTrait<OpTrait::Elementwise>() || isa<ConcatOp>(op)) {
      BatchPosition common;
      for (Value operand : op->getOperands())
        if (!common)
          common = positionOf(operand);
      for (auto [index, operand] : llvm::enumerate(op->getOpOperands()))
        if (common && !positionOf(operand.get()) &&
            failed(demand(operand, common)))
          return op->emitOpError()
                 << "combines samples with operand #" << index
                 << ", which is the same for all " << oldBatch
                 << " samples but cannot be made for another number";
    }
    demandOfShared(op);
    if (auto gather = dyn_cast<GatherOp>(op); gather && splitSamples(gather))
      return success();
    if (failed(countSamples(op, BatchPosition())))
      return op->emitOpError(
          "cannot be re-batched: computes with the numbers of samples");
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

  /// Lets each sample pick from itself where the indices of `gather` count the
  /// samples on its axis, and erases it. False if it is another one.
  bool splitSamples(GatherOp gather) {
    BatchPosition input = positionOf(gather.getInput());
    BatchPosition indices = positionOf(gather.getIndices());
    if (gather.getShared() != 0 || !input || !indices || input.outer != 1 ||
        input.axis != static_cast<int64_t>(gather.getAxis()) ||
        counts.lookup(gather.getIndices()) != input.inner)
      return false;
    OwnSampleGather own = pickFromOwnSample(gather, input, indices, oldBatch);
    for (auto [value, position] : own.values)
      positions[value] = position;
    gather.replaceAllUsesWith(own.result);
    gather->erase();
    return true;
  }

  /// Gathers, scatters and products that have the samples on an axis that their
  /// operands share need them in all of these, where that can be had; a scatter
  /// needs them in what it changes and in the updates.
  void demandOfShared(Operation *op) {
    if (auto gather = dyn_cast<GatherOp>(op))
      demandTogether({&gather.getInputMutable(), &gather.getIndicesMutable()},
                     gather.getShared());
    if (auto add = dyn_cast<ScatterAddOp>(op))
      demandTogether({&add.getIndicesMutable(), &add.getUpdatesMutable()},
                     add.getShared());
    if (auto dot = dyn_cast<DotGeneralOp>(op))
      demandOfProduct(dot);
    auto scatter = dyn_cast<ScatterOp>(op);
    if (!scatter)
      return;
    int64_t axis = scatter.getAxis(), shared = scatter.getShared();
    OpOperand &input = scatter.getInputMutable();
    OpOperand &updates = scatter.getUpdatesMutable();
    demandTogether({&input, &scatter.getIndicesMutable(), &updates}, shared);
    // Behind the indexed axis, updates have more axes.
    int64_t added = scatter.getIndices().getType().getRank() - shared - 1;
    BatchPosition position = positionOf(input.get()),
                  other = positionOf(updates.get());
    if (position && !other) {
      position.axis += position.axis > axis ? added : 0;
      (void)demand(updates, position);
    } else if (other && !position &&
               (other.axis < axis || other.axis > axis + added)) {
      other.axis -= other.axis > axis ? added : 0;
      (void)demand(input, other);
    }
  }

  void demandTogether(ArrayRef<OpOperand *> operands, int64_t shared) {
    BatchPosition common;
    for (OpOperand *operand : operands)
      if (BatchPosition own = positionOf(operand->get());
          !common && own && own.axis < shared)
        common = own;
    for (OpOperand *operand : operands)
      if (common && !positionOf(operand->get()))
        (void)demand(*operand, common);
  }

  /// Products that run along samples need them in both factors.
  void demandOfProduct(DotGeneralOp dot) {
    OpOperand *with = &dot.getLhsMutable(), *without = &dot.getRhsMutable();
    ArrayRef<int64_t> from = dot.getLhsBatch(), to = dot.getRhsBatch();
    if (!positionOf(with->get())) {
      std::swap(with, without);
      std::swap(from, to);
    }
    BatchPosition position = positionOf(with->get());
    if (!position || positionOf(without->get()))
      return;
    for (auto [own, other] : llvm::zip(from, to))
      if (own == position.axis) {
        position.axis = other;
        (void)demand(*without, position);
        return;
      }
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
  int64_t newBatch, microbatches;
  bool countsSamples;
  int64_t mostSeparateAxes;
  StringRef loss;
  ConstantElements elements;
  DenseMap<Value, BatchPosition> positions;
  /// Of whole numbers that grow from sample to sample: by how much.
  DenseMap<Value, int64_t> counts;
  /// What is of one sample alone.
  std::optional<SampleLoops> loops;
  /// What is a part of a sum over the samples of a mini-batch.
  SampleSums sums;
  /// Values that demand() gave samples, in order.
  SmallVector<Value> demanded;
  /// The copies of a value that hold samples.
  DenseMap<Value, SmallVector<std::pair<BatchPosition, Value>>> copies;
  /// What was copied, and the copies.
  SmallPtrSet<Operation *, 16> duplicates;
  /// Where the samples of a value cannot be.
  DenseMap<Value, SmallVector<BatchPosition>> refused;
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
    if ((batch != 0 || oldBatch != 0) &&
        failed(Rebatcher(function, batch, microbatches, loss, averagesMeans,
                         countsSamples, mostSeparateAxes)
                   .run()))
      return signalPassFailure();
    int64_t newBatch = batch == 0 ? oldBatch : batch;
    function.walk([&](CommitStatisticsOp commit) {
      commit.setMicrobatches(microbatches);
      if (oldBatch)
        commit.setElements(commit.getElements() * newBatch / oldBatch);
    });
    if (failed(weighStatistics(function, microbatches, newBatch)))
      signalPassFailure();
  }
};

} // namespace
