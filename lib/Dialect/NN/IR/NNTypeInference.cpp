//===- NNTypeInference.cpp - Types of results from those of operands ------===//

#include "ShapeChecks.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp::nn;
using llvm::Twine;

using Types = SmallVectorImpl<Type>;

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location>,
                                          Adaptor adaptor, Types &results) {
  results.push_back(
      typeOf(adaptor.getLhs()).clone(IntegerType::get(context, 1)));
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor, Types &results) {
  auto fail = failingAt<TransposeOp>(location);
  RankedTensorType input = typeOf(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (failed(checkPerAxis(fail, "permutation", permutation, input.getRank())))
    return failure();
  SmallVector<int64_t> sorted(permutation), shape;
  llvm::sort(sorted);
  for (auto [axis, value] : llvm::enumerate(sorted))
    if (static_cast<int64_t>(axis) != value)
      return fail("'permutation' must name each axis once");
  for (int64_t axis : permutation)
    shape.push_back(input.getDimSize(axis));
  results.push_back(input.clone(shape));
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> location,
                                        Adaptor adaptor, Types &results) {
  auto fail = failingAt<SliceOp>(location);
  RankedTensorType input = typeOf(adaptor.getInput());
  int64_t rank = input.getRank();
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(),
                    strides = adaptor.getStrides();
  if (failed(checkPerAxis(fail, "starts", starts, rank)) ||
      failed(checkPerAxis(fail, "limits", limits, rank)) ||
      failed(checkPerAxis(fail, "strides", strides, rank)))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(input.getShape())) {
    int64_t start = starts[axis], limit = limits[axis], stride = strides[axis];
    if (start < 0 || limit < start || limit > size || stride < 1)
      return fail("takes [" + Twine(start) + ", " + Twine(limit) +
                  ") with stride " + Twine(stride) + " of axis " + Twine(axis) +
                  ", which has size " + Twine(size));
    shape.push_back((limit - start + stride - 1) / stride);
  }
  results.push_back(input.clone(shape));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> location,
                                      Adaptor adaptor, Types &results) {
  auto fail = failingAt<PadOp>(location);
  RankedTensorType input = typeOf(adaptor.getInput());
  int64_t rank = input.getRank();
  if (failed(checkPerAxis(fail, "low", adaptor.getLow(), rank)) ||
      failed(checkPerAxis(fail, "high", adaptor.getHigh(), rank)) ||
      failed(checkPerAxis(fail, "interior", adaptor.getInterior(), rank)))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(input.getShape())) {
    int64_t low = adaptor.getLow()[axis], high = adaptor.getHigh()[axis];
    int64_t interior = adaptor.getInterior()[axis];
    if (low < 0 || high < 0 || interior < 0)
      return fail("pads axis " + Twine(axis) + " by a negative amount");
    shape.push_back(low + high + size +
                    interior * std::max<int64_t>(0, size - 1));
  }
  results.push_back(input.clone(shape));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor, Types &results) {
  auto fail = failingAt<ConcatOp>(location);
  if (adaptor.getInputs().empty())
    return fail("joins no tensors");
  RankedTensorType first = typeOf(adaptor.getInputs().front());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(fail, axis, first.getRank())))
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  for (auto [index, value] :
       llvm::enumerate(adaptor.getInputs().drop_front())) {
    RankedTensorType input = typeOf(value);
    if (input.getElementType() != first.getElementType())
      return fail("operand #" + Twine(index + 1) +
                  " has another element type than the first");
    SmallVector<int64_t> expected(input.getShape());
    if (input.getRank() == first.getRank())
      expected[axis] = first.getDimSize(axis);
    if (first.getShape() != ArrayRef<int64_t>(expected))
      return fail("operand #" + Twine(index + 1) + " has shape [" +
                  joinSizes(input.getShape()) +
                  "], which differs from the first's, [" +
                  joinSizes(first.getShape()) + "], on another axis than " +
                  Twine(axis));
    shape[axis] += input.getDimSize(axis);
  }
  results.push_back(first.clone(shape));
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor, Types &results) {
  RankedTensorType input = typeOf(adaptor.getInput());
  ArrayRef<int64_t> indices = typeOf(adaptor.getIndices()).getShape();
  int64_t axis = adaptor.getAxis(), shared = adaptor.getShared();
  if (failed(checkShared(failingAt<GatherOp>(location), input.getShape(),
                         indices, axis, shared)))
    return failure();
  results.push_back(
      input.clone(gatherShape(input.getShape(), indices, axis, shared)));
  return success();
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor, Types &results) {
  RankedTensorType input = typeOf(adaptor.getInput());
  ArrayRef<int64_t> axes = adaptor.getAxes();
  if (failed(checkAxes(failingAt<ReduceOp>(location), axes, input.getRank())))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(input.getShape()))
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      shape.push_back(size);
  results.push_back(input.clone(shape));
  return success();
}

/// A tensor with one number for each row of `rows`.
static FailureOr<RankedTensorType> rowType(Fail fail, Value rows) {
  RankedTensorType type = typeOf(rows);
  if (type.getRank() == 0)
    return FailureOr<RankedTensorType>(
        fail("needs a tensor of rank 1 or more"));
  return type.clone(type.getShape().drop_back());
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor, Types &results) {
  FailureOr<RankedTensorType> statistics =
      rowType(failingAt<LayerNormOp>(location), adaptor.getInput());
  if (failed(statistics))
    return failure();
  results.assign({adaptor.getInput().getType(), *statistics, *statistics});
  return success();
}

LogicalResult
SoftmaxCrossEntropyOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> location,
                                        Adaptor adaptor, Types &results) {
  FailureOr<RankedTensorType> normalizer =
      rowType(failingAt<SoftmaxCrossEntropyOp>(location), adaptor.getLogits());
  if (failed(normalizer))
    return failure();
  results.assign({normalizer->clone(ArrayRef<int64_t>()), *normalizer});
  return success();
}
