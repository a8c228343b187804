//===- QuantizationHandlers.cpp - ONNX operators on quantized numbers -----===//
//
// q stands for (q - zero point) * scale. Products of such numbers are sums of
// products of integers, which floating-point numbers hold exactly.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"
#include "NarrowType.h"
#include "Products.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A scale or zero point in the shape of what it belongs to: one number, one
/// for each place of an axis, or one for each block along it.
Value alignTo(NodeImporter &n, Value parameter, ArrayRef<int64_t> shape,
              int64_t axis, int64_t block) {
  SmallVector<int64_t> own(n.shape(parameter));
  if (n.type(parameter).getNumElements() == 1)
    return n.broadcastTo(n.reshape(parameter, {}), shape);
  auto mismatch = [&]() -> Value {
    (void)n.error("has a scale or zero point whose shape fits neither the "
                  "tensor nor its axis " +
                  llvm::Twine(axis));
    return nullptr;
  };
  int64_t rank = shape.size();
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis >= rank)
    return mismatch();
  if (block > 0) {
    if (own.size() != shape.size())
      return mismatch();
    for (int64_t each = 0; each < rank; ++each)
      if (own[each] !=
          (each == axis ? (shape[each] + block - 1) / block : shape[each]))
        return mismatch();
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < shape[axis]; ++i)
      positions.push_back(i / block);
    return n.take(parameter, axis, positions);
  }
  if (own.size() != 1 || own[0] != shape[axis])
    return mismatch();
  return n.make<BroadcastOp>(n.type(parameter).clone(shape), parameter,
                             ArrayRef<int64_t>(axis));
}

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

/// Floating-point numbers that hold the sums of so many products of numbers
/// with 8 bits.
Type exactType(NodeImporter &n, int64_t terms) {
  constexpr int64_t mostInFloat = (1 << 24) / (1 << 16);
  return terms <= mostInFloat ? Type(n.getBuilder().getF32Type())
                              : Type(n.getBuilder().getF64Type());
}

/// Input `index` without its zero point, as a floating-point number. The zero
/// point is one number, or one for each place of `axis`; it may be missing.
Value withoutZero(NodeImporter &n, size_t index, size_t zeroIndex, int64_t axis,
                  Type type) {
  Value x = n.tensor(index);
  if (!x)
    return nullptr;
  Expressions e{n};
  x = n.cast(x, type);
  if (!n.hasInput(zeroIndex))
    return x;
  Value zero = n.cast(n.tensor(zeroIndex), type);
  // A column of one number for each row.
  SmallVector<int64_t> own(n.shape(zero));
  if (own.size() > 1 && own.size() == n.shape(x).size()) {
    for (auto [mine, theirs] : llvm::zip(own, n.shape(x)))
      if (mine != 1 && mine != theirs) {
        (void)n.error("has a zero point whose shape does not fit");
        return nullptr;
      }
    return e.sub(x, n.broadcastTo(zero, n.shape(x)));
  }
  zero = alignTo(n, zero, n.shape(x), axis, 0);
  return zero ? e.sub(x, zero) : Value();
}

LogicalResult matMulInteger(NodeImporter &n) {
  ArrayRef<int64_t> shape = NodeImporter::shape(n.input(0));
  Type type = exactType(n, shape.empty() ? 1 : shape.back());
  Value a = withoutZero(n, 0, 2, -2, type);
  Value b = a ? withoutZero(n, 1, 3, -1, type) : Value();
  Value y = b ? importMatMul(n, a, b) : Value();
  if (!y)
    return failure();
  n.setOutput(0, n.cast(y, n.getBuilder().getI32Type()));
  return success();
}

/// Terms of each sum of a convolution with these weights.
int64_t termsOf(ArrayRef<int64_t> weight) {
  int64_t terms = 1;
  for (int64_t size : weight.drop_front(weight.empty() ? 0 : 1))
    terms *= size;
  return terms;
}

LogicalResult convInteger(NodeImporter &n) {
  Type type = exactType(n, termsOf(NodeImporter::shape(n.input(1))));
  Value x = withoutZero(n, 0, 2, 1, type);
  Value w = x ? withoutZero(n, 1, 3, 0, type) : Value();
  Value y = w ? importConv(n, x, w) : Value();
  if (!y)
    return failure();
  n.setOutput(0, n.cast(y, n.getBuilder().getI32Type()));
  return success();
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
  ArrayRef<int64_t> shape = NodeImporter::shape(n.input(0));
  Type type = exactType(n, shape.empty() ? 1 : shape.back());
  Value a = withoutZero(n, 0, 2, -2, type);
  Value b = a ? withoutZero(n, 3, 5, -1, type) : Value();
  Value y = b ? importMatMul(n, a, b) : Value();
  return y ? requantize(n, y, 1, -2, 4, -1, 6, 7) : failure();
}

LogicalResult qLinearConv(NodeImporter &n) {
  Type type = exactType(n, termsOf(NodeImporter::shape(n.input(3))));
  Value x = withoutZero(n, 0, 2, 1, type);
  Value w = x ? withoutZero(n, 3, 5, 0, type) : Value();
  Value y = w ? importConv(n, x, w) : Value();
  if (!y)
    return failure();
  if (n.hasInput(8)) {
    Value bias = n.cast(n.tensor(8), type);
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
