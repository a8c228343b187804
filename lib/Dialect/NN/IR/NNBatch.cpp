//===- NNBatch.cpp - How the batch axis passes through nn -----------------===//
//
// The factor rules of each operation that is not elementwise. Positions are
// {axis, outer, inner}; see BatchAxisOpInterface.h.
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/NN.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

using Positions = ArrayRef<BatchPosition>;
using PositionsOut = SmallVectorImpl<BatchPosition>;
using EmitError = function_ref<InFlightDiagnostic()>;

/// The position with its axis renumbered.
static BatchPosition onAxis(BatchPosition position, int64_t axis) {
  position.axis = axis;
  return position;
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

/// Calls `visit(first, other)` for the elements of each sample but the first,
/// in the order of `type`, with the place of the same element of the first
/// sample, until it returns false.
static bool
walkSamples(RankedTensorType type, BatchPosition position,
            function_ref<bool(int64_t first, int64_t other)> visit) {
  int64_t size = type.getDimSize(position.axis);
  int64_t batch = size / (position.outer * position.inner);
  int64_t within = position.inner;
  for (int64_t axis = position.axis + 1; axis < type.getRank(); ++axis)
    within *= type.getDimSize(axis);
  for (int64_t index = 0, end = type.getNumElements(); index < end; ++index) {
    int64_t sample = index / within % batch;
    if (sample && !visit(index - sample * within, index))
      return false;
  }
  return true;
}

LogicalResult ConstantOp::demandBatch(BatchPosition position,
                                      PositionsOut &operands) {
  if (getValue().isSplat())
    return success();
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense)
    return failure();
  auto values = dense.getValues<Attribute>();
  return success(walkSamples(cast<RankedTensorType>(dense.getType()), position,
                             [&](int64_t first, int64_t other) {
                               return values[first] == values[other];
                             }));
}

void ConstantOp::rebatch(Positions operands, Positions results,
                         int64_t oldBatch, int64_t newBatch) {
  if (!results[0])
    return;
  auto dense = cast<DenseElementsAttr>(getValue());
  auto oldType = cast<RankedTensorType>(dense.getType());
  auto type = rebatchType(oldType, results[0], oldBatch, newBatch);
  if (dense.isSplat()) {
    setValueAttr(
        DenseElementsAttr::get(type, dense.getSplatValue<Attribute>()));
    return;
  }
  // All samples are equal, so those of the first are repeated.
  auto [axis, outer, inner] = results[0];
  int64_t within = inner;
  for (int64_t size : oldType.getShape().drop_front(axis + 1))
    within *= size;
  auto values = dense.getValues<Attribute>();
  SmallVector<Attribute> elements;
  elements.reserve(type.getNumElements());
  for (int64_t block = 0, end = oldType.getNumElements() / (within * oldBatch);
       block < end; ++block)
    for (int64_t sample = 0; sample < newBatch; ++sample)
      for (int64_t index = 0; index < within; ++index)
        elements.push_back(values[block * oldBatch * within + index]);
  setValueAttr(DenseElementsAttr::get(type, elements));
}

LogicalResult IotaOp::demandBatch(BatchPosition position,
                                  PositionsOut &operands) {
  // Along the samples it counts them, and what each of them has.
  return success(position.axis != static_cast<int64_t>(getAxis()) ||
                 position.outer == 1);
}

LogicalResult PresentRowsOp::demandBatch(BatchPosition position,
                                         PositionsOut &operands) {
  return failure(); // the same for all samples
}

LogicalResult UniformOp::demandBatch(BatchPosition position,
                                     PositionsOut &operands) {
  operands.assign(1, BatchPosition());
  return success();
}

LogicalResult AccumulateOp::propagateBatch(Positions operands,
                                           PositionsOut &results,
                                           EmitError emitError) {
  if (operands[0])
    return emitError() << "adds a value per sample to a state";
  return success();
}

