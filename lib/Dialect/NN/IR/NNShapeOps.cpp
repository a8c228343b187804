//===- NNShapeOps.cpp - Verifiers and folders of shape operations ---------===//

#include "pp/Dialect/NN/IR/Layout.h"
#include "pp/Dialect/NN/IR/NN.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp::nn;

/// Checks an attribute with one entry per axis.
static LogicalResult verifyPerAxis(Operation *op, StringRef name,
                                   ArrayRef<int64_t> values, int64_t rank) {
  if (static_cast<int64_t>(values.size()) != rank)
    return op->emitOpError() << "'" << name << "' has " << values.size()
                             << " entries for a tensor of rank " << rank;
  return success();
}

/// Checks that `axes` are increasing and inside a tensor of rank `rank`.
static LogicalResult verifyAxes(Operation *op, ArrayRef<int64_t> axes,
                                int64_t rank) {
  int64_t last = -1;
  for (int64_t axis : axes) {
    if (axis <= last || axis >= rank)
      return op->emitOpError() << "'axes' must increase and lie in [0, " << rank
                               << "), got " << axis << " after " << last;
    last = axis;
  }
  return success();
}

static LogicalResult verifyAxis(Operation *op, int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank)
    return op->emitOpError()
           << "'axis' " << axis << " is outside [0, " << rank << ")";
  return success();
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

static LogicalResult verifyShape(Operation *op, ArrayRef<int64_t> expected,
                                 RankedTensorType type) {
  if (expected != type.getShape())
    return op->emitOpError()
           << "computes a tensor of shape [" << expected
           << "], but its type says [" << type.getShape() << "]";
  return success();
}

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location>,
                                          ValueRange operands, DictionaryAttr,
                                          OpaqueProperties, RegionRange,
                                          SmallVectorImpl<Type> &results) {
  results.push_back(cast<ShapedType>(operands.front().getType())
                        .clone(IntegerType::get(context, 1)));
  return success();
}

LogicalResult IotaOp::verify() {
  return verifyAxis(*this, getAxis(), getOutput().getType().getRank());
}

