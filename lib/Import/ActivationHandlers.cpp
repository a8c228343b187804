//===- ActivationHandlers.cpp - ONNX activations --------------------------===//

#include "Expressions.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

template <Value (*formula)(NodeImporter &, Expressions &, Value)>
LogicalResult activation(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Expressions e{n};
  n.setOutput(0, formula(n, e, x));
  return success();
}

/// x above 0, scale (e^(x/width) - 1) below. Neither side is taken where it
/// would be too large. At 0, the derivative is that from below, as in PyTorch.
Value exponentialUnit(Expressions &e, Value x, double scale, double width) {
  Value isAbove = e.compare(Comparison::gt, x, 0);
  Value below = e.select(isAbove, e.number(x, 0), x);
  if (width != 1)
    below = e.mul(below, 1 / width);
  Value low = e.mul(e.unary<Expm1Op>(below), scale);
  return e.select(isAbove, x, low);
}

Value elu(NodeImporter &n, Expressions &e, Value x) {
  return exponentialUnit(e, x, n.attribute("alpha", 1.0), 1);
}
Value celu(NodeImporter &n, Expressions &e, Value x) {
  double alpha = n.attribute("alpha", 1.0);
  return exponentialUnit(e, x, alpha, alpha);
}
Value selu(NodeImporter &n, Expressions &e, Value x) {
  // The operator's own defaults, in its single precision.
  double alpha = n.attribute("alpha", double{1.67326319217681884765625f});
  double gamma = n.attribute("gamma", double{1.05070102214813232421875f});
  return e.mul(exponentialUnit(e, x, alpha, 1), gamma);
}
Value softsign(NodeImporter &, Expressions &e, Value x) {
  return e.div(x, e.add(e.abs(x), 1));
}
Value mish(NodeImporter &, Expressions &e, Value x) {
  return e.mul(x, e.unary<TanhOp>(e.unary<SoftplusOp>(x)));
}
Value swish(NodeImporter &n, Expressions &e, Value x) {
  double alpha = n.attribute("alpha", 1.0);
  Value inner = alpha == 1 ? x : e.mul(x, alpha);
  return e.mul(x, e.unary<LogisticOp>(inner));
}
Value thresholdedRelu(NodeImporter &n, Expressions &e, Value x) {
  Value passes = e.compare(Comparison::gt, x, n.attribute("alpha", 1.0));
  return e.select(passes, x, e.number(x, 0));
}
Value shrink(NodeImporter &n, Expressions &e, Value x) {
  double border = n.attribute("lambd", 0.5), bias = n.attribute("bias", 0.0);
  Value high = e.select(e.compare(Comparison::gt, x, border), e.add(x, -bias),
                        e.number(x, 0));
  return e.select(e.compare(Comparison::lt, x, -border), e.add(x, bias), high);
}

/// The slope has one number per element, or broadcasts; before opset 7 it had
/// one for all or one per channel.
LogicalResult prelu(NodeImporter &n) {
  Value x = n.tensor(0), slope = n.tensor(1);
  if (!x || !slope)
    return failure();
  ArrayRef<int64_t> shape = n.shape(x);
  bool isPerChannel = n.opset() < 7 && n.shape(slope).size() == 1 &&
                      shape.size() > 1 && n.shape(slope)[0] == shape[1];
  if (isPerChannel) {
    slope = n.make<BroadcastOp>(x.getType(), slope, int64_t{1});
  } else {
    Value common = x;
    if (failed(n.broadcastTogether(common, slope)))
      return failure();
    if (common != x)
      return n.error("has a slope of a larger shape than its input");
  }
  Expressions e{n};
  // At 0, the derivative is the slope, as in PyTorch.
  n.setOutput(0, e.select(e.compare(Comparison::gt, x, 0), x, e.mul(x, slope)));
  return success();
}

/// a sigmoid(alpha a) b.
LogicalResult swiGlu(NodeImporter &n) {
  Value a = n.tensor(0), b = n.tensor(1);
  if (!a || !b)
    return failure();
  if (a.getType() != b.getType())
    return n.error("has inputs of different shapes");
  Expressions e{n};
  Value gate = e.unary<LogisticOp>(e.mul(a, n.attribute("alpha", 1.0)));
  n.setOutput(0, e.mul(e.mul(a, gate), b));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::activationOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Celu", .handler = activation<celu>, .types = floatTypes},
      {.name = "Elu", .handler = activation<elu>, .types = floatTypes},
      {.name = "Mish", .handler = activation<mish>, .types = floatTypes},
      {.name = "PRelu", .handler = prelu, .types = floatTypes},
      {.name = "Selu", .handler = activation<selu>, .types = floatTypes},
      {.name = "Shrink", .handler = activation<shrink>, .types = floatTypes},
      {.name = "Softsign",
       .handler = activation<softsign>,
       .types = floatTypes},
      {.name = "SwiGLU", .handler = swiGlu, .types = floatTypes},
      {.name = "Swish", .handler = activation<swish>, .types = floatTypes},
      {.name = "ThresholdedRelu",
       .handler = activation<thresholdedRelu>,
       .types = floatTypes},
  };
  return entries;
}