//===----------------------------------------------------------------------===//
// Moving elements
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::propagateBatch(Positions operands,
                                        PositionsOut &results,
                                        EmitError emitError) {
  results.assign(1, BatchPosition());
  if (!operands[0])
    return success();
  if (getInput().getType().getNumElements() == 0)
    return emitError() << "has no elements";
  ArrayRef<int64_t> from = getInput().getType().getShape();
  ArrayRef<int64_t> to = getOutput().getType().getShape();
  auto [axis, outer, inner] = operands[0];
  // Elements before and including the samples, counted row-major.
  int64_t before = outer;
  for (int64_t size : from.take_front(axis))
    before *= size;
  int64_t batch = from[axis] / (outer * inner);

  int64_t prefix = 1;
  for (auto [candidate, size] : llvm::enumerate(to)) {
    // With one sample several axes fit; the first in row-major order is where
    // exporters put it.
    bool begins = before % prefix == 0;
    int64_t newOuter = begins ? before / prefix : 0;
    if (begins && size % (newOuter * batch) == 0) {
      results[0] = {static_cast<int64_t>(candidate), newOuter,
                    size / (newOuter * batch)};
      return success();
    }
    prefix *= size;
  }
  return emitError() << "splits the " << batch
                     << " samples of its operand over several axes";
}

LogicalResult ReshapeOp::demandBatch(BatchPosition position,
                                     PositionsOut &operands) {
  if (getInput().getType().getNumElements() == 0)
    return failure();
  // The samples start a new axis of size one in the operand, or lie on the
  // axis of the same row-major place.
  ArrayRef<int64_t> from = getInput().getType().getShape();
  ArrayRef<int64_t> to = getOutput().getType().getShape();
  int64_t before = position.outer;
  for (int64_t size : to.take_front(position.axis))
    before *= size;
  int64_t batch = to[position.axis] / (position.outer * position.inner);
  int64_t prefix = 1;
  for (auto [candidate, size] : llvm::enumerate(from)) {
    int64_t newOuter = before % prefix == 0 ? before / prefix : 0;
    if (newOuter && size % (newOuter * batch) == 0) {
      operands.assign(1, {static_cast<int64_t>(candidate), newOuter,
                          size / (newOuter * batch)});
      return success();
    }
    prefix *= size;
  }
  return failure();
}

LogicalResult TransposeOp::propagateBatch(Positions operands,
                                          PositionsOut &results,
                                          EmitError emitError) {
  results.assign(1, BatchPosition());
  if (operands[0])
    for (auto [to, from] : llvm::enumerate(getPermutation()))
      if (from == operands[0].axis)
        results[0] = onAxis(operands[0], to);
  return success();
}

LogicalResult TransposeOp::demandBatch(BatchPosition position,
                                       PositionsOut &operands) {
  operands.assign(1, onAxis(position, getPermutation()[position.axis]));
  return success();
}

LogicalResult BroadcastOp::propagateBatch(Positions operands,
                                          PositionsOut &results,
                                          EmitError emitError) {
  results.assign(1, BatchPosition());
  if (operands[0])
    results[0] = onAxis(operands[0], getAxes()[operands[0].axis]);
  return success();
}

LogicalResult ConcatOp::demandBatch(BatchPosition position,
                                    PositionsOut &operands) {
  operands.assign(getInputs().size(), position);
  return success(position.axis != static_cast<int64_t>(getAxis()));
}
LogicalResult BroadcastOp::demandBatch(BatchPosition position,
                                       PositionsOut &operands) {
  operands.assign(1, BatchPosition());
  for (auto [from, to] : llvm::enumerate(getAxes()))
    if (to == position.axis)
      operands[0] = onAxis(position, from);
  return success();
}

LogicalResult SliceOp::propagateBatch(Positions operands, PositionsOut &results,
                                      EmitError emitError) {
  results.assign(1, operands[0]);
  if (!operands[0])
    return success();
  // Whole blocks of all samples, such as the halves of what was joined.
  auto [axis, outer, inner] = operands[0];
  int64_t block = getInput().getType().getDimSize(axis) / outer;
  int64_t start = getStarts()[axis], limit = getLimits()[axis];
  if (getStrides()[axis] != 1 || start % block != 0 || limit % block != 0 ||
      start == limit)
    return emitError() << "takes a part of the axis that holds the samples";
  results[0].outer = (limit - start) / block;
  return success();
}

