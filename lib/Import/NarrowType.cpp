//===- NarrowType.cpp - Floats of 8 and 4 bits, integers of 4 and 2 -------===//

#include "NarrowType.h"
#include "Expressions.h"

#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;
using onnx::DataType;

namespace {

/// A floating-point type with a sign, but for Float8E8M0.
struct Format {
  DataType type;
  const llvm::fltSemantics &semantics;
  /// Bits behind the point, and the exponent of the smallest normal number.
  int64_t mantissa, lowest;
  /// Bits of the largest number, of what is larger, of NaN, and of the sign.
  int64_t largest, overflow, nan, sign;
  bool hasNegativeZero = true;
};

const Format *formatOf(DataType type) {
  static const Format formats[] = {
      {DataType::Float8E4M3FN, llvm::APFloat::Float8E4M3FN(), 3, -6, 0x7e, 0x7f,
       0x7f, 0x80},
      {DataType::Float8E4M3FNUZ, llvm::APFloat::Float8E4M3FNUZ(), 3, -7, 0x7f,
       0x80, 0x80, 0x80, false},
      {DataType::Float8E5M2, llvm::APFloat::Float8E5M2(), 2, -14, 0x7b, 0x7c,
       0x7e, 0x80},
      {DataType::Float8E5M2FNUZ, llvm::APFloat::Float8E5M2FNUZ(), 2, -15, 0x7f,
       0x80, 0x80, 0x80, false},
      // There is no NaN: it becomes -0.
      {DataType::Float4E2M1, llvm::APFloat::Float4E2M1FN(), 1, 0, 7, 7, 8, 8},
      {DataType::Float8E8M0, llvm::APFloat::Float8E8M0FNU(), 0, -127, 0xfe,
       0xff, 0xff, 0},
  };
  for (const Format &format : formats)
    if (format.type == type)
      return &format;
  return nullptr;
}

/// The parts of floating-point numbers that are computed with.
struct Parts {
  Value magnitude, isNegative, exponent;
  int64_t mantissa, bias;
};

Parts partsOf(Expressions &e, Value x) {
  Builder &b = e.n.getBuilder();
  bool isDouble = e.n.type(x).getElementType().isF64();
  Type integer = isDouble ? b.getI64Type() : b.getI32Type();
  Parts parts;
  parts.mantissa = isDouble ? 52 : 23;
  parts.bias = isDouble ? 1023 : 127;
  Value bits = e.n.make<BitcastOp>(e.n.type(x).clone(integer), x);
  parts.isNegative = e.compare(Comparison::lt, bits, 0);
  Value mask = e.n.make<ConstantOp>(DenseElementsAttr::get(
      e.n.type(bits),
      Attribute(b.getIntegerAttr(integer, isDouble ? INT64_MAX : INT32_MAX))));
  parts.magnitude = e.both(bits, mask);
  parts.exponent =
      e.div(parts.magnitude,
            e.number(bits, std::ldexp(1.0, static_cast<int>(parts.mantissa))));
  return parts;
}

/// Numbers in steps of 2^(exponent - mantissa), exponents below the lowest
/// being the lowest: the bits are the exponent, from 0, and the steps.
Value codesOf(Expressions &e, Value x, const Format &format,
              const Narrowing &narrowing) {
  NodeImporter &n = e.n;
  Value isNaN = e.isNaN(x);
  x = e.select(isNaN, e.number(x, 0), x);
  Parts parts = partsOf(e, x);
  auto steps = static_cast<double>(int64_t{1} << format.mantissa);
  Value place = e.max(
      e.add(parts.exponent, -static_cast<double>(parts.bias + format.lowest)),
      0);
  place = e.min(place, static_cast<double>(format.largest) / steps + 1);
  // 2^-(lowest - mantissa + place), from its bits.
  Value power = e.sub(
      static_cast<double>(parts.bias + format.mantissa - format.lowest), place);
  Value bits = e.mul(power, std::ldexp(1.0, static_cast<int>(parts.mantissa)));
  Value factor = n.make<BitcastOp>(x.getType(), bits);
  Value count = e.min(e.unary<RoundOp>(e.mul(e.abs(x), factor)), 2 * steps);
  Value code =
      e.add(e.mul(place, steps), n.cast(count, n.type(place).getElementType()));
  Value isOver =
      e.compare(Comparison::gt, code, static_cast<double>(format.largest));
  int64_t most = narrowing.saturate ? format.largest : format.overflow;
  code = e.select(isOver, e.number(code, static_cast<double>(most)), code);
  Value sign = e.select(parts.isNegative,
                        e.number(code, static_cast<double>(format.sign)),
                        e.number(code, 0));
  Value bare = code;
  code = e.either(code, sign);
  if (!format.hasNegativeZero)
    code = e.select(e.compare(Comparison::eq, bare, 0), bare, code);
  return e.select(isNaN, e.number(code, static_cast<double>(format.nan)), code);
}

/// Powers of two without a sign: the exponent.
Value powersOf(Expressions &e, Value x, const Format &format,
               const Narrowing &narrowing) {
  NodeImporter &n = e.n;
  // Of single precision, whose exponents are the same.
  x = n.cast(x, n.getBuilder().getF32Type());
  Value isNaN = e.isNaN(x);
  x = e.select(isNaN, e.number(x, 0), x);
  Parts parts = partsOf(e, x);
  double steps = std::ldexp(1.0, static_cast<int>(parts.mantissa));
  Value rest = e.sub(parts.magnitude,
                     e.mul(parts.exponent, e.number(parts.magnitude, steps)));
  Value code = parts.exponent;
  Value isUp;
  if (narrowing.roundMode == "up")
    isUp = e.compare(Comparison::gt, rest, 0);
  else if (narrowing.roundMode == "nearest")
    isUp = e.compare(Comparison::ge, rest, steps / 2);
  if (isUp)
    code = e.add(code, n.cast(isUp, n.type(code).getElementType()));
  code = e.min(code, static_cast<double>(narrowing.saturate ? format.largest
                                                            : format.overflow));
  return e.select(isNaN, e.number(code, static_cast<double>(format.nan)), code);
}

} // namespace

