//===- LoopBody.cpp - The body of a linalg operation in a thread ----------===//

#include "LoopBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;

SmallVector<Value> pp::delinearize(OpBuilder &builder, Location loc,
                                   Value position, ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  Type type = count <= std::numeric_limits<int32_t>::max()
                  ? Type(builder.getI32Type())
                  : Type(builder.getI64Type());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getIntegerAttr(type, value));
  };
  auto toIndex = [&](Value value) -> Value {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      value);
  };
  SmallVector<Value> indices(sizes.size());
  if (sizes.empty())
    return indices;
  if (sizes.size() == 1)
    return {position};
  Value rest = arith::IndexCastOp::create(builder, loc, type, position);
  for (size_t axis = sizes.size() - 1; axis > 0; --axis) {
    if (sizes[axis] == 1) {
      indices[axis] = toIndex(constant(0));
      continue;
    }
    Value size = constant(sizes[axis]);
    indices[axis] = toIndex(arith::RemUIOp::create(builder, loc, rest, size));
    rest = arith::DivUIOp::create(builder, loc, rest, size);
  }
  indices[0] = toIndex(rest);
  return indices;
}

ArrayRef<int64_t> LoopBody::getSizes() {
  if (sizes.empty())
    sizes = op.getStaticLoopRanges();
  return sizes;
}

LoopBody::Access LoopBody::getAccess(OpOperand &operand, int64_t lanes) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  unsigned innermost = getSizes().size() - 1;
  if (!map.isFunctionOfDim(innermost))
    return Access::Invariant;
  auto type = cast<MemRefType>(operand.get().getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  if (lanes == 1 || !type.getElementType().isIntOrFloat() ||
      type.getElementTypeBitWidth() < 8 ||
      failed(type.getStridesAndOffset(strides, offset)) ||
      strides.back() != 1 ||
      map.getResults().back() != getAffineDimExpr(innermost, map.getContext()))
    return Access::Scattered;
  // Rows have to start at multiples of a vector. An offset that is not known
  // here is a multiple of a row (the row loops make such views).
  for (int64_t stride : ArrayRef(strides).drop_back())
    if (ShapedType::isDynamic(stride) || stride % lanes != 0)
      return Access::Scattered;
  if (!ShapedType::isDynamic(offset) && offset % lanes != 0)
    return Access::Scattered;
  return Access::Vector;
}

int64_t LoopBody::getLanes() {
  constexpr int64_t lanes = 4;
  if (getSizes().empty() || sizes.back() % lanes != 0)
    return 1;
  if (op.getNumReductionLoops() == 0)
    return llvm::all_of(op.getDpsInitsMutable(),
                        [&](OpOperand &operand) {
                          return getAccess(operand, lanes) == Access::Vector;
                        })
               ? lanes
               : 1;
  if (op.getIteratorTypesArray().back() != utils::IteratorType::reduction)
    return 1;
  return llvm::any_of(op.getDpsInputOperands(),
                      [&](OpOperand *operand) {
                        return getAccess(*operand, lanes) == Access::Vector;
                      })
             ? lanes
             : 1;
}

Value LoopBody::laneIndex(OpBuilder &builder, Value index, int64_t lane) {
  if (lane == 0)
    return index;
  Value step = arith::ConstantIndexOp::create(builder, op.getLoc(), lane);
  return arith::AddIOp::create(builder, op.getLoc(), index, step);
}

SmallVector<Value> LoopBody::subscripts(OpBuilder &builder, OpOperand &operand,
                                        ValueRange indices, int64_t lane) {
  unsigned innermost = getSizes().size() - 1;
  SmallVector<Value> result;
  for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults()) {
    unsigned dim = cast<AffineDimExpr>(expr).getPosition();
    result.push_back(dim == innermost ? laneIndex(builder, indices[dim], lane)
                                      : indices[dim]);
  }
  return result;
}

SmallVector<Value> LoopBody::emitLoads(OpBuilder &builder, OpOperand &operand,
                                       ValueRange indices, int64_t lanes) {
  Location loc = op.getLoc();
  Value from = memory(operand);
  Access access =
      getSizes().empty() ? Access::Invariant : getAccess(operand, lanes);
  SmallVector<Value> values;
  if (access == Access::Vector && lanes > 1) {
    auto type = VectorType::get(
        {lanes}, cast<MemRefType>(from.getType()).getElementType());
    Value vector = vector::LoadOp::create(
        builder, loc, type, from, subscripts(builder, operand, indices, 0));
    for (int64_t lane = 0; lane < lanes; ++lane)
      values.push_back(vector::ExtractOp::create(builder, loc, vector, lane));
    return values;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    if (lane > 0 && access == Access::Invariant) {
      values.push_back(values[0]);
      continue;
    }
    values.push_back(memref::LoadOp::create(
        builder, loc, from, subscripts(builder, operand, indices, lane)));
  }
  return values;
}

