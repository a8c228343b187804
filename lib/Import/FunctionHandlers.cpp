//===- FunctionHandlers.cpp - ONNX functions of a number ------------------===//
//
// Roundings, trigonometric and hyperbolic functions and their inverses, and
// tests of numbers.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

template <Value (*formula)(Expressions &, Value)>
LogicalResult function(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Expressions e{n};
  n.setOutput(0, formula(e, x));
  return success();
}

Value roundOf(Expressions &e, Value x) { return e.unary<RoundOp>(x); }
Value atanOf(Expressions &e, Value x) { return e.unary<AtanOp>(x); }

Value tanOf(Expressions &e, Value x) {
  return e.div(e.unary<SinOp>(x), e.unary<CosOp>(x));
}

/// atan(x / sqrt(1 - x^2)), which is exact at both ends too.
Value asinOf(Expressions &e, Value x) {
  Value rest = e.mul(e.sub(1, x), e.add(x, 1));
  return atanOf(e, e.div(x, e.sqrt(rest)));
}

/// 2 atan(sqrt((1 - x) / (1 + x))).
Value acosOf(Expressions &e, Value x) {
  Value ratio = e.div(e.sub(1, x), e.add(x, 1));
  return e.mul(atanOf(e, e.sqrt(ratio)), 2);
}

Value coshOf(Expressions &e, Value x) {
  Value up = e.mul(e.exp(x), 0.5), down = e.mul(e.exp(e.neg(x)), 0.5);
  return e.add(up, down);
}

/// 1, or -1 for negative numbers: odd functions are computed of what is not
/// negative.
Value signOf(Expressions &e, Value x) {
  Value isNegative = e.compare(Comparison::lt, x, 0);
  return e.select(isNegative, e.number(x, -1), e.number(x, 1));
}

/// (e^x - 1) / 2 + (1 - e^-x) / 2: exact near 0, and no number is too large
/// before the result is.
Value sinhOf(Expressions &e, Value x) {
  Value sign = signOf(e, x), magnitude = e.mul(x, sign);
  Value up = e.mul(e.unary<Expm1Op>(magnitude), 0.5);
  Value down = e.mul(e.unary<Expm1Op>(e.neg(magnitude)), -0.5);
  return e.mul(sign, e.add(up, down));
}

/// ln(1 + x + x^2 / (1 + sqrt(1 + x^2))); of large numbers ln(2 x).
Value asinhOf(Expressions &e, Value x) {
  constexpr double large = 1e9;
  Value sign = signOf(e, x), magnitude = e.mul(x, sign);
  Value small = e.min(magnitude, large);
  Value square = e.mul(small, small);
  Value root = e.add(e.sqrt(e.add(square, 1)), 1);
  Value near = e.unary<Log1pOp>(e.add(small, e.div(square, root)));
  Value far = e.add(e.log(e.max(magnitude, large)), std::numbers::ln2);
  Value isLarge = e.compare(Comparison::gt, magnitude, large);
  return e.mul(sign, e.select(isLarge, far, near));
}

/// ln(1 + t + sqrt(t) sqrt(t + 2)) with t = x - 1.
Value acoshOf(Expressions &e, Value x) {
  Value t = e.add(x, -1);
  Value root = e.mul(e.sqrt(t), e.sqrt(e.add(t, 2)));
  return e.unary<Log1pOp>(e.add(t, root));
}

/// ln(1 + 2 x / (1 - x)) / 2.
Value atanhOf(Expressions &e, Value x) {
  Value sign = signOf(e, x), magnitude = e.mul(x, sign);
  Value ratio = e.div(e.mul(magnitude, 2), e.sub(1, magnitude));
  return e.mul(e.mul(sign, 0.5), e.unary<Log1pOp>(ratio));
}

LogicalResult isNaN(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  n.setOutput(0, Expressions{n}.isNaN(x));
  return success();
}

LogicalResult isInf(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Expressions e{n};
  bool negative = n.attribute("detect_negative", int64_t{1}) != 0;
  bool positive = n.attribute("detect_positive", int64_t{1}) != 0;
  if (negative && positive)
    n.setOutput(0, e.compare(Comparison::eq, e.abs(x), INFINITY));
  else if (negative || positive)
    n.setOutput(0,
                e.compare(Comparison::eq, x, positive ? INFINITY : -INFINITY));
  else
    n.setOutput(0, e.compare(Comparison::lt, e.abs(x), 0));
  return success();
}

/// With the sign of the divisor, with `fmod` that of the dividend.
LogicalResult modulo(NodeImporter &n) {
  Value x = n.tensor(0), y = n.tensor(1);
  if (!x || !y || failed(n.broadcastTogether(x, y)))
    return failure();
  bool truncates = n.attribute("fmod", int64_t{0}) != 0;
  if (auto divisors = n.known(1).integers();
      n.known(0) && succeeded(divisors) && llvm::is_contained(*divisors, 0))
    return n.error("divides whole numbers by zero");
  Expressions e{n};
  Value rest = e.binary<RemOp>(x, y);
  if (!truncates) {
    Value isNegative = e.compare(Comparison::lt, rest, 0);
    Value isBelow = e.compare(Comparison::lt, y, 0);
    Value differs = e.either(e.both(isNegative, e.unary<NotOp>(isBelow)),
                             e.both(e.unary<NotOp>(isNegative), isBelow));
    Value isWhole = e.compare(Comparison::eq, rest, 0);
    rest = e.select(e.both(differs, e.unary<NotOp>(isWhole)), e.add(rest, y),
                    rest);
  }
  n.setOutput(0, rest);
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::functionOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Acos", .handler = function<acosOf>, .types = floatTypes},
      {.name = "Acosh", .handler = function<acoshOf>, .types = floatTypes},
      {.name = "Asin", .handler = function<asinOf>, .types = floatTypes},
      {.name = "Asinh", .handler = function<asinhOf>, .types = floatTypes},
      {.name = "Atan", .handler = function<atanOf>, .types = floatTypes},
      {.name = "Atanh", .handler = function<atanhOf>, .types = floatTypes},
      {.name = "Cosh", .handler = function<coshOf>, .types = floatTypes},
      {.name = "IsInf",
       .handler = isInf,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "IsNaN",
       .handler = isNaN,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "Mod", .handler = modulo, .types = numberTypes},
      {.name = "Round",
       .handler = function<roundOf>,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "Sinh", .handler = function<sinhOf>, .types = floatTypes},
      {.name = "Tan", .handler = function<tanOf>, .types = floatTypes},
  };
  return entries;
}
