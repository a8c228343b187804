//===- NNShapeOps.cpp - Verifiers and folders of shape operations ---------===//

#include "ShapeChecks.h"
#include "pp/Dialect/NN/IR/Layout.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp::nn;
using llvm::Twine;

std::string pp::nn::joinSizes(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  return text;
}

LogicalResult pp::nn::checkPerAxis(Fail fail, StringRef name,
                                   ArrayRef<int64_t> values, int64_t rank) {
  if (static_cast<int64_t>(values.size()) == rank)
    return success();
  return fail("'" + name + "' has " + Twine(values.size()) +
              " entries for a tensor of rank " + Twine(rank));
}

LogicalResult pp::nn::checkAxes(Fail fail, ArrayRef<int64_t> axes,
                                int64_t rank) {
  int64_t last = -1;
  for (int64_t axis : axes) {
    if (axis <= last || axis >= rank)
      return fail("'axes' must increase and lie in [0, " + Twine(rank) +
                  "), got " + Twine(axis) + " after " + Twine(last));
    last = axis;
  }
  return success();
}

LogicalResult pp::nn::checkAxis(Fail fail, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank)
    return success();
  return fail("'axis' " + Twine(axis) + " is outside [0, " + Twine(rank) + ")");
}

SmallVector<int64_t> pp::nn::gatherShape(ArrayRef<int64_t> input,
                                         ArrayRef<int64_t> indices,
                                         int64_t axis, int64_t shared) {
  SmallVector<int64_t> shape(input.take_front(axis));
  llvm::append_range(shape, indices.drop_front(shared));
  shape.append(input.begin() + axis + 1, input.end());
  return shape;
}

LogicalResult pp::nn::checkShared(Fail fail, ArrayRef<int64_t> input,
                                  ArrayRef<int64_t> indices, int64_t axis,
                                  int64_t shared) {
  if (failed(checkAxis(fail, axis, static_cast<int64_t>(input.size()))))
    return failure();
  int64_t most = std::min(axis, static_cast<int64_t>(indices.size()));
  if (shared < 0 || shared > most)
    return fail("'shared' " + Twine(shared) + " is outside [0, " + Twine(most) +
                "]");
  if (input.take_front(shared) == indices.take_front(shared))
    return success();
  return fail("has indices of shape [" + joinSizes(indices) +
              "], which do not share " + Twine(shared) + " axes with [" +
              joinSizes(input) + "]");
}

static LogicalResult verifySameElementType(Operation *op,
                                           RankedTensorType operand,
                                           RankedTensorType result) {
  if (operand.getElementType() != result.getElementType())
    return op->emitOpError()
           << "turns elements of type " << operand.getElementType() << " into "
           << result.getElementType();
  return success();
}

LogicalResult IotaOp::verify() {
  return checkAxis(failingAt(*this), getAxis(),
                   getOutput().getType().getRank());
}

template <typename Op> static LogicalResult verifyCounter(Op op) {
  RankedTensorType type = op.getCounter().getType();
  if (type.getShape() != ArrayRef<int64_t>(pp::step::counterWords))
    return op.emitOpError() << "'counter' must have " << pp::step::counterWords
                            << " elements, got " << type;
  return success();
}

LogicalResult PresentRowsOp::verify() {
  if (getSamples() < 1 || getRows() < 1)
    return emitOpError("needs positive numbers of samples and rows");
  if (getOutput().getType().getRank() != 0)
    return emitOpError() << "gives one number, not " << getOutput().getType();
  return verifyCounter(*this);
}

LogicalResult UniformOp::verify() {
  auto output = getOutput().getType();
  if (failed(verifyCounter(*this)))
    return failure();
  if (int64_t stream = getStream(); stream < 0 || stream > UINT32_MAX)
    return emitOpError() << "'stream' " << stream << " is outside [0, 2^32)";
  if (std::optional<ArrayRef<int64_t>> samples = getSamples()) {
    if (samples->size() != 3 || (*samples)[1] < 1 || (*samples)[2] < 1)
      return emitOpError("'samples' must be an axis and two positive factors");
    if (failed(checkAxis(failingAt(*this), (*samples)[0], output.getRank())))
      return failure();
    int64_t size = output.getDimSize((*samples)[0]);
    if (size % ((*samples)[1] * (*samples)[2]) != 0)
      return emitOpError() << "axis " << (*samples)[0] << " of size " << size
                           << " is not made of " << (*samples)[1]
                           << " x samples x " << (*samples)[2];
  }
  if (getLayout() != Layout::plain) {
    if (!getSamples() || *getSamples() != ArrayRef<int64_t>{0, 1, 1})
      return emitOpError("needs its samples on axis 0 in a layout");
    if (!toLogicalShape(output.getShape(), getLayout()))
      return emitOpError() << "is no tensor in the layout "
                           << stringifyLayout(getLayout()) << ": " << output;
  }
  if (getSampleElements() > UINT32_MAX)
    return emitOpError() << "draws " << getSampleElements()
                         << " numbers for a sample, at most 2^32 - 1 are "
                            "possible";
  return success();
}

