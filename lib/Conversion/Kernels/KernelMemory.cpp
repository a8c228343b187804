//===- KernelMemory.cpp - Views of a kernel's memory ----------------------===//

#include "KernelMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

Value pp::reshaped(OpBuilder &builder, Location loc, Value memory,
                   ArrayRef<int64_t> shape) {
  auto type = cast<MemRefType>(memory.getType());
  if (type.getShape() == shape)
    return memory;
  SmallVector<OpFoldResult> sizes, strides(shape.size());
  int64_t stride = 1;
  for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
       --axis) {
    strides[axis] = builder.getIndexAttr(stride);
    stride *= shape[axis];
  }
  for (int64_t size : shape)
    sizes.push_back(builder.getIndexAttr(size));
  return memref::ReinterpretCastOp::create(
      builder, loc, MemRefType::get(shape, type.getElementType()), memory,
      builder.getIndexAttr(0), sizes, strides);
}

Value pp::wrappedIndex(OpBuilder &builder, Location loc, Value number,
                       int64_t size) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value wide =
      arith::IndexCastOp::create(builder, loc, builder.getIndexType(), number);
  Value isNegative = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::slt, wide, constant(0));
  Value wrapped = arith::AddIOp::create(builder, loc, wide, constant(size));
  return arith::SelectOp::create(builder, loc, isNegative, wrapped, wide);
}

Value pp::ifInside(OpBuilder &builder, Location loc, Value index, int64_t size,
                   Value value) {
  auto type = dyn_cast<FloatType>(value.getType());
  if (!type)
    return value;
  Value limit = arith::ConstantIndexOp::create(builder, loc, size);
  Value isInside = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::ult, index, limit);
  Value nan = arith::ConstantOp::create(
      builder, loc,
      builder.getFloatAttr(type, APFloat::getNaN(type.getFloatSemantics())));
  return arith::SelectOp::create(builder, loc, isInside, value, nan);
}

Value pp::clampedIndex(OpBuilder &builder, Location loc, Value wide,
                       int64_t size) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value low = arith::MaxSIOp::create(builder, loc, wide, constant(0));
  return arith::MinSIOp::create(builder, loc, low, constant(size - 1));
}
