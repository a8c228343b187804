//===- ElementwiseHandlers.cpp - ONNX operators element by element --------===//

#include "NarrowType.h"
#include "pp/Import/Onnx/TorchExport.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

template <typename Op> static LogicalResult unary(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, Value(n.make<Op>(x)));
  return success();
}

/// Both inputs in their common shape. Before opset 7 the second one took the
/// shape of the first only where `broadcast` was set, beginning at `axis`.
static LogicalResult readPair(NodeImporter &n, Value &lhs, Value &rhs) {
  lhs = n.tensor(0);
  rhs = n.tensor(1);
  if (!lhs || !rhs)
    return failure();
  if (n.opset() >= 7)
    return n.broadcastTogether(lhs, rhs);
  SmallVector<int64_t> left(n.shape(lhs)), right(n.shape(rhs));
  int64_t first = static_cast<int64_t>(left.size() - right.size());
  int64_t axis = n.attribute("axis", first);
  axis = axis < 0 ? axis + static_cast<int64_t>(left.size()) : axis;
  if (!n.attribute("broadcast", int64_t{0})) {
    if (left != right)
      return n.error("has inputs of different shapes; before opset 7 that "
                     "needs the attribute broadcast=1");
    return success();
  }
  if (first < 0 || axis < 0 || axis > first)
    return n.error("attribute axis is " + llvm::Twine(axis) +
                   ", which does not place the second input in the first");
  right.append(first - axis, 1);
  rhs = n.reshape(rhs, right);
  if (failed(n.broadcastTogether(lhs, rhs)))
    return failure();
  if (n.shape(lhs) != ArrayRef<int64_t>(left))
    return n.error("the second input has a larger shape than the first");
  return success();
}

template <typename Op> static LogicalResult binary(NodeImporter &n) {
  Value lhs, rhs;
  if (failed(readPair(n, lhs, rhs)))
    return failure();
  n.setOutput(0, Value(n.make<Op>(lhs, rhs)));
  return success();
}

/// A maximum or minimum that keeps `x` inside of a bound. Where `x` is a bound
/// that is a number, PyTorch stops the gradient; where it is one of a tensor,
/// both share it.
template <typename Op>
static Value keepInside(NodeImporter &n, Value x, Value bound, bool isNumber) {
  auto op = n.make<Op>(x, bound);
  if (isNumber && n.isTraining())
    op->setAttr(stopsAtBoundAttrName, n.getBuilder().getUnitAttr());
  return op;
}

/// Operators with any number of inputs: Max, Min, Sum.
template <typename Op> static LogicalResult variadic(NodeImporter &n) {
  Value result = n.tensor(0);
  if (!result)
    return failure();
  bool isClamp = onnx::isClampByNumbers(n.getNode()).value_or(false);
  for (size_t index = 1; index < n.numInputs(); ++index) {
    Value next = n.tensor(index);
    if (!next || failed(n.broadcastTogether(result, next)))
      return failure();
    result = keepInside<Op>(n, result, next, isClamp);
  }
  n.setOutput(0, result);
  return success();
}

template <Comparison comparison> static LogicalResult compare(NodeImporter &n) {
  Value lhs, rhs;
  if (failed(readPair(n, lhs, rhs)))
    return failure();
  n.setOutput(0, Value(n.make<CompareOp>(comparison, lhs, rhs)));
  return success();
}

/// Of truth values, too.
static LogicalResult equal(NodeImporter &n) {
  Value lhs, rhs;
  if (failed(readPair(n, lhs, rhs)))
    return failure();
  Builder &b = n.getBuilder();
  if (n.type(lhs).getElementType().isInteger(1)) {
    lhs = n.cast(lhs, b.getI32Type());
    rhs = n.cast(rhs, b.getI32Type());
  }
  n.setOutput(0, Value(n.make<CompareOp>(Comparison::eq, lhs, rhs)));
  return success();
}

