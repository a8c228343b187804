//===- BitHandlers.cpp - ONNX operators on the bits of integers -----------===//

#include "Expressions.h"
#include "NarrowType.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

template <typename Op> static LogicalResult bitwise(NodeImporter &n) {
  Value x = n.tensor(0), y = n.tensor(1);
  if (!x || !y || failed(n.broadcastTogether(x, y)))
    return failure();
  n.setOutput(0, Value(n.make<Op>(x, y)));
  return success();
}

static LogicalResult bitwiseNot(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, Value(n.make<NotOp>(x)));
  return success();
}

/// Products and quotients with powers of two. Of a number that is shifted by
/// more bits than it has, or by less than none, its sign is left.
static LogicalResult bitShift(NodeImporter &n) {
  Value x = n.tensor(0), count = n.tensor(1);
  if (!x || !count || failed(n.broadcastTogether(x, count)))
    return failure();
  constexpr int64_t bits = 64;
  Type element = n.type(x).getElementType();
  SmallVector<Attribute> powers;
  for (int64_t i = 0; i <= bits; ++i)
    powers.push_back(NodeImporter::integerAttribute(
        element, i < element.getIntOrFloatBitWidth() ? int64_t(1ULL << i) : 0));
  Value table = n.constant(Constant(DenseElementsAttr::get(
      RankedTensorType::get(bits + 1, element), powers)));
  Expressions e{n};
  bool isSigned = !element.isUnsignedInteger();
  if (isSigned)
    count = e.select(e.compare(Comparison::lt, count, 0), e.number(count, bits),
                     count);
  Value places = n.cast(e.min(count, bits), n.getBuilder().getI64Type());
  Value factor = n.make<GatherOp>(table, places, int64_t{0});
  if (n.attribute("direction", "") == "LEFT") {
    n.setOutput(0, e.mul(x, factor));
    return success();
  }
  if (!isSigned) {
    n.setOutput(0, e.div(x, factor));
    return success();
  }
  // Division rounds towards zero, shifts downwards.
  auto mirrored = [&](Value value, Value where) {
    return e.select(where, e.unary<NotOp>(value), value);
  };
  Value isNegative = e.compare(Comparison::lt, x, 0);
  n.setOutput(0, mirrored(e.div(mirrored(x, isNegative), factor), isNegative));
  return success();
}

/// The same bits as elements of another type. Integers and truth values of as
/// many bits are converted into each other.
static LogicalResult bitCast(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Builder &b = n.getBuilder();
  Type from = n.type(x).getElementType(), to = n.storedType(n.castTarget());
  if (!to || isNarrow(n.castTarget()))
    return n.error("its target type is not supported");
  auto bytes = [](Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; };
  if (bytes(from) != bytes(to))
    return n.error("reads elements of " + llvm::Twine(bytes(from)) +
                   " bytes as some of " + llvm::Twine(bytes(to)));
  Type bits = b.getIntegerType(8 * bytes(from));
  auto read = [&](Value value, Type type) {
    return n.make<BitcastOp>(n.type(value).clone(type), value);
  };
  if (isa<FloatType>(from))
    x = read(x, bits);
  if (isa<FloatType>(to))
    x = read(n.cast(x, bits), to);
  n.setOutput(0, n.cast(x, to));
  return success();
}

ArrayRef<ImportedOperator> pp::bitOperators() {
  static const ImportedOperator entries[] = {
      {.name = "BitCast", .handler = bitCast, .isDifferentiable = false},
      {.name = "BitShift",
       .handler = bitShift,
       .types = integerTypes,
       .isDifferentiable = false,
       .choices = {{"direction", {"LEFT", "RIGHT"}}}},
      {.name = "BitwiseAnd",
       .handler = bitwise<AndOp>,
       .types = integerTypes,
       .isDifferentiable = false},
      {.name = "BitwiseNot",
       .handler = bitwiseNot,
       .types = integerTypes,
       .isDifferentiable = false},
      {.name = "BitwiseOr",
       .handler = bitwise<OrOp>,
       .types = integerTypes,
       .isDifferentiable = false},
      {.name = "BitwiseXor",
       .handler = bitwise<XorOp>,
       .types = integerTypes,
       .isDifferentiable = false},
      {.name = "Xor",
       .handler = bitwise<XorOp>,
       .types = boolType,
       .isDifferentiable = false},
  };
  return entries;
}