SmallVector<SmallVector<Value>>
LoopBody::emitOperands(OpBuilder &builder, ValueRange indices, int64_t lanes) {
  SmallVector<SmallVector<Value>> byLane(lanes);
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    bool isReduced = op.isDpsInit(&operand) && op.getNumReductionLoops() != 0;
    SmallVector<Value> values(lanes);
    if (!argument.use_empty() && !isReduced)
      values = emitLoads(builder, operand, indices, lanes);
    for (auto [lane, value] : llvm::zip(byLane, values))
      lane.push_back(value);
  }
  return byLane;
}

SmallVector<Value> LoopBody::emitPoint(OpBuilder &builder, ValueRange indices,
                                       ValueRange operands) {
  IRMapping inner(mapping);
  for (auto [argument, value] :
       llvm::zip(op.getBlock()->getArguments(), operands))
    if (value)
      inner.map(argument, value);
  for (Operation &nested : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(nested))
      inner.map(index.getResult(), indices[index.getDim()]);
    else
      builder.clone(nested, inner);
  }
  SmallVector<Value> results;
  for (Value value : op.getBlock()->getTerminator()->getOperands())
    results.push_back(inner.lookupOrDefault(value));
  return results;
}

void LoopBody::emitStores(OpBuilder &builder, ValueRange indices,
                          int64_t lanes) {
  Location loc = op.getLoc();
  auto operands = emitOperands(builder, indices, lanes);
  SmallVector<SmallVector<Value>> results;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    SmallVector<Value> at(indices);
    if (!at.empty())
      at.back() = laneIndex(builder, at.back(), lane);
    results.push_back(emitPoint(builder, at, operands[lane]));
  }
  for (auto [number, operand] : llvm::enumerate(op.getDpsInitsMutable())) {
    Value to = memory(operand);
    SmallVector<Value> at = subscripts(builder, operand, indices, 0);
    if (lanes == 1) {
      memref::StoreOp::create(builder, loc, results[0][number], to, at);
      continue;
    }
    SmallVector<Value> elements;
    for (const SmallVector<Value> &lane : results)
      elements.push_back(lane[number]);
    auto type = VectorType::get({lanes}, elements[0].getType());
    Value vector = vector::FromElementsOp::create(builder, loc, type, elements);
    vector::StoreOp::create(builder, loc, vector, to, at);
  }
}

Operation *LoopBody::getCombiner() {
  if (op.getNumDpsInits() != 1)
    return nullptr;
  Value result = op.getBlock()->getTerminator()->getOperand(0);
  Value old = op.getBlock()->getArguments().back();
  Operation *combiner = result.getDefiningOp();
  if (!combiner || combiner->getNumOperands() != 2 || !old.hasOneUse() ||
      !llvm::is_contained(combiner->getOperands(), old) ||
      !isa<arith::AddFOp, arith::AddIOp, arith::MaximumFOp, arith::MinimumFOp,
           arith::MaxSIOp, arith::MinSIOp, arith::MulFOp, arith::MulIOp>(
          combiner))
    return nullptr;
  return combiner;
}

Value LoopBody::emitIdentity(OpBuilder &builder) {
  Operation *combiner = getCombiner();
  Type type = combiner->getResult(0).getType();
  TypedAttr value;
  if (isa<arith::AddFOp, arith::AddIOp>(combiner)) {
    value = builder.getZeroAttr(type);
  } else if (isa<arith::MulFOp, arith::MulIOp>(combiner)) {
    value = builder.getOneAttr(type);
  } else if (auto real = dyn_cast<FloatType>(type)) {
    value = builder.getFloatAttr(
        real, APFloat::getInf(real.getFloatSemantics(),
                              isa<arith::MaximumFOp>(combiner)));
  } else {
    unsigned width = type.getIntOrFloatBitWidth();
    value = builder.getIntegerAttr(type, isa<arith::MaxSIOp>(combiner)
                                             ? APInt::getSignedMinValue(width)
                                             : APInt::getSignedMaxValue(width));
  }
  return arith::ConstantOp::create(builder, op.getLoc(), value);
}

Value LoopBody::emitCombine(OpBuilder &builder, Value x, Value y) {
  Operation *combiner = getCombiner();
  Value old = op.getBlock()->getArguments().back();
  IRMapping inner;
  for (Value operand : combiner->getOperands())
    inner.map(operand, operand == old ? x : y);
  return builder.clone(*combiner, inner)->getResult(0);
}

Value LoopBody::emitReduced(OpBuilder &builder, ValueRange indices,
                            int64_t lanes, Value sum) {
  auto operands = emitOperands(builder, indices, lanes);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    SmallVector<Value> at(indices);
    at.back() = laneIndex(builder, at.back(), lane);
    operands[lane].back() = sum;
    sum = emitPoint(builder, at, operands[lane])[0];
  }
  return sum;
}
