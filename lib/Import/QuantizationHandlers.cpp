//===- QuantizationHandlers.cpp - ONNX operators on quantized numbers -----===//
//
// q stands for (q - zero point) * scale.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"
#include "NarrowType.h"
#include "QuantizedProducts.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// round(x / scale) + zero, where it is in the range of the integers `type`; x
/// / scale + zero of floating-point numbers. A scale and a zero have the shape
/// of x; there may be no zero.
Value quantized(Expressions &e, Value x, Value scale, Value zero,
                onnx::DataType type, bool saturate = true) {
  NodeImporter &n = e.n;
  Value q = e.div(x, scale);
  if (!isNarrowFloat(type))
    q = e.unary<RoundOp>(q);
  if (zero)
    q = e.add(q, n.cast(zero, n.type(q).getElementType()));
  if (isNarrowFloat(type))
    return toNarrow(n, q, type, {.saturate = saturate});
  auto [low, high] = rangeOf(type);
  return n.cast(e.max(e.min(q, high), low), n.storedType(type));
}

/// Whether numbers are quantized to this type.
bool isQuantized(onnx::DataType type) {
  switch (type) {
  case onnx::DataType::Int8:
  case onnx::DataType::UInt8:
  case onnx::DataType::Int16:
  case onnx::DataType::UInt16:
    return true;
  default:
    return isNarrow(type) && type != onnx::DataType::Float8E8M0;
  }
}

LogicalResult quantizeLinear(NodeImporter &n) {
  Value x = n.tensor(0), scale = n.tensor(1);
  if (!x || !scale)
    return failure();
  bool saturate = n.attribute("saturate", int64_t{1}) != 0;
  auto type = onnx::DataType::UInt8;
  int64_t given = n.attribute("output_dtype", int64_t{0});
  if (n.hasInput(2))
    type = NodeImporter::dataType(n.input(2));
  else if (given != 0)
    type = onnx::isDataType(given) ? static_cast<onnx::DataType>(given)
                                   : onnx::DataType::Undefined;
  if (!isQuantized(type))
    return n.error("quantizes to a type that is not supported");
  int64_t axis = n.attribute("axis", int64_t{1});
  int64_t block = n.attribute("block_size", int64_t{0});
  ArrayRef<int64_t> shape = n.shape(x);
  Type real = n.type(scale).getElementType();
  if (!isa<FloatType>(real))
    return n.error("has a scale that is no floating-point number");
  scale = alignTo(n, scale, shape, axis, block);
  Value zero;
  if (n.hasInput(2)) {
    zero = fromNarrow(n, n.tensor(2), n.input(2).narrow);
    zero = alignTo(n, zero, shape, axis, block);
    if (!zero)
      return failure();
  }
  if (!scale)
    return failure();
  Expressions e{n};
  Entry result;
  result.value = quantized(e, n.cast(x, real), scale, zero, type, saturate);
  if (isNarrow(type))
    result.narrow = type;
  n.setOutput(0, result);
  return success();
}

LogicalResult dequantizeLinear(NodeImporter &n) {
  Value x = n.tensor(0), scale = n.tensor(1);
  if (!x || !scale)
    return failure();
  int64_t axis = n.attribute("axis", int64_t{1});
  int64_t block = n.attribute("block_size", int64_t{0});
  ArrayRef<int64_t> shape = n.shape(x);
  scale = alignTo(n, scale, shape, axis, block);
  if (!scale)
    return failure();
  Expressions e{n};
  // The differences have more bits than the numbers.
  auto numbers = [&](Value value, size_t index) {
    Value number = fromNarrow(n, value, n.input(index).narrow);
    return isa<FloatType>(n.type(number).getElementType()) ||
                   n.type(number).getElementType().getIntOrFloatBitWidth() > 8
               ? number
               : n.cast(number, n.getBuilder().getI32Type());
  };
  x = numbers(x, 0);
  if (n.hasInput(2)) {
    Value zero = alignTo(n, numbers(n.tensor(2), 2), shape, axis, block);
    if (!zero)
      return failure();
    x = e.sub(x, zero);
  }
  Value y = e.mul(n.cast(x, n.type(scale).getElementType()), scale);
  y = n.cast(y, NodeImporter::elementType(n.input(1)));
  if (int64_t given = n.attribute("output_dtype", int64_t{0})) {
    Type type = onnx::isDataType(given)
                    ? n.elementType(static_cast<onnx::DataType>(given))
                    : Type();
    if (!type || !isa<FloatType>(type))
      return n.error("dequantizes to a type that is not supported");
    y = n.cast(y, type);
  }
  n.setOutput(0, y);
  return success();
}