void SliceOp::rebatch(Positions operands, Positions results, int64_t oldBatch,
                      int64_t newBatch) {
  // What is of one sample alone stays.
  if (!results[0])
    return;
  int64_t axis = operands[0].axis;
  SmallVector<int64_t> starts(getStarts()), limits(getLimits());
  starts[axis] = starts[axis] / oldBatch * newBatch;
  limits[axis] = limits[axis] / oldBatch * newBatch;
  setStarts(starts);
  setLimits(limits);
}

LogicalResult PadOp::propagateBatch(Positions operands, PositionsOut &results,
                                    EmitError emitError) {
  results.assign(1, operands[0]);
  if (!operands[0])
    return success();
  int64_t axis = operands[0].axis;
  if (getLow()[axis] || getHigh()[axis] || getInterior()[axis])
    return emitError() << "pads the axis that holds the samples";
  return success();
}

LogicalResult ConcatOp::propagateBatch(Positions operands,
                                       PositionsOut &results,
                                       EmitError emitError) {
  auto isJoined = [&](BatchPosition position) {
    return position && position.axis == static_cast<int64_t>(getAxis());
  };
  if (llvm::any_of(operands, isJoined)) {
    // All operands' blocks of samples follow each other.
    results.assign(1, operands[0]);
    results[0].outer = 0;
    for (BatchPosition other : operands) {
      if (!isJoined(other) || other.inner != operands[0].inner)
        return emitError() << "joins samples with what is the same for all of "
                              "them, or lies "
                              "elsewhere";
      results[0].outer += other.outer;
    }
    return success();
  }
  return ::pp::detail::propagateBatchElementwise(*this, operands, results,
                                                 emitError);
}

/// Whether the samples are on one of the first `shared` axes.
static bool isShared(BatchPosition position, int64_t shared) {
  return position && position.axis < shared;
}

LogicalResult GatherOp::propagateBatch(Positions operands,
                                       PositionsOut &results,
                                       EmitError emitError) {
  int64_t axis = getAxis(), shared = getShared();
  int64_t indexRank = getIndices().getType().getRank() - shared;
  results.assign(1, BatchPosition());
  if (isShared(operands[0], shared) || isShared(operands[1], shared)) {
    results[0] = operands[0];
    if (operands[0] != operands[1])
      return emitError() << "picks from samples by an index of other samples";
    return success();
  }
  if (operands[0] && operands[1])
    return emitError() << "picks from samples by an index that differs from "
                          "sample to sample";
  if (operands[1])
    results[0] = onAxis(operands[1], axis + operands[1].axis - shared);
  if (operands[0]) {
    if (operands[0].axis == axis)
      return emitError() << "picks along the axis that holds the samples";
    int64_t from = operands[0].axis;
    results[0] = onAxis(operands[0], from < axis ? from : from + indexRank - 1);
  }
  return success();
}

LogicalResult ScatterAddOp::propagateBatch(Positions operands,
                                           PositionsOut &results,
                                           EmitError emitError) {
  results.assign(1, BatchPosition());
  BatchPosition indices = operands[0], updates = operands[1];
  if (!indices && !updates)
    return success();
  // The same indices for all samples, which are on another axis.
  int64_t axis = getAxis();
  int64_t indexRank = getIndices().getType().getRank() - getShared();
  if (!indices && updates.axis < axis) {
    results[0] = updates;
    return success();
  }
  if (!indices && updates.axis >= axis + indexRank) {
    results[0] = onAxis(updates, updates.axis - indexRank + 1);
    return success();
  }
  if (indices != updates || !isShared(indices, getShared()))
    return emitError() << "adds up samples";
  results[0] = indices;
  return success();
}

LogicalResult ScatterOp::propagateBatch(Positions operands,
                                        PositionsOut &results,
                                        EmitError emitError) {
  auto [input, indices, updates] =
      std::tuple(operands[0], operands[1], operands[2]);
  results.assign(1, input);
  if (!input && !indices && !updates)
    return success();
  int64_t axis = getAxis(), shared = getShared();
  if (!input || !updates)
    return emitError() << "puts samples into a tensor that is the same for all "
                          "of them, or the other way around";
  if (input.axis == axis)
    return emitError() << "puts slices along the axis that holds the samples";
  // The same indices for all samples, or those of each sample.
  int64_t indexRank = getIndices().getType().getRank() - shared;
  int64_t at = input.axis < axis ? input.axis : input.axis + indexRank - 1;
  bool hasOwn = isShared(input, shared);
  if (updates != onAxis(input, at) ||
      indices != (hasOwn ? input : BatchPosition()))
    return emitError() << "has updates or indices with other samples";
  return success();
}