static LogicalResult relu(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, isa<FloatType>(n.type(x).getElementType())
                     ? Value(n.make<ReluOp>(x))
                     : Value(n.make<MaximumOp>(x, n.splat(n.type(x), 0))));
  return success();
}

static LogicalResult sign(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  if (isa<FloatType>(n.type(x).getElementType())) {
    n.setOutput(0, Value(n.make<SignOp>(x)));
    return success();
  }
  auto number = [&](double value) { return n.splat(n.type(x), value); };
  Value zero = number(0);
  Value y = n.make<SelectOp>(n.make<CompareOp>(Comparison::gt, x, zero),
                             number(1), zero);
  // Numbers without a sign have none below.
  if (!n.type(x).getElementType().isUnsignedInteger())
    y = n.make<SelectOp>(n.make<CompareOp>(Comparison::lt, x, zero), number(-1),
                         y);
  n.setOutput(0, y);
  return success();
}

static LogicalResult divide(NodeImporter &n) {
  if (auto divisors = n.known(1).integers();
      n.known(0) && succeeded(divisors) && llvm::is_contained(*divisors, 0))
    return n.error("divides whole numbers by zero");
  return binary<DivOp>(n);
}

static LogicalResult identity(NodeImporter &n) {
  Entry entry = n.input(0);
  bool isStop = n.isTraining() && onnx::isDetach(n.getNode());
  if (isStop && entry.value && !entry.constant &&
      isa<FloatType>(n.type(entry.value).getElementType()))
    entry.value = n.make<StopGradientOp>(entry.value);
  n.setOutput(0, entry);
  return success();
}

static LogicalResult reciprocal(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, Value(n.make<DivOp>(n.splat(n.type(x), 1), x)));
  return success();
}

static LogicalResult pow(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  // Squares and roots are what exporters write Pow for.
  if (Constant exponent = n.known(1);
      exponent && exponent.size() == 1 && exponent.getShape().size() <= 1) {
    double value = *exponent.number();
    if (value == 2.0) {
      n.setOutput(0, Value(n.make<MulOp>(x, x)));
      return success();
    }
    if (value == 3.0) {
      n.setOutput(0, Value(n.make<MulOp>(x, n.make<MulOp>(x, x))));
      return success();
    }
    if (value == 1.0) {
      n.setOutput(0, x);
      return success();
    }
    if (value == 0.5) {
      n.setOutput(0, Value(n.make<SqrtOp>(x)));
      return success();
    }
  }
  Value exponent = n.tensor(1);
  if (!exponent)
    return failure();
  // Powers are taken in floating point.
  Type element = n.type(x).getElementType(), real = element;
  if (!isa<FloatType>(element))
    real = n.getBuilder().getF64Type();
  x = n.cast(x, real);
  exponent = n.cast(exponent, real);
  if (failed(n.broadcastTogether(x, exponent)))
    return failure();
  if (element != real) {
    // The nearest whole number, but 0 for 2^-1: exact as long as the power is
    // known to less than a half, which it is up to 2^46.
    Value power = n.make<PowOp>(x, exponent);
    Value raised = n.make<AddOp>(power, n.splat(n.type(power), 0.499));
    n.setOutput(0, n.cast(n.make<FloorOp>(raised), element));
    return success();
  }
  n.setOutput(0, Value(n.make<PowOp>(x, exponent)));
  return success();
}

static LogicalResult clip(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto bound = [&](StringRef name, size_t index, Value &value) {
    if (const onnx::Attribute *found = n.findAttribute(name))
      value = n.splat(n.type(x), found->f);
    else if (n.hasInput(index)) {
      value = n.tensor(index);
      if (!value)
        return failure();
      return n.broadcastTogether(x, value);
    }
    return success();
  };
  auto isNumber = [&](size_t index) {
    Constant known = n.known(index);
    return onnx::isClampByNumbers(n.getNode())
        .value_or(!n.hasInput(index) || (known && known.size() == 1));
  };
  Value low, high;
  if (failed(bound("min", 1, low)))
    return failure();
  if (low)
    x = keepInside<MaximumOp>(n, x, low, isNumber(1));
  if (failed(bound("max", 2, high)))
    return failure();
  if (high)
    x = keepInside<MinimumOp>(n, x, high, isNumber(2));
  n.setOutput(0, x);
  return success();
}