bool pp::isNarrowFloat(DataType type) { return formatOf(type); }

bool pp::isNarrow(DataType type) {
  switch (type) {
  case DataType::Int4:
  case DataType::Int2:
  case DataType::UInt4:
  case DataType::UInt2:
    return true;
  default:
    return isNarrowFloat(type);
  }
}

static bool isSigned(DataType type) {
  return type == DataType::Int4 || type == DataType::Int2;
}

Type NodeImporter::storedType(DataType dataType) {
  if (isNarrow(dataType))
    return isSigned(dataType)
               ? builder.getI8Type()
               : Type(builder.getIntegerType(8, /*isSigned=*/false));
  return elementType(dataType);
}

std::vector<uint8_t> pp::unpackNarrow(DataType type, uint64_t elements,
                                      ArrayRef<uint8_t> bytes) {
  unsigned width = onnx::bitWidth(type), each = 8 / width;
  unsigned mask = (1U << width) - 1, sign = 1U << (width - 1);
  std::vector<uint8_t> result(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    unsigned bits = bytes[i / each] >> (i % each * width) & mask;
    result[i] =
        isSigned(type) && width < 8 && (bits & sign) ? bits | ~mask : bits;
  }
  return result;
}

std::pair<double, double> pp::rangeOf(DataType type) {
  int width = static_cast<int>(onnx::bitWidth(type));
  switch (type) {
  case DataType::UInt2:
  case DataType::UInt4:
  case DataType::UInt8:
  case DataType::UInt16:
    return {0, std::ldexp(1, width) - 1};
  default:
    return {-std::ldexp(1, width - 1), std::ldexp(1, width - 1) - 1};
  }
}

Value pp::fromNarrow(NodeImporter &n, Value kept, DataType type) {
  const Format *format = formatOf(type);
  if (!format)
    return kept;
  unsigned width = onnx::bitWidth(type);
  SmallVector<float> numbers;
  for (uint64_t code = 0; code < uint64_t{1} << width; ++code)
    numbers.push_back(llvm::APFloat(format->semantics, llvm::APInt(width, code))
                          .convertToFloat());
  Builder &b = n.getBuilder();
  Value table = n.constant(Constant(DenseElementsAttr::get(
      RankedTensorType::get(static_cast<int64_t>(numbers.size()),
                            b.getF32Type()),
      ArrayRef(numbers))));
  Value places = n.cast(kept, b.getI64Type());
  return n.make<GatherOp>(n.type(kept).clone(b.getF32Type()), table, places,
                          int64_t{0});
}

Value pp::toNarrow(NodeImporter &n, Value numbers, DataType type,
                   const Narrowing &narrowing) {
  Expressions e{n};
  Builder &b = n.getBuilder();
  const Format *format = formatOf(type);
  Type stored = n.storedType(type);
  if (format) {
    if (!n.type(numbers).getElementType().isF64())
      numbers = n.cast(numbers, b.getF32Type());
    Value codes = type == DataType::Float8E8M0
                      ? powersOf(e, numbers, *format, narrowing)
                      : codesOf(e, numbers, *format, narrowing);
    return n.cast(codes, stored);
  }
  Value whole = n.cast(n.cast(numbers, b.getI64Type()), b.getI32Type());
  auto [low, high] = rangeOf(type);
  Value bits = e.both(whole, e.number(whole, high - low));
  if (isSigned(type))
    // The sign bit, carried on.
    bits = e.add(e.binary<XorOp>(bits, e.number(bits, -low)), low);
  return n.cast(bits, stored);
}