LogicalResult CumSumOp::propagateBatch(Positions operands,
                                       PositionsOut &results,
                                       EmitError emitError) {
  results.assign(1, operands[0]);
  if (operands[0] && operands[0].axis == static_cast<int64_t>(getAxis()))
    return emitError() << "sums along the axis that holds the samples";
  return success();
}

LogicalResult TopKOp::propagateBatch(Positions operands, PositionsOut &results,
                                     EmitError emitError) {
  results.assign(1, operands[0]);
  if (operands[0] && operands[0].axis == getInput().getType().getRank() - 1)
    return emitError() << "orders along the axis that holds the samples";
  return success();
}

/// The position in a tensor from which `axes` were removed.
static LogicalResult removeAxes(BatchPosition position, ArrayRef<int64_t> axes,
                                BatchPosition &result) {
  result = position;
  if (!position)
    return success();
  if (llvm::is_contained(axes, position.axis))
    return failure();
  for (int64_t axis : axes)
    if (axis < position.axis)
      --result.axis;
  return success();
}

LogicalResult ReduceOp::propagateBatch(Positions operands,
                                       PositionsOut &results,
                                       EmitError emitError) {
  results.assign(1, BatchPosition());
  if (failed(removeAxes(operands[0], getAxes(), results[0])))
    return emitError() << "reduces the axis that holds the samples";
  return success();
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

LogicalResult DotGeneralOp::propagateBatch(Positions operands,
                                           PositionsOut &results,
                                           EmitError emitError) {
  results.assign(1, BatchPosition());
  int64_t batches = getLhsBatch().size();
  SmallVector<int64_t> lhsFree = getFreeAxes(false),
                       rhsFree = getFreeAxes(true);
  BatchPosition lhs, rhs;
  auto place = [&](BatchPosition position, ArrayRef<int64_t> batch,
                   ArrayRef<int64_t> free, int64_t firstFree,
                   BatchPosition &result) -> LogicalResult {
    if (!position)
      return success();
    for (auto [index, axis] : llvm::enumerate(batch))
      if (axis == position.axis) {
        result = onAxis(position, index);
        return success();
      }
    for (auto [index, axis] : llvm::enumerate(free))
      if (axis == position.axis) {
        result = onAxis(position, firstFree + index);
        return success();
      }
    return emitError() << "sums over the axis that holds the samples";
  };
  if (failed(place(operands[0], getLhsBatch(), lhsFree, batches, lhs)) ||
      failed(place(operands[1], getRhsBatch(), rhsFree,
                   batches + lhsFree.size(), rhs)))
    return failure();
  if (lhs && rhs && lhs != rhs)
    return emitError() << "multiplies every sample with every other";
  if (static_cast<bool>(lhs) != static_cast<bool>(rhs) &&
      (lhs ? lhs : rhs).axis < batches)
    return emitError() << "runs along the samples of only one operand";
  results[0] = lhs ? lhs : rhs;
  return success();
}

/// A product of the rows of the first operand, of `rank` axes, with what is the
/// same for all samples.
static LogicalResult propagateRows(Positions operands, int64_t rank,
                                   PositionsOut &results, EmitError emitError) {
  BatchPosition position = operands[0];
  bool isOfSamples = llvm::any_of(
      operands.drop_front(), [](BatchPosition other) { return bool(other); });
  if (isOfSamples || (position && position.axis + 1 == rank))
    return emitError() << "sums over the axis that holds the samples";
  results.assign(1, position);
  return success();
}

LogicalResult IntegerProductOp::propagateBatch(Positions operands,
                                               PositionsOut &results,
                                               EmitError emitError) {
  return propagateRows(operands, getLhs().getType().getRank(), results,
                       emitError);
}

LogicalResult BlockProductOp::propagateBatch(Positions operands,
                                             PositionsOut &results,
                                             EmitError emitError) {
  return propagateRows(operands, getLhs().getType().getRank(), results,
                       emitError);
}

/// Attention: samples on the batch or the heads of all tensors. `operands` are
/// the positions of some of them, with their axes; `position` becomes the
/// common one, on the axes batch, head, row, column.
static LogicalResult
propagateHeads(ArrayRef<std::pair<BatchPosition, ArrayRef<int64_t>>> operands,
               BatchPosition &position, EmitError emitError) {
  for (auto [index, operand] : llvm::enumerate(operands)) {
    auto [own, axes] = operand;
    if (own)
      own = onAxis(own, llvm::find(axes, own.axis) - axes.begin());
    if (own && own.axis > 1)
      return emitError() << "mixes the rows that hold the samples";
    if (index != 0 && own != position)
      return emitError() << "has a query, a key and a value with different "
                            "samples";
    position = own;
  }
  return success();
}

/// A mask is the same for all samples, or has theirs.
static LogicalResult checkMask(BatchPosition mask, BatchPosition position,
                               EmitError emitError) {
  if (mask && mask != position)
    return emitError() << "has a mask of other samples than the query";
  return success();
}

/// `position` among the axes of a tensor.
static BatchPosition inAxes(BatchPosition position, ArrayRef<int64_t> axes) {
  return position ? onAxis(position, axes[position.axis]) : position;
}

LogicalResult AttentionOp::propagateBatch(Positions operands,
                                          PositionsOut &results,
                                          EmitError emitError) {
  BatchPosition position;
  if (failed(propagateHeads({{operands[0], getQueryAxes()},
                             {operands[1], getKeyAxes()},
                             {operands[2], getValueAxes()}},
                            position, emitError)) ||
      (getMask() && failed(checkMask(operands[3], position, emitError))))
    return failure();
  results.assign({inAxes(position, getOutputAxes()), position});
  return success();
}

LogicalResult AttentionBackwardOp::propagateBatch(Positions operands,
                                                  PositionsOut &results,
                                                  EmitError emitError) {
  static constexpr int64_t rows[] = {0, 1, 2};
  BatchPosition position;
  if (failed(propagateHeads({{operands[0], getQueryAxes()},
                             {operands[1], getKeyAxes()},
                             {operands[2], getValueAxes()},
                             {operands[3], getOutputAxes()},
                             {operands[4], rows},
                             {operands[5], getOutputAxes()}},
                            position, emitError)) ||
      (getMask() && failed(checkMask(operands[6], position, emitError))))
    return failure();
  results.assign({inAxes(position, getQueryAxes()),
                  inAxes(position, getKeyAxes()),
                  inAxes(position, getValueAxes())});
  return success();
}

/// Convolutions and pooling: samples on axis 0 of the data, weights without.
static LogicalResult propagateWindow(BatchPosition data, BatchPosition weight,
                                     PositionsOut &results,
                                     EmitError emitError) {
  results.assign(1, data);
  if (weight)
    return emitError() << "has a weight that differs from sample to sample";
  if (data && data.axis != 0)
    return emitError() << "has its samples on axis " << data.axis
                       << " instead of axis 0";
  return success();
}

LogicalResult ConvOp::propagateBatch(Positions operands, PositionsOut &results,
                                     EmitError emitError) {
  return propagateWindow(operands[0], operands[1], results, emitError);
}

LogicalResult ConvBackwardInputOp::propagateBatch(Positions operands,
                                                  PositionsOut &results,
                                                  EmitError emitError) {
  return propagateWindow(operands[0], operands[1], results, emitError);
}

LogicalResult ConvBackwardWeightOp::propagateBatch(Positions operands,
                                                   PositionsOut &results,
                                                   EmitError emitError) {
  results.assign(1, BatchPosition());
  if (operands[0] || operands[1])
    return emitError() << "sums over the samples";
  return success();
}

LogicalResult MaxPoolOp::propagateBatch(Positions operands,
                                        PositionsOut &results,
                                        EmitError emitError) {
  return propagateWindow(operands[0], {}, results, emitError);
}

LogicalResult AvgPoolOp::propagateBatch(Positions operands,
                                        PositionsOut &results,
                                        EmitError emitError) {
  return propagateWindow(operands[0], {}, results, emitError);
}

LogicalResult AvgPoolBackwardOp::propagateBatch(Positions operands,
                                                PositionsOut &results,
                                                EmitError emitError) {
  return propagateWindow(operands[0], {}, results, emitError);
}

LogicalResult MaxPoolBackwardOp::propagateBatch(Positions operands,
                                                PositionsOut &results,
                                                EmitError emitError) {
  if (operands[0] != operands[1])
    return emitError() << "has operands with different samples";
  return propagateWindow(operands[0], {}, results, emitError);
}

//===----------------------------------------------------------------------===//
// Normalisation and losses
//===----------------------------------------------------------------------===//

/// Operations on rows: samples anywhere but on the last axis.
static LogicalResult propagateRows(Operation *op, BatchPosition data,
                                   EmitError emitError) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  if (data && data.axis == type.getRank() - 1)
    return emitError() << "normalises along the axis that holds the samples";
  return success();
}