static LogicalResult gelu(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  bool isTanh = n.attribute("approximate", "none") == "tanh";
  n.setOutput(0, Value(n.make<GeluOp>(x, isTanh)));
  return success();
}

static LogicalResult leakyRelu(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Value scaled =
      n.make<MulOp>(x, n.splat(n.type(x), n.attribute("alpha", 0.01)));
  // At 0, the derivative is the slope, as in PyTorch.
  Value positive = n.make<CompareOp>(Comparison::gt, x, n.splat(n.type(x), 0));
  n.setOutput(0, Value(n.make<SelectOp>(positive, x, scaled)));
  return success();
}

/// max(0, min(1, alpha x + beta)).
static Value hardSigmoidOf(NodeImporter &n, Value x, double alpha,
                           double beta) {
  auto splat = [&](double value) { return n.splat(n.type(x), value); };
  Value line = n.make<AddOp>(n.make<MulOp>(x, splat(alpha)), splat(beta));
  Value bounded = keepInside<MinimumOp>(n, line, splat(1), true);
  return keepInside<MaximumOp>(n, bounded, splat(0), true);
}

static LogicalResult hardSigmoid(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, hardSigmoidOf(n, x, n.attribute("alpha", 0.2),
                               n.attribute("beta", 0.5)));
  return success();
}

static LogicalResult hardSwish(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, Value(n.make<MulOp>(x, hardSigmoidOf(n, x, 1.0 / 6, 0.5))));
  return success();
}

static LogicalResult where(NodeImporter &n) {
  Value condition = n.tensor(0), x = n.tensor(1), y = n.tensor(2);
  if (!condition || !x || !y || failed(n.broadcastTogether(x, y)))
    return failure();
  // The three broadcast together; types differ, so in two steps.
  SmallVector<int64_t> common(n.shape(x)), mask(n.shape(condition));
  size_t rank = std::max(common.size(), mask.size());
  common.insert(common.begin(), rank - common.size(), 1);
  mask.insert(mask.begin(), rank - mask.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (common[axis] != mask[axis] && common[axis] != 1 && mask[axis] != 1)
      return n.error("the condition does not broadcast with the values");
    common[axis] = common[axis] == 1 ? mask[axis] : common[axis];
  }
  condition = n.broadcastTo(condition, common);
  x = n.broadcastTo(x, common);
  y = n.broadcastTo(y, common);
  n.setOutput(0, Value(n.make<SelectOp>(condition, x, y)));
  return success();
}

/// Input 0 as numbers of type `to`. How narrow ones are rounded matters to no
/// other type.
static LogicalResult convert(NodeImporter &n, onnx::DataType to) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Narrowing narrowing;
  narrowing.saturate = n.attribute("saturate", int64_t{1}) != 0;
  narrowing.roundMode = n.attribute("round_mode", "up");
  Type element = n.storedType(to);
  if (!element)
    return n.error("its target type is not supported");
  x = fromNarrow(n, x, n.input(0).narrow);
  Entry result = n.entryOf(isNarrow(to) ? toNarrow(n, x, to, narrowing)
                                        : n.cast(x, element));
  if (isNarrow(to))
    result.narrow = to;
  n.setOutput(0, result);
  return success();
}

static LogicalResult castTo(NodeImporter &n) {
  return convert(n, n.castTarget());
}

/// Of the second input nothing but the type matters.
static LogicalResult castLike(NodeImporter &n) {
  return convert(n, NodeImporter::dataType(n.input(1)));
}

