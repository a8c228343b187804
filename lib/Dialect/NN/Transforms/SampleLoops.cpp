//===- SampleLoops.cpp - Models that take samples one by one --------------===//

#include "SampleLoops.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

bool SampleLoops::hasSingle(Operation *op) const {
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return isSingle(operand); });
}

std::optional<SampleLoops::Part>
SampleLoops::readPart(Operation *op, BatchPosition position) const {
  if (batch < 2 || !position || position.outer != 1)
    return std::nullopt;
  Part part = {position.axis, position.inner, {}};
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (int64_t at = slice.getStarts()[part.axis],
                 end = slice.getLimits()[part.axis];
         at < end; at += slice.getStrides()[part.axis])
      part.elements.push_back(at);
    return part;
  }
  auto gather = dyn_cast<GatherOp>(op);
  if (!gather || gather.getShared() != 0 ||
      static_cast<int64_t>(gather.getAxis()) != part.axis)
    return std::nullopt;
  auto constant = gather.getIndices().getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                        : DenseElementsAttr();
  if (!dense)
    return std::nullopt;
  int64_t size = batch * part.inner;
  for (const APInt &index : dense.getValues<APInt>()) {
    int64_t at = index.getSExtValue();
    part.elements.push_back(at < 0 ? at + size : at);
  }
  return part;
}

bool SampleLoops::take(Operation *op, BatchPosition position) {
  auto part = readPart(op, position);
  if (!part || part->elements.empty())
    return false;
  auto sampleOf = [&](int64_t element) {
    return element < 0 ? -1 : element / part->inner;
  };
  int64_t sample = sampleOf(part->elements.front());
  if (sample < 0 || sample >= batch ||
      llvm::any_of(
          part->elements,
          [&](int64_t element) { return sampleOf(element) != sample; }))
    return false;
  samples[op->getResult(0)] = sample;
  parts[op] = *part;
  return true;
}

LogicalResult SampleLoops::follow(Operation *op) {
  std::optional<int64_t> sample;
  for (Value operand : op->getOperands())
    if (auto found = samples.find(operand); found != samples.end()) {
      if (sample.value_or(found->second) != found->second)
        return failure();
      sample = found->second;
    }
  // What adds to a state adds up samples.
  if (!isPure(op))
    return failure();
  for (Value result : op->getResults())
    samples[result] = *sample;
  return success();
}

bool SampleLoops::isSamePart(Operation *op, Operation *first,
                             int64_t sample) const {
  const Part &own = parts.at(op), &other = parts.at(first);
  if (op->getName() != first->getName() ||
      op->getOperand(0) != first->getOperand(0) || own.axis != other.axis ||
      own.elements.size() != other.elements.size())
    return false;
  for (auto [element, like] : llvm::zip(own.elements, other.elements))
    if (element != like + sample * own.inner)
      return false;
  auto slice = dyn_cast<SliceOp>(op);
  for (int64_t axis = 0; slice && axis < slice.getInput().getType().getRank();
       ++axis)
    if (axis != own.axis &&
        (slice.getStarts()[axis] != cast<SliceOp>(first).getStarts()[axis] ||
         slice.getStrides()[axis] != cast<SliceOp>(first).getStrides()[axis]))
      return false;
  return true;
}

bool SampleLoops::isSame(Value value, Value first, int64_t sample,
                         DenseMap<Value, Value> &equal) const {
  SmallVector<std::pair<Value, Value>> open = {{value, first}};
  auto compareLater = [&](Value own, Value other) {
    open.push_back({own, other});
    return success();
  };
  while (!open.empty()) {
    auto [own, other] = open.pop_back_val();
    if (own == other) {
      if (isSingle(own))
        return false;
      continue;
    }
    auto [known, isNew] = equal.try_emplace(own, other);
    if (!isNew) {
      if (known->second != other)
        return false;
      continue;
    }
    Operation *op = own.getDefiningOp(), *like = other.getDefiningOp();
    if (!op || !like || isSingle(own) != isSingle(other) ||
        own.getType() != other.getType() ||
        cast<OpResult>(own).getResultNumber() !=
            cast<OpResult>(other).getResultNumber() ||
        parts.contains(op) != parts.contains(like))
      return false;
    if (parts.contains(op)) {
      if (!isSamePart(op, like, sample))
        return false;
    } else if (!isPure(op) ||
               !OperationEquivalence::isEquivalentTo(
                   op, like, compareLater, /*markEquivalent=*/nullptr,
                   OperationEquivalence::IgnoreLocations)) {
      return false;
    }
  }
  return true;
}

BatchPosition SampleLoops::join(ConcatOp concat) {
  auto inputs = concat.getInputs();
  auto count = static_cast<int64_t>(inputs.size());
  if (count % batch != 0)
    return {};
  // Parts of a sample follow each other.
  int64_t own = count / batch, inner = 0;
  auto axis = static_cast<int64_t>(concat.getAxis());
  for (Value first : inputs.take_front(own))
    inner += cast<RankedTensorType>(first.getType()).getDimSize(axis);
  DenseMap<Value, Value> equal;
  for (auto [index, value] : llvm::enumerate(inputs)) {
    auto place = static_cast<int64_t>(index);
    auto found = samples.find(value);
    if (found == samples.end() || found->second != place / own ||
        (place >= own &&
         !isSame(value, inputs[place % own], place / own, equal)))
      return {};
  }
  joined.push_back(concat);
  return {axis, 1, inner};
}

void SampleLoops::shrink(Block &block, int64_t newBatch) {
  for (ConcatOp concat : joined) {
    auto inputs = llvm::to_vector(concat.getInputs());
    concat->setOperands(
        ArrayRef(inputs).take_front(inputs.size() / batch * newBatch));
  }
  auto isGone = [&](Operation &op) {
    return op.getNumResults() > 0 && op.use_empty() &&
           samples.lookup(op.getResult(0)) >= newBatch;
  };
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isGone(op)) {
      for (Value result : op.getResults())
        samples.erase(result);
      op.erase();
    }
}