LogicalResult matMulInteger(NodeImporter &n) {
  QuantizedFactor a = quantizedFactor(n, 0, 2, -2),
                  b = a ? quantizedFactor(n, 1, 3, -1) : QuantizedFactor();
  Value y = b ? quantizedMatMul(n, a, b) : Value();
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

LogicalResult convInteger(NodeImporter &n) {
  QuantizedFactor x = quantizedFactor(n, 0, 2, 1),
                  w = x ? quantizedFactor(n, 1, 3, 0) : QuantizedFactor();
  Value y = w ? quantizedConv(n, x, w) : Value();
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

/// Input `index` as what a sum in f32 is multiplied with: one number, or one
/// for each place of `axis` of `shape`.
Value scaleOf(NodeImporter &n, size_t index, ArrayRef<int64_t> shape,
              int64_t axis) {
  Value scale = n.tensor(index);
  return scale ? alignTo(n, n.cast(scale, n.getBuilder().getF32Type()), shape,
                         axis, 0)
               : Value();
}

/// The sum times the scales of its factors, as a number of the output's.
LogicalResult requantize(NodeImporter &n, Value sum, size_t lhsScale,
                         int64_t lhsAxis, size_t rhsScale, int64_t rhsAxis,
                         size_t scale, size_t zero) {
  Expressions e{n};
  ArrayRef<int64_t> shape = n.shape(sum);
  Value real = n.cast(sum, n.getBuilder().getF32Type());
  Value left = scaleOf(n, lhsScale, shape, lhsAxis);
  Value right = scaleOf(n, rhsScale, shape, rhsAxis);
  Value to = scaleOf(n, scale, shape, lhsAxis);
  Value zeros = alignTo(n, n.tensor(zero), shape, lhsAxis, 0);
  if (!left || !right || !to || !zeros)
    return failure();
  onnx::DataType type = NodeImporter::dataType(n.input(zero));
  if (!isQuantized(type))
    return n.error("quantizes to a type that is not supported");
  real = e.mul(real, e.mul(left, right));
  n.setOutput(0, quantized(e, real, to, zeros, type));
  return success();
}

LogicalResult qLinearMatMul(NodeImporter &n) {
  QuantizedFactor a = quantizedFactor(n, 0, 2, -2),
                  b = a ? quantizedFactor(n, 3, 5, -1) : QuantizedFactor();
  Value y = b ? quantizedMatMul(n, a, b) : Value();
  return y ? requantize(n, y, 1, -2, 4, -1, 6, 7) : failure();
}

LogicalResult qLinearConv(NodeImporter &n) {
  QuantizedFactor x = quantizedFactor(n, 0, 2, 1),
                  w = x ? quantizedFactor(n, 3, 5, 0) : QuantizedFactor();
  Value y = w ? quantizedConv(n, x, w) : Value();
  if (!y)
    return failure();
  if (n.hasInput(8)) {
    Value bias = n.tensor(8);
    ArrayRef<int64_t> shape = n.shape(y);
    if (n.shape(bias) != ArrayRef<int64_t>(shape[1]))
      return n.error("has a bias that is not one number for each channel");
    y = n.make<AddOp>(
        y, n.make<BroadcastOp>(n.type(y), bias, ArrayRef<int64_t>{1}));
  }
  return requantize(n, y, 1, 1, 4, 1, 6, 7);
}

/// Scale and zero point from the smallest and largest number, 0 among them.
LogicalResult dynamicQuantizeLinear(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Expressions e{n};
  SmallVector<int64_t> axes =
      llvm::to_vector(llvm::seq<int64_t>(0, n.type(x).getRank()));
  constexpr double most = 255;
  Value low = e.min(n.reduce(Reduction::min, x, axes, false), 0);
  Value high = e.max(n.reduce(Reduction::max, x, axes, false), 0);
  Value scale = e.div(e.sub(high, low), e.number(low, most));
  Value zero = e.unary<RoundOp>(e.div(e.neg(low), scale));
  zero = e.max(e.min(zero, most), 0);
  auto type = onnx::DataType::UInt8;
  ArrayRef<int64_t> shape = n.shape(x);
  n.setOutput(0, quantized(e, x, n.broadcastTo(scale, shape),
                           n.broadcastTo(zero, shape), type));
  n.setOutput(1, scale);
  n.setOutput(2, n.cast(zero, n.storedType(type)));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::quantizationOperators() {
  static const Choice padding = {
      "auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}};
  static const ImportedOperator entries[] = {
      {.name = "ConvInteger",
       .handler = convInteger,
       .types = numberTypes,
       .isDifferentiable = false,
       .choices = {padding}},
      {.name = "DequantizeLinear",
       .handler = dequantizeLinear,
       .types = numberTypes | narrowTypes},
      {.name = "DynamicQuantizeLinear",
       .handler = dynamicQuantizeLinear,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "MatMulInteger",
       .handler = matMulInteger,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "QLinearConv",
       .handler = qLinearConv,
       .types = numberTypes,
       .isDifferentiable = false,
       .choices = {padding}},
      {.name = "QLinearMatMul",
       .handler = qLinearMatMul,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "QuantizeLinear",
       .handler = quantizeLinear,
       .types = numberTypes | narrowTypes,
       .isDifferentiable = false},
  };
  return entries;
}
