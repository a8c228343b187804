//===- RandomHandlers.cpp - ONNX operators that draw numbers --------------===//

#include "NodeImporter.h"

#include "llvm/ADT/bit.h"
#include <numbers>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The attribute of whole numbers and of floats.
static int64_t seedOf(NodeImporter &n) {
  const onnx::Attribute *seed = n.findAttribute("seed");
  if (!seed)
    return 0;
  return seed->kind == onnx::Attribute::Kind::Float
             ? llvm::bit_cast<uint32_t>(static_cast<float>(seed->f))
             : seed->i;
}

/// Whether a Dropout drops. Before opset 12 nothing but the program's purpose
/// says so, and `is_test` before opset 7. From then on one without
/// training_mode is inactive by the specification, but both exporters of
/// PyTorch write the dropout of scaled_dot_product_attention so, and only where
/// it is active.
static bool isActive(NodeImporter &n, double ratio) {
  bool isTest = n.attribute("is_test", int64_t{0}) != 0;
  if (!n.isTraining() || ratio == 0)
    return false;
  if (n.opset() < 12)
    return !isTest;
  if (n.hasInput(2))
    return n.known(2).integer().value_or(1) != 0;
  if (n.hasInput(1))
    n.warnOnce("drops in training, though it has no training_mode: PyTorch "
               "writes the dropout of attention so. What shall not drop has "
               "ratio 0, or training_mode false");
  return n.hasInput(1);
}

static LogicalResult dropout(NodeImporter &n) {
  int64_t seed = seedOf(n);
  double ratio = n.attribute("ratio", 0.5);
  if (n.hasInput(1))
    ratio = *n.known(1).number();
  if (!(ratio >= 0 && ratio <= 1))
    return n.error("ratio is " + llvm::Twine(std::to_string(ratio)) +
                   ", which is outside of [0, 1]");
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto type = n.type(x);
  Value mask;
  if (isActive(n, ratio)) {
    Value drawn = n.uniform(type.getShape(), seed);
    if (!drawn)
      return failure();
    mask =
        n.make<CompareOp>(Comparison::ge, drawn, n.splat(n.type(drawn), ratio));
    double scale = ratio == 1 ? 1 : 1 / (1 - ratio);
    Value scaled = n.make<MulOp>(x, n.splat(type, scale));
    n.setOutput(0, Value(n.make<SelectOp>(mask, scaled, n.splat(type, 0))));
  } else {
    n.setOutput(0, n.input(0));
  }
  if (n.getNode().outputs.size() < 2 || n.getNode().outputs[1].empty())
    return success();
  // The mask was of the data's type before opset 10.
  Type element =
      n.opset() < 10 ? type.getElementType() : n.getBuilder().getI1Type();
  n.setOutput(1,
              mask ? n.cast(mask, element) : n.splat(type.clone(element), 1));
  return success();
}

/// The elements of a result: those that `dtype` names, else `fallback`.
static Type resultType(NodeImporter &n, Type fallback) {
  const onnx::Attribute *dtype = n.findAttribute("dtype");
  if (!dtype)
    return fallback;
  return onnx::isDataType(dtype->i)
             ? n.elementType(static_cast<onnx::DataType>(dtype->i))
             : nullptr;
}

/// Of which shape and type numbers are drawn: those of the input, or of the
/// attributes. Fails with an error.
static FailureOr<RankedTensorType> drawnType(NodeImporter &n) {
  Type element = n.getBuilder().getF32Type();
  SmallVector<int64_t> shape;
  if (n.hasInput(0)) {
    if (!n.tensor(0))
      return failure();
    shape = llvm::to_vector(n.shape(n.input(0)));
    if (Type own = n.elementType(n.input(0)); isa<FloatType>(own))
      element = own;
  } else {
    shape = n.attribute("shape", ArrayRef<int64_t>());
    if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
      return n.error("attribute shape has a negative size");
    if (isTooLarge(shape))
      return n.error("draws more than " + llvm::Twine(maxElements) +
                     " numbers");
  }
  element = resultType(n, element);
  if (!isa_and_nonnull<FloatType>(element))
    return n.error("draws numbers of a type that is not supported");
  return RankedTensorType::get(shape, element);
}