int64_t UniformOp::getSampleElements() {
  auto type = getOutput().getType();
  std::optional<ArrayRef<int64_t>> samples = getSamples();
  if (!samples)
    return type.getNumElements();
  int64_t elements = (*samples)[1] * (*samples)[2];
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    elements *= static_cast<int64_t>(axis) == (*samples)[0] ? 1 : size;
  return elements;
}

SmallVector<int64_t> UniformOp::getSteps() {
  ArrayRef<int64_t> shape = getOutput().getType().getShape();
  SmallVector<int64_t> logical = *toLogicalShape(shape, getLayout()),
                       steps(logical.size());
  constexpr int64_t none[] = {-1, 1, 1};
  ArrayRef<int64_t> samples = getSamples().value_or(none);
  int64_t step = 1;
  for (int64_t axis = logical.size() - 1; axis >= 0; --axis) {
    steps[axis] = step;
    step *= axis == samples[0] ? samples[1] * samples[2] : logical[axis];
  }
  if (getLayout() == Layout::channels_last) {
    std::rotate(steps.begin() + 1, steps.begin() + 2, steps.end());
  } else if (int64_t block = getBlockOf(getLayout())) {
    steps.push_back(steps[1]);
    steps[1] *= block;
  }
  return steps;
}

LogicalResult ReshapeOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (failed(verifySameElementType(*this, input, output)))
    return failure();
  if (input.getNumElements() != output.getNumElements())
    return emitOpError() << "turns " << input.getNumElements()
                         << " elements into " << output.getNumElements();
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getOutput().getType())
    return getInput();
  if (auto producer = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(producer.getInput());
    return getOutput();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    return dense.reshape(getOutput().getType());
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    if (dense.isSplat())
      return dense.resizeSplat(getOutput().getType());
  return {};
}

// What takes all, or adds nothing, copies.

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getInput().getType() == getOutput().getType()
             ? OpFoldResult(getInput())
             : OpFoldResult();
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return getInput().getType() == getOutput().getType()
             ? OpFoldResult(getInput())
             : OpFoldResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front())
                                 : OpFoldResult();
}

LogicalResult BroadcastOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (failed(
          checkPerAxis(failingAt(*this), "axes", getAxes(), input.getRank())) ||
      failed(checkAxes(failingAt(*this), getAxes(), output.getRank())) ||
      failed(verifySameElementType(*this, input, output)))
    return failure();
  for (auto [from, to] : llvm::enumerate(getAxes()))
    if (input.getDimSize(from) != output.getDimSize(to))
      return emitOpError() << "axis " << from << " has size "
                           << input.getDimSize(from) << ", but axis " << to
                           << " of the result has " << output.getDimSize(to);
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getOutput().getType())
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    if (dense.isSplat())
      return dense.resizeSplat(getOutput().getType());
  return {};
}

/// Checks the updates of a scatter to `output`.
template <typename Op> static LogicalResult verifyUpdates(Op op) {
  auto updates = op.getUpdates().getType(), output = op.getOutput().getType();
  auto indices = op.getIndices().getType();
  if (failed(checkShared(failingAt(op), output.getShape(), indices.getShape(),
                         op.getAxis(), op.getShared())) ||
      failed(verifySameElementType(op, updates, output)))
    return failure();
  SmallVector<int64_t> expected = gatherShape(
      output.getShape(), indices.getShape(), op.getAxis(), op.getShared());
  if (ArrayRef<int64_t>(expected) != updates.getShape())
    return op.emitOpError() << "needs updates of shape [" << expected
                            << "], got [" << updates.getShape() << "]";
  return success();
}

LogicalResult ScatterAddOp::verify() { return verifyUpdates(*this); }

LogicalResult ScatterOp::verify() {
  Type element = getOutput().getType().getElementType();
  if (getCombine() && element.isInteger(1))
    return emitOpError() << "combines truth values, which are no numbers";
  return verifyUpdates(*this);
}

LogicalResult CumSumOp::verify() {
  return checkAxis(failingAt(*this), getAxis(), getInput().getType().getRank());
}

LogicalResult TopKOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (input.getRank() == 0)
    return emitOpError("orders a scalar");
  int64_t last = input.getRank() - 1;
  SmallVector<int64_t> shape(input.getShape());
  if (output.getRank() == input.getRank())
    shape[last] = std::min(shape[last], output.getDimSize(last));
  if (ArrayRef<int64_t>(shape) == output.getShape())
    return success();
  return emitOpError() << "computes a tensor of shape [" << shape
                       << "], but its type says [" << output.getShape() << "]";
}

uint64_t TopKOp::getFlops() {
  // Each element may sink into a heap of the best ones.
  return static_cast<uint64_t>(getInput().getType().getNumElements()) *
         (llvm::Log2_64_Ceil(getOutput().getType().getShape().back()) + 1);
}
