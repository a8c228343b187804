//===- Interfaces.cpp - Defaults of the op interfaces ---------------------===//

#include "pp/Interfaces/BatchAxisOpInterface.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/DifferentiableOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pp/Interfaces/StoredLayoutAttrInterface.h"

using namespace mlir;

#include "pp/Interfaces/BatchAxisOpInterface.cpp.inc"
#include "pp/Interfaces/CostOpInterface.cpp.inc"
#include "pp/Interfaces/DifferentiableOpInterface.cpp.inc"
#include "pp/Interfaces/KernelOpInterface.cpp.inc"
#include "pp/Interfaces/StoredLayoutAttrInterface.cpp.inc"

uint64_t pp::getTensorBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return 0;
  if (auto layout =
          dyn_cast_or_null<StoredLayoutAttrInterface>(tensor.getEncoding()))
    return layout.getStoredBytes();
  unsigned bits = tensor.getElementTypeBitWidth();
  return static_cast<uint64_t>(tensor.getNumElements()) * ((bits + 7) / 8);
}

uint64_t pp::detail::getResultElements(Operation *op) {
  uint64_t elements = 0;
  for (Type type : op->getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements += tensor.hasStaticShape() ? tensor.getNumElements() : 0;
  return elements;
}

uint64_t pp::detail::getOperandBytes(Operation *op) {
  uint64_t bytes = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    auto sameValue = [&](OpOperand &other) {
      return other.getOperandNumber() < operand.getOperandNumber() &&
             other.get() == operand.get();
    };
    if (!llvm::any_of(op->getOpOperands(), sameValue))
      bytes += getTensorBytes(operand.get().getType());
  }
  return bytes;
}

uint64_t pp::detail::getResultBytes(Operation *op) {
  uint64_t bytes = 0;
  for (Type type : op->getResultTypes())
    bytes += getTensorBytes(type);
  return bytes;
}

RankedTensorType pp::rebatchType(RankedTensorType type, BatchPosition position,
                                 int64_t oldBatch, int64_t newBatch) {
  if (!position)
    return type;
  SmallVector<int64_t> shape(type.getShape());
  assert(shape[position.axis] == position.outer * oldBatch * position.inner);
  (void)oldBatch;
  shape[position.axis] = position.outer * newBatch * position.inner;
  return type.clone(shape);
}

LogicalResult pp::detail::propagateBatchElementwise(
    Operation *op, ArrayRef<BatchPosition> operands,
    SmallVectorImpl<BatchPosition> &results,
    function_ref<InFlightDiagnostic()> emitError) {
  BatchPosition common;
  for (auto [index, position] : llvm::enumerate(operands)) {
    if (!position)
      continue;
    if (!common)
      common = position;
    else if (common != position)
      return emitError() << "operand #" << index
                         << " has its samples on another axis than the "
                            "operands before it";
  }
  results.assign(op->getNumResults(), common);
  return success();
}

LogicalResult
pp::detail::demandBatchElementwise(Operation *op, BatchPosition position,
                                   SmallVectorImpl<BatchPosition> &operands) {
  // Without operands there is nothing to take the samples from; an operand of
  // another shape has no such position.
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return failure();
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  for (Value operand : op->getOperands())
    if (cast<RankedTensorType>(operand.getType()).getShape() !=
        result.getShape())
      return failure();
  operands.assign(op->getNumOperands(), position);
  return success();
}