LogicalResult UniformOp::verify() {
  auto output = getOutput().getType();
  if (getCounter().getType().getShape() != ArrayRef<int64_t>(4))
    return emitOpError() << "'counter' must have 4 elements, got "
                         << getCounter().getType();
  if (int64_t stream = getStream(); stream < 0 || stream > UINT32_MAX)
    return emitOpError() << "'stream' " << stream << " is outside [0, 2^32)";
  if (std::optional<ArrayRef<int64_t>> samples = getSamples()) {
    if (samples->size() != 3 || (*samples)[1] < 1 || (*samples)[2] < 1)
      return emitOpError("'samples' must be an axis and two positive factors");
    if (failed(verifyAxis(*this, (*samples)[0], output.getRank())))
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

LogicalResult TransposeOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (failed(verifyPerAxis(*this, "permutation", getPermutation(),
                           input.getRank())) ||
      failed(verifySameElementType(*this, input, output)))
    return failure();
  SmallVector<int64_t> sorted(getPermutation()), shape;
  llvm::sort(sorted);
  for (auto [axis, value] : llvm::enumerate(sorted))
    if (static_cast<int64_t>(axis) != value)
      return emitOpError("'permutation' must name each axis once");
  for (int64_t axis : getPermutation())
    shape.push_back(input.getDimSize(axis));
  return verifyShape(*this, shape, output);
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    if (dense.isSplat())
      return dense.resizeSplat(getOutput().getType());
  return {};
}

LogicalResult BroadcastOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (failed(verifyPerAxis(*this, "axes", getAxes(), input.getRank())) ||
      failed(verifyAxes(*this, getAxes(), output.getRank())) ||
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

LogicalResult SliceOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  int64_t rank = input.getRank();
  if (failed(verifyPerAxis(*this, "starts", getStarts(), rank)) ||
      failed(verifyPerAxis(*this, "limits", getLimits(), rank)) ||
      failed(verifyPerAxis(*this, "strides", getStrides(), rank)) ||
      failed(verifySameElementType(*this, input, output)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t start = getStarts()[axis], limit = getLimits()[axis];
    int64_t stride = getStrides()[axis];
    if (start < 0 || limit < start || limit > input.getDimSize(axis) ||
        stride < 1)
      return emitOpError() << "takes [" << start << ", " << limit
                           << ") with stride " << stride << " of axis " << axis
                           << ", which has size " << input.getDimSize(axis);
    shape.push_back((limit - start + stride - 1) / stride);
  }
  return verifyShape(*this, shape, output);
}

LogicalResult PadOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  int64_t rank = input.getRank();
  if (failed(verifyPerAxis(*this, "low", getLow(), rank)) ||
      failed(verifyPerAxis(*this, "high", getHigh(), rank)) ||
      failed(verifyPerAxis(*this, "interior", getInterior(), rank)) ||
      failed(verifySameElementType(*this, input, output)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t low = getLow()[axis], high = getHigh()[axis];
    int64_t interior = getInterior()[axis], size = input.getDimSize(axis);
    if (low < 0 || high < 0 || interior < 0)
      return emitOpError() << "pads axis " << axis << " by a negative amount";
    shape.push_back(low + high + size +
                    interior * std::max<int64_t>(0, size - 1));
  }
  return verifyShape(*this, shape, output);
}

LogicalResult ConcatOp::verify() {
  auto output = getOutput().getType();
  int64_t axis = getAxis();
  if (getInputs().empty())
    return emitOpError("joins no tensors");
  if (failed(verifyAxis(*this, axis, output.getRank())))
    return failure();
  SmallVector<int64_t> shape(output.getShape());
  shape[axis] = 0;
  for (auto [index, value] : llvm::enumerate(getInputs())) {
    auto input = cast<RankedTensorType>(value.getType());
    if (failed(verifySameElementType(*this, input, output)))
      return failure();
    SmallVector<int64_t> expected(shape);
    if (input.getRank() == output.getRank()) {
      expected[axis] = input.getDimSize(axis);
      shape[axis] += input.getDimSize(axis);
    }
    if (input.getShape() != ArrayRef<int64_t>(expected))
      return emitOpError() << "operand #" << index << " has shape ["
                           << input.getShape()
                           << "], which differs from the result's on another "
                              "axis than "
                           << axis;
  }
  return verifyShape(*this, shape, output);
}

/// The shape of a gather: `axis` of `input` replaced by the axes of `indices`
/// behind the first `shared` ones.
static SmallVector<int64_t> gatherShape(ArrayRef<int64_t> input,
                                        ArrayRef<int64_t> indices, int64_t axis,
                                        int64_t shared) {
  SmallVector<int64_t> shape(input.take_front(axis));
  llvm::append_range(shape, indices.drop_front(shared));
  shape.append(input.begin() + axis + 1, input.end());
  return shape;
}

/// Checks that the first `shared` axes, all before `axis`, are those of the
/// indices too.
static LogicalResult verifyShared(Operation *op, RankedTensorType input,
                                  RankedTensorType indices, int64_t axis,
                                  int64_t shared) {
  if (failed(verifyAxis(op, axis, input.getRank())))
    return failure();
  if (shared < 0 || shared > axis || shared > indices.getRank())
    return op->emitOpError() << "'shared' " << shared << " is outside [0, "
                             << std::min(axis, indices.getRank()) << "]";
  if (input.getShape().take_front(shared) !=
      indices.getShape().take_front(shared))
    return op->emitOpError() << "has indices of shape [" << indices.getShape()
                             << "], which do not share " << shared
                             << " axes with [" << input.getShape() << "]";
  return success();
}

LogicalResult GatherOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  auto indices = getIndices().getType();
  if (failed(verifyShared(*this, input, indices, getAxis(), getShared())) ||
      failed(verifySameElementType(*this, input, output)))
    return failure();
  return verifyShape(
      *this,
      gatherShape(input.getShape(), indices.getShape(), getAxis(), getShared()),
      output);
}

/// Checks the updates of a scatter to `output`.
template <typename Op> static LogicalResult verifyUpdates(Op op) {
  auto updates = op.getUpdates().getType(), output = op.getOutput().getType();
  auto indices = op.getIndices().getType();
  if (failed(verifyShared(op, output, indices, op.getAxis(), op.getShared())) ||
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
  auto input = getInput().getType(), output = getOutput().getType();
  if (failed(verifySameElementType(*this, input, output)) ||
      failed(verifyShape(*this, input.getShape(), output)))
    return failure();
  return verifyUpdates(*this);
}

LogicalResult CumSumOp::verify() {
  return verifyAxis(*this, getAxis(), getInput().getType().getRank());
}

LogicalResult TopKOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (input.getRank() == 0)
    return emitOpError("orders a scalar");
  int64_t last = input.getRank() - 1;
  SmallVector<int64_t> shape(input.getShape());
  if (output.getRank() == input.getRank())
    shape[last] = std::min(shape[last], output.getDimSize(last));
  return verifyShape(*this, shape, output);
}

uint64_t TopKOp::getFlops() {
  return static_cast<uint64_t>(getInput().getType().getNumElements()) *
         static_cast<uint64_t>(getOutput().getType().getShape().back());
}

LogicalResult ReduceOp::verify() {
  auto input = getInput().getType(), output = getOutput().getType();
  if (failed(verifyAxes(*this, getAxes(), input.getRank())) ||
      failed(verifySameElementType(*this, input, output)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t axis = 0; axis < input.getRank(); ++axis)
    if (!llvm::is_contained(getAxes(), axis))
      shape.push_back(input.getDimSize(axis));
  return verifyShape(*this, shape, output);
}