/// What numbers of a type are computed in.
static RankedTensorType computedType(NodeImporter &n, RankedTensorType type) {
  bool isShort = type.getElementTypeBitWidth() < 32;
  return isShort ? type.clone(n.getBuilder().getF32Type()) : type;
}

static LogicalResult randomUniform(NodeImporter &n) {
  int64_t seed = seedOf(n);
  double low = n.attribute("low", 0.0), high = n.attribute("high", 1.0);
  FailureOr<RankedTensorType> type = drawnType(n);
  if (failed(type))
    return failure();
  Value drawn = n.uniform(type->getShape(), seed);
  if (!drawn)
    return failure();
  RankedTensorType computed = computedType(n, *type);
  Value x = n.cast(drawn, computed.getElementType());
  if (high - low != 1)
    x = n.make<MulOp>(x, n.splat(computed, high - low));
  if (low != 0)
    x = n.make<AddOp>(x, n.splat(computed, low));
  n.setOutput(0, n.cast(x, type->getElementType()));
  return success();
}

/// Box and Muller: sqrt(-2 ln(1 - u)) cos(2 pi v).
static LogicalResult randomNormal(NodeImporter &n) {
  int64_t seed = seedOf(n);
  double mean = n.attribute("mean", 0.0), scale = n.attribute("scale", 1.0);
  FailureOr<RankedTensorType> type = drawnType(n);
  if (failed(type))
    return failure();
  Value u = n.uniform(type->getShape(), seed);
  if (!u)
    return failure();
  Value v = n.uniform(type->getShape(), seed);
  auto splat = [&](double value) { return n.splat(n.type(u), value); };
  Value logarithm = n.make<LogOp>(n.make<SubOp>(splat(1), u));
  Value radius = n.make<SqrtOp>(n.make<MulOp>(logarithm, splat(-2)));
  Value angle = n.make<MulOp>(v, splat(2 * std::numbers::pi));
  RankedTensorType computed = computedType(n, *type);
  Value x = n.cast(n.make<MulOp>(radius, n.make<CosOp>(angle)),
                   computed.getElementType());
  if (scale != 1)
    x = n.make<MulOp>(x, n.splat(computed, scale));
  if (mean != 0)
    x = n.make<AddOp>(x, n.splat(computed, mean));
  n.setOutput(0, n.cast(x, type->getElementType()));
  return success();
}

static LogicalResult bernoulli(NodeImporter &n) {
  int64_t seed = seedOf(n);
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Type element = resultType(n, NodeImporter::elementType(n.input(0)));
  if (!element)
    return n.error("draws numbers of a type that is not supported");
  Value drawn = n.uniform(n.shape(x), seed);
  if (!drawn)
    return failure();
  drawn = n.cast(drawn, n.type(x).getElementType());
  n.setOutput(0, n.cast(n.make<CompareOp>(Comparison::lt, drawn, x), element));
  return success();
}

ArrayRef<ImportedOperator> pp::randomOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Bernoulli",
       .handler = bernoulli,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "Dropout",
       .handler = dropout,
       .types = floatTypes,
       .known = {{"ratio", KnownInput::Scalar}},
       .note = "drops in training programs alone, there also with `ratio` but "
               "without `training_mode`"},
      {.name = "RandomNormal",
       .handler = randomNormal,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "RandomNormalLike",
       .handler = randomNormal,
       .isDifferentiable = false},
      {.name = "RandomUniform",
       .handler = randomUniform,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "RandomUniformLike",
       .handler = randomUniform,
       .isDifferentiable = false},
  };
  return entries;
}
