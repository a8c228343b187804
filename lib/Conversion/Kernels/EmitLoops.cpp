//===- EmitLoops.cpp - Elementwise groups and reductions ------------------===//

#include "KernelEmitter.h"
#include "LoopBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

Type pp::getScalarType(Type element) {
  return element.isUnsignedInteger()
             ? IntegerType::get(element.getContext(),
                                element.getIntOrFloatBitWidth())
             : element;
}

MemRefType pp::getMemRefType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), getScalarType(type.getElementType()));
}

/// What a reduction starts from.
static TypedAttr initialValue(OpBuilder &builder, Reduction reduction,
                              Type tensor) {
  Type element = getScalarType(tensor);
  if (reduction == Reduction::sum)
    return builder.getZeroAttr(element);
  if (reduction == Reduction::product)
    return builder.getOneAttr(element);
  bool isMax = reduction == Reduction::max;
  if (auto type = dyn_cast<FloatType>(element))
    return builder.getFloatAttr(
        type, APFloat::getInf(type.getFloatSemantics(), /*Negative=*/isMax));
  unsigned width = element.getIntOrFloatBitWidth();
  if (tensor.isUnsignedInteger())
    return builder.getIntegerAttr(element, isMax ? APInt::getMinValue(width)
                                                 : APInt::getMaxValue(width));
  return builder.getIntegerAttr(element, isMax
                                             ? APInt::getSignedMinValue(width)
                                             : APInt::getSignedMaxValue(width));
}

/// state[i] += value[i].
static void emitAddition(OpBuilder &builder, Location loc, Value value,
                         Value state) {
  int64_t rank = cast<MemRefType>(state.getType()).getRank();
  SmallVector<AffineMap> maps(2, builder.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  linalg::GenericOp::create(
      builder, loc, TypeRange(), value, state, maps, iterators,
      [](OpBuilder &body, Location loc, ValueRange x) {
        linalg::YieldOp::create(
            body, loc, Value(arith::AddFOp::create(body, loc, x[1], x[0])));
      });
}

LogicalResult KernelEmitter::emitLoops(ArrayRef<Value> values) {
  if (values.size() > 1) {
    LoopBuilder loop(builder, loc, memories, values, /*areRoots=*/true);
    if (succeeded(loop.collect()) && !loop.hasDraws())
      return loop.emit(
          llvm::map_to_vector(values,
                              [&](Value value) { return memoryOf(value); }),
          /*reduced=*/{}, /*reduction=*/std::nullopt);
  }
  for (Value value : values)
    if (failed(emitLoop(value)))
      return failure();
  return success();
}

LogicalResult KernelEmitter::emitLoop(Value value) {
  Value destination = memoryOf(value);
  std::optional<Reduction> reduction;
  SmallVector<int64_t> reduced;
  Value source = value;
  bool isSummand = summands.contains(value);
  if (isSummand)
    reduction = Reduction::sum;
  Value state;
  if (auto reduce = value.getDefiningOp<ReduceOp>()) {
    reduction = reduce.getReduction();
    reduced.assign(reduce.getAxes().begin(), reduce.getAxes().end());
    source = reduce.getInput();
    if (isSummand) {
      state = destination;
      destination = memref::AllocaOp::create(builder, loc,
                                             getMemRefType(value.getType()));
    }
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    Value initial = arith::ConstantOp::create(
        builder, loc, initialValue(builder, *reduction, element));
    linalg::FillOp::create(builder, loc, initial, destination);
  }
  LoopBuilder loop(builder, loc, memories, source,
                   /*areRoots=*/source == value);
  if (failed(loop.collect()) ||
      failed(loop.emit(destination, reduced, reduction)))
    return failure();
  if (state)
    emitAddition(builder, loc, destination, state);
  return success();
}
