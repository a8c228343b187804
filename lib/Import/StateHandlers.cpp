//===- StateHandlers.cpp - ONNX operators that carry a state along time ---===//
//
// LinearAttention keeps a matrix for each head, CausalConvWithState the last
// elements of a signal.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

LogicalResult linearAttention(NodeImporter &n) {
  Value q = n.tensor(0), k = n.tensor(1), v = n.tensor(2);
  if (!q || !k || !v)
    return failure();
  int64_t heads = n.attribute("q_num_heads", int64_t{0});
  int64_t shared = n.attribute("kv_num_heads", int64_t{0});
  SmallVector<int64_t> qShape(n.shape(q)), kShape(n.shape(k)),
      vShape(n.shape(v));
  if (heads < 1 || shared < 1 || heads % shared != 0)
    return n.error("has " + llvm::Twine(heads) + " heads of queries for " +
                   llvm::Twine(shared) + " of keys and values");
  if (qShape.size() != 3 || kShape.size() != 3 || vShape.size() != 3 ||
      qShape[2] % heads != 0 || vShape[2] % shared != 0 ||
      kShape[2] != qShape[2] / heads * shared || qShape[0] != kShape[0] ||
      qShape[1] != kShape[1] || qShape[0] != vShape[0] ||
      qShape[1] != vShape[1])
    return n.error("has queries, keys and values that do not fit each other");
  int64_t batch = qShape[0], steps = qShape[1];
  int64_t keySize = qShape[2] / heads, valueSize = vShape[2] / shared;
  if (steps > maxUnrolledSteps)
    return n.error("has " + llvm::Twine(steps) + " steps; up to " +
                   llvm::Twine(maxUnrolledSteps) + " are unrolled");
  std::string rule = n.attribute("update_rule", "gated_delta");
  bool isGated = rule == "gated" || rule == "gated_delta";
  bool isDelta = rule == "delta" || rule == "gated_delta";
  if (isGated != n.hasInput(4) || isDelta != n.hasInput(5))
    return n.error("has other inputs than update_rule '" + rule + "' takes");
  // Chunks change the order of the arithmetic alone.
  n.ignoreAttribute("chunk_size");
  Expressions e{n};
  Type element = n.type(q).getElementType();
  auto typeOf = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, element);
  };
  SmallVector<int64_t> stateShape = {batch, shared, keySize, valueSize};
  Value state;
  if (n.hasInput(3)) {
    state = n.tensor(3);
    if (!state)
      return failure();
    if (n.shape(state) != ArrayRef<int64_t>(stateShape))
      return n.error("has a state of another shape than its keys and values");
    state = n.cast(state, element);
  } else {
    state = n.splat(typeOf(stateShape), 0);
  }
  // Of each head, or of each element of its keys.
  Value decay = isGated ? n.tensor(4) : Value();
  Value beta = isDelta ? n.tensor(5) : Value();
  if ((isGated && !decay) || (isDelta && !beta))
    return failure();
  auto fits = [&](Value value, ArrayRef<int64_t> widths) {
    ArrayRef<int64_t> shape = n.shape(value);
    return shape.size() == 3 && shape[0] == batch && shape[1] == steps &&
           llvm::is_contained(widths, shape[2]);
  };
  if ((decay && !fits(decay, {shared, shared * keySize})) ||
      (beta && !fits(beta, {shared, 1})))
    return n.error("has a decay or beta that does not fit its keys");
  double scale = n.attribute("scale", 0.0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(keySize));

  auto at = [&](Value value, int64_t step, ArrayRef<int64_t> shape) {
    return n.reshape(n.slice(value, 1, step, step + 1), shape);
  };
  SmallVector<int64_t> pair = {0, 1};
  SmallVector<Value> outputs;
  for (int64_t step = 0; step < steps; ++step) {
    Value key = at(k, step, {batch, shared, keySize});
    Value value = at(v, step, {batch, shared, valueSize});
    if (isGated) {
      bool isWide = n.shape(decay)[2] != shared;
      SmallVector<int64_t> own = {batch, shared};
      SmallVector<int64_t> axes = {0, 1};
      if (isWide) {
        own.push_back(keySize);
        axes.push_back(2);
      }
      Value factor = e.exp(at(decay, step, own));
      state = e.mul(state, n.make<BroadcastOp>(state.getType(), factor, axes));
    }
    if (isDelta) {
      Value found = n.make<DotGeneralOp>(value.getType(), key, state, pair,
                                         pair, int64_t{2}, int64_t{2});
      Value rate = at(beta, step, {batch, n.shape(beta)[2], 1});
      value = e.mul(n.broadcastTo(rate, n.shape(value)), e.sub(value, found));
    }
    Value left =
        n.make<BroadcastOp>(state.getType(), key, ArrayRef<int64_t>{0, 1, 2});
    Value right =
        n.make<BroadcastOp>(state.getType(), value, ArrayRef<int64_t>{0, 1, 3});
    state = e.add(state, e.mul(left, right));
    Value query = at(q, step, {batch, shared, heads / shared, keySize});
    Value read =
        n.make<DotGeneralOp>(typeOf({batch, shared, heads / shared, valueSize}),
                             query, state, pair, pair, int64_t{3}, int64_t{2});
    outputs.push_back(
        e.mul(n.reshape(read, {batch, 1, heads * valueSize}), scale));
  }
  Value output = n.join(outputs, 1, false);
  n.setOutput(0, output);
  n.setOutput(1, n.hasInput(3)
                     ? state
                     : n.cast(state, NodeImporter::elementType(n.input(0))));
  return success();
}

