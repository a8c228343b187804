//===- NNAttention.cpp - Verifiers and shapes of attention ----------------===//

#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace pp::nn;

/// The sizes of the batch, the heads, the rows and the columns of a tensor.
static SmallVector<int64_t> sizesOf(Value value, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> sizes;
  for (int64_t axis : axes)
    sizes.push_back(typeOf(value).getDimSize(axis));
  return sizes;
}

SmallVector<int64_t> AttentionOp::getQueryShape() {
  return sizesOf(getQuery(), getQueryAxes());
}
SmallVector<int64_t> AttentionOp::getKeyShape() {
  return sizesOf(getKey(), getKeyAxes());
}
SmallVector<int64_t> AttentionOp::getValueShape() {
  return sizesOf(getValue(), getValueAxes());
}
SmallVector<int64_t> AttentionBackwardOp::getQueryShape() {
  return sizesOf(getQuery(), getQueryAxes());
}
SmallVector<int64_t> AttentionBackwardOp::getKeyShape() {
  return sizesOf(getKey(), getKeyAxes());
}
SmallVector<int64_t> AttentionBackwardOp::getValueShape() {
  return sizesOf(getValue(), getValueAxes());
}

/// Checks that `axes` order the axes of a tensor of rank 4.
static LogicalResult verifyAxes(Operation *op, StringRef what, Value value,
                                ArrayRef<int64_t> axes) {
  if (typeOf(value).getRank() != 4)
    return op->emitOpError() << "needs a " << what << " of rank 4, got "
                             << typeOf(value).getRank();
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  if (sorted != SmallVector<int64_t>{0, 1, 2, 3})
    return op->emitOpError() << "has axes [" << axes << "] of the " << what
                             << ", expected the numbers 0 to 3 in some order";
  return success();
}

/// Checks what the two operations share; `output` is the result of attention.
template <typename Op>
static LogicalResult verifyAttention(Op op, Value output) {
  if (failed(verifyAxes(op, "query", op.getQuery(), op.getQueryAxes())) ||
      failed(verifyAxes(op, "key", op.getKey(), op.getKeyAxes())) ||
      failed(verifyAxes(op, "value", op.getValue(), op.getValueAxes())) ||
      failed(verifyAxes(op, "output", output, op.getOutputAxes())))
    return failure();
  if (!op.getScale().isFinite())
    return op.emitOpError("needs a finite scale");
  SmallVector<int64_t> q = op.getQueryShape(), k = op.getKeyShape(),
                       v = op.getValueShape(),
                       out = sizesOf(output, op.getOutputAxes());
  int64_t rows = q[2], columns = k[2];
  auto verifySizes = [&](StringRef what, ArrayRef<int64_t> sizes,
                         ArrayRef<int64_t> expected) -> LogicalResult {
    if (sizes == expected)
      return success();
    return op.emitOpError()
           << "needs the batch x head x row x column of the " << what
           << " to be [" << expected << "], got [" << sizes << "]";
  };
  if (failed(verifySizes("key", k, {q[0], q[1], columns, q[3]})) ||
      failed(verifySizes("value", v, {q[0], q[1], columns, v[3]})) ||
      failed(verifySizes("output", out, {q[0], q[1], rows, v[3]})))
    return failure();
  if (op.getCausal() && rows != columns)
    return op.emitOpError() << "is causal with " << rows << " rows of the "
                            << "query and " << columns << " of the key";
  for (Value other : {Value(op.getKey()), Value(op.getValue()), output})
    if (typeOf(other).getElementType() !=
        typeOf(op.getQuery()).getElementType())
      return op.emitOpError() << "needs one element type, got "
                              << typeOf(op.getQuery()).getElementType()
                              << " and " << typeOf(other).getElementType();
  if (op.getZeroed() && !op.getMask())
    return op.emitOpError("is zeroed without a mask");
  if (op.getMask()) {
    ArrayRef<int64_t> mask = typeOf(op.getMask()).getShape();
    const int64_t scores[] = {q[0], q[1], rows, columns};
    auto fits = [&](size_t axis) {
      return mask[axis] == scores[axis] || (mask[axis] == 1 && axis < 3);
    };
    if (mask.size() != 4 || !llvm::all_of(llvm::seq<size_t>(4), fits))
      return op.emitOpError() << "needs a mask of shape [" << ArrayRef(scores)
                              << "], or with 1 for any of the first three, got "
                              << "[" << mask << "]";
  }
  ArrayRef<int64_t> sums = op.getLogsumexp().getType().getShape();
  if (sums != ArrayRef<int64_t>(q).take_front(3))
    return op.emitOpError()
           << "needs a logsumexp of shape ["
           << ArrayRef<int64_t>(q).take_front(3) << "], got [" << sums << "]";
  return success();
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getOutput());
}

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyAttention(*this, getOutput())))
    return failure();
  auto verifyType = [&](StringRef what, Value gradient,
                        Value of) -> LogicalResult {
    if (gradient.getType() == of.getType())
      return success();
    return emitOpError() << "has a gradient of the " << what << " of type "
                         << gradient.getType() << " for one of type "
                         << of.getType();
  };
  return success(
      succeeded(verifyType("output", getOutputGradient(), getOutput())) &&
      succeeded(verifyType("query", getQueryGradient(), getQuery())) &&
      succeeded(verifyType("key", getKeyGradient(), getKey())) &&
      succeeded(verifyType("value", getValueGradient(), getValue())));
}
