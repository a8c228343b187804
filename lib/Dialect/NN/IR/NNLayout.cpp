//===- NNLayout.cpp - Where the channels of a tensor lie ------------------===//

#include "pp/Dialect/NN/IR/Layout.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

int64_t pp::nn::getBlockOf(Layout layout) {
  switch (layout) {
  case Layout::plain:
  case Layout::channels_last:
    return 0;
  case Layout::blocked8:
    return 8;
  case Layout::blocked16:
    return 16;
  }
  llvm_unreachable("unknown layout");
}

bool pp::nn::canLie(ArrayRef<int64_t> logical, Layout layout) {
  if (layout == Layout::plain)
    return true;
  int64_t block = getBlockOf(layout);
  return logical.size() >= 3 && (block == 0 || logical[1] % block == 0);
}

SmallVector<int64_t> pp::nn::toPhysicalShape(ArrayRef<int64_t> logical,
                                             Layout layout) {
  SmallVector<int64_t> shape(logical);
  if (layout == Layout::channels_last) {
    shape.erase(shape.begin() + 1);
    shape.push_back(logical[1]);
  } else if (int64_t block = getBlockOf(layout)) {
    shape[1] /= block;
    shape.push_back(block);
  }
  return shape;
}

std::optional<SmallVector<int64_t>>
pp::nn::toLogicalShape(ArrayRef<int64_t> physical, Layout layout) {
  SmallVector<int64_t> shape(physical);
  if (layout == Layout::plain)
    return shape;
  int64_t block = getBlockOf(layout);
  if (shape.size() < (block ? 4 : 3) || (block && shape.back() != block))
    return std::nullopt;
  int64_t last = shape.pop_back_val();
  if (block)
    shape[1] *= block;
  else
    shape.insert(shape.begin() + 1, last);
  return shape;
}

std::optional<SmallVector<int64_t>>
pp::nn::toLogicalShape(ArrayRef<int64_t> physical, Layout layout,
                       size_t spatial) {
  if (getBlockOf(layout) && physical.size() == spatial + 2)
    return SmallVector<int64_t>(physical);
  return toLogicalShape(physical, layout);
}

int64_t pp::nn::toPhysicalAxis(int64_t axis, int64_t rank, Layout layout) {
  if (layout != Layout::channels_last || axis == 0)
    return axis;
  return axis == 1 ? rank - 1 : axis - 1;
}

//===----------------------------------------------------------------------===//
// reorder
//===----------------------------------------------------------------------===//

LogicalResult ReorderOp::verify() {
  auto logical = toLogicalShape(getInput().getType().getShape(), getFrom());
  if (!logical || logical->size() < 3 || logical->size() > 5)
    return emitOpError() << "needs a tensor with one to three spatial axes in "
                            "the layout "
                         << stringifyLayout(getFrom()) << ", got "
                         << getInput().getType();
  if (!canLie(*logical, getTo()))
    return emitOpError() << "has " << (*logical)[1]
                         << " channels, which are no multiple of "
                         << getBlockOf(getTo());
  SmallVector<int64_t> shape = toPhysicalShape(*logical, getTo());
  if (getOutput().getType().getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "makes a tensor of shape [" << shape
                         << "], but its type says ["
                         << getOutput().getType().getShape() << "]";
  return success();
}

LogicalResult ReorderOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed,
                                  SmallVectorImpl<Value> &result) {
  result.assign({Value(create(builder, getLoc(), getInput().getType(),
                              cotangents[0], getTo(), getFrom()))});
  return success();
}

LogicalResult
ReorderOp::propagateBatch(ArrayRef<BatchPosition> operands,
                          SmallVectorImpl<BatchPosition> &results,
                          function_ref<InFlightDiagnostic()> emitError) {
  if (operands[0] && operands[0].axis != 0)
    return emitError() << "has its samples on axis " << operands[0].axis
                       << " instead of axis 0";
  results.assign(1, operands[0]);
  return success();
}

uint64_t ReorderOp::getFlops() { return 0; }