LogicalResult causalConv(NodeImporter &n) {
  Value x = n.tensor(0), w = n.tensor(1);
  if (!x || !w)
    return failure();
  SmallVector<int64_t> shape(n.shape(x)), weight(n.shape(w));
  if (shape.size() != 3 || weight.size() != 3 || weight[0] != shape[1] ||
      weight[1] != 1)
    return n.error("has a weight that is not one row for each channel");
  int64_t taps = weight[2];
  if (taps < 1 || taps > maxUnrolledSteps)
    return n.error("has a kernel of " + llvm::Twine(taps) + " elements");
  SmallVector<int64_t> before = {shape[0], shape[1], taps - 1};
  Value past;
  if (n.hasInput(3)) {
    past = n.tensor(3);
    if (!past)
      return failure();
    if (n.shape(past) != ArrayRef<int64_t>(before))
      return n.error("has a state of another shape than its kernel leaves");
  } else {
    past = n.splat(n.type(x).clone(before), 0);
  }
  Value padded = n.join({past, x}, 2, false);
  if (!padded)
    return failure();
  Expressions e{n};
  auto perChannel = [&](Value values) -> Value {
    return n.make<BroadcastOp>(x.getType(), n.reshape(values, shape[1]),
                               ArrayRef<int64_t>{1});
  };
  Value y;
  for (int64_t tap = 0; tap < taps; ++tap) {
    Value part = e.mul(n.slice(padded, 2, tap, tap + shape[2]),
                       perChannel(n.slice(w, 2, tap, tap + 1)));
    y = y ? e.add(y, part) : part;
  }
  if (n.hasInput(2)) {
    Value bias = n.tensor(2);
    if (!bias)
      return failure();
    if (n.shape(bias) != ArrayRef<int64_t>(shape[1]))
      return n.error("has a bias that is not one number for each channel");
    y = e.add(y, perChannel(bias));
  }
  if (n.attribute("activation", "none") != "none")
    y = e.mul(y, e.unary<LogisticOp>(y));
  n.setOutput(0, y);
  n.setOutput(1, n.slice(padded, 2, shape[2], shape[2] + taps - 1));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::stateOperators() {
  static const ImportedOperator entries[] = {
      {.name = "CausalConvWithState",
       .handler = causalConv,
       .types = floatTypes,
       .choices = {{"activation", {"none", "silu", "swish"}}}},
      {.name = "LinearAttention",
       .handler = linearAttention,
       .types = floatTypes,
       .choices = {{"update_rule",
                    {"linear", "gated", "delta", "gated_delta"}}},
       .note = "unrolled, up to 4096 steps"},
  };
  return entries;
}