/// Of all inputs, in their common shape.
static LogicalResult mean(NodeImporter &n) {
  Value sum = n.tensor(0);
  for (size_t index = 1; sum && index < n.numInputs(); ++index) {
    Value next = n.tensor(index);
    if (!next || failed(n.broadcastTogether(sum, next)))
      return failure();
    sum = n.make<AddOp>(sum, next);
  }
  if (!sum)
    return failure();
  double share = 1 / static_cast<double>(n.numInputs());
  n.setOutput(0, Value(n.make<MulOp>(sum, n.splat(n.type(sum), share))));
  return success();
}

ArrayRef<ImportedOperator> pp::elementwiseOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Abs", .handler = unary<AbsOp>, .types = numberTypes},
      {.name = "Add", .handler = binary<AddOp>, .types = numberTypes},
      {.name = "And", .handler = binary<AndOp>, .isDifferentiable = false},
      {.name = "Cast", .handler = castTo, .types = movedTypes},
      {.name = "CastLike", .handler = castLike, .types = movedTypes},
      {.name = "Ceil",
       .handler = unary<CeilOp>,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "Clip", .handler = clip, .types = numberTypes},
      {.name = "Cos", .handler = unary<CosOp>, .types = floatTypes},
      {.name = "Div", .handler = divide, .types = numberTypes},
      {.name = "Equal",
       .handler = equal,
       .types = numberTypes | boolType,
       .isDifferentiable = false},
      {.name = "Erf", .handler = unary<ErfOp>, .types = floatTypes},
      {.name = "Exp", .handler = unary<ExpOp>, .types = floatTypes},
      {.name = "Floor",
       .handler = unary<FloorOp>,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "Gelu",
       .handler = gelu,
       .types = floatTypes,
       .choices = {{"approximate", {"none", "tanh"}}}},
      {.name = "Greater",
       .handler = compare<Comparison::gt>,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "GreaterOrEqual",
       .handler = compare<Comparison::ge>,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "HardSigmoid", .handler = hardSigmoid, .types = floatTypes},
      {.name = "HardSwish", .handler = hardSwish, .types = floatTypes},
      {.name = "Identity", .handler = identity, .types = movedTypes},
      {.name = "LeakyRelu", .handler = leakyRelu, .types = floatTypes},
      {.name = "Less",
       .handler = compare<Comparison::lt>,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "LessOrEqual",
       .handler = compare<Comparison::le>,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "Log", .handler = unary<LogOp>, .types = floatTypes},
      {.name = "Max", .handler = variadic<MaximumOp>, .types = numberTypes},
      {.name = "Mean", .handler = mean, .types = floatTypes},
      {.name = "Min", .handler = variadic<MinimumOp>, .types = numberTypes},
      {.name = "Mul", .handler = binary<MulOp>, .types = numberTypes},
      {.name = "Neg", .handler = unary<NegOp>, .types = numberTypes},
      {.name = "Not", .handler = unary<NotOp>, .isDifferentiable = false},
      {.name = "Or", .handler = binary<OrOp>, .isDifferentiable = false},
      {.name = "Pow", .handler = pow, .types = numberTypes},
      {.name = "Reciprocal", .handler = reciprocal, .types = floatTypes},
      {.name = "Relu", .handler = relu, .types = numberTypes},
      {.name = "Sigmoid", .handler = unary<LogisticOp>, .types = floatTypes},
      {.name = "Sign",
       .handler = sign,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "Sin", .handler = unary<SinOp>, .types = floatTypes},
      {.name = "Softplus", .handler = unary<SoftplusOp>, .types = floatTypes},
      {.name = "Sqrt", .handler = unary<SqrtOp>, .types = floatTypes},
      {.name = "Sub", .handler = binary<SubOp>, .types = numberTypes},
      {.name = "Sum", .handler = variadic<AddOp>, .types = floatTypes},
      {.name = "Tanh", .handler = unary<TanhOp>, .types = floatTypes},
      {.name = "Where", .handler = where},
  };
  return entries;
}