LogicalResult SoftmaxOp::propagateBatch(Positions operands,
                                        PositionsOut &results,
                                        EmitError emitError) {
  results.assign(1, operands[0]);
  return propagateRows(*this, operands[0], emitError);
}

LogicalResult LogSoftmaxOp::propagateBatch(Positions operands,
                                           PositionsOut &results,
                                           EmitError emitError) {
  results.assign(1, operands[0]);
  return propagateRows(*this, operands[0], emitError);
}

LogicalResult LayerNormOp::propagateBatch(Positions operands,
                                          PositionsOut &results,
                                          EmitError emitError) {
  results.assign(3, operands[0]);
  if (operands[1] || operands[2])
    return emitError() << "has a scale that differs from sample to sample";
  return propagateRows(*this, operands[0], emitError);
}

LogicalResult LayerNormBackwardOp::propagateBatch(Positions operands,
                                                  PositionsOut &results,
                                                  EmitError emitError) {
  results.assign(1, operands[0]);
  return propagateRows(*this, operands[0], emitError);
}

LogicalResult BatchNormOp::propagateBatch(Positions operands,
                                          PositionsOut &results,
                                          EmitError emitError) {
  if (failed(propagateWindow(operands[0], operands[1], results, emitError)))
    return failure();
  results.append(2, BatchPosition());
  return success();
}

LogicalResult BatchNormBackwardOp::propagateBatch(Positions operands,
                                                  PositionsOut &results,
                                                  EmitError emitError) {
  if (failed(propagateWindow(operands[0], operands[4], results, emitError)))
    return failure();
  results.append(2, BatchPosition());
  return success();
}

LogicalResult SoftmaxCrossEntropyOp::propagateBatch(Positions operands,
                                                    PositionsOut &results,
                                                    EmitError emitError) {
  // The loss is a sum over samples, which micro-batches add up.
  results.assign({BatchPosition(), operands[1]});
  if (operands[0] != operands[1])
    return emitError() << "has labels and logits with different samples";
  return propagateRows(*this, operands[0], emitError);
}

/// Losses of samples on axis 0: all operands have them there, or none.
static LogicalResult propagateSequences(BatchAxisOpInterface op,
                                        ArrayRef<BatchPosition> operands,
                                        SmallVectorImpl<BatchPosition> &results,
                                        EmitError emitError) {
  results.assign(op->getNumResults(), operands[0]);
  bool isInFront = !operands[0] || operands[0] == BatchPosition{0, 1, 1};
  if (!isInFront || !llvm::all_equal(operands))
    return emitError() << "needs the samples on axis 0 of all operands";
  return success();
}

LogicalResult CtcLossOp::propagateBatch(Positions operands,
                                        PositionsOut &results,
                                        EmitError emitError) {
  return propagateSequences(*this, operands, results, emitError);
}

LogicalResult CtcLossBackwardOp::propagateBatch(Positions operands,
                                                PositionsOut &results,
                                                EmitError emitError) {
  return propagateSequences(*this, operands, results, emitError);
}

LogicalResult SoftmaxCrossEntropyBackwardOp::propagateBatch(
    Positions operands, PositionsOut &results, EmitError emitError) {
  results.assign(1, operands[0]);
  return propagateRows(*this, operands[0], emitError);
}
