//===- PreviewHandlers.cpp - Operators of ai.onnx.preview and ai.onnx.ml --===//

#include "AttentionParts.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

//===----------------------------------------------------------------------===//
// FlexAttention
//===----------------------------------------------------------------------===//

/// What the subgraph of an attribute makes of `x`; `x` where there is none.
FailureOr<Value> modify(NodeImporter &n, StringRef name, Value x) {
  const onnx::Attribute *attribute = n.findAttribute(name);
  if (!attribute)
    return x;
  if (attribute->graphs.size() != 1)
    return n.error("attribute " + name + " has no graph");
  Entry argument;
  argument.value = x;
  auto results = n.importGraph(attribute->graphs.front(), argument);
  if (failed(results))
    return failure();
  Value y = results->size() == 1 ? n.valueOf(results->front()) : Value();
  if (!y || n.type(y) != n.type(x))
    return n.error(
        "attribute " + name +
        " has a graph whose output is not one tensor like its input");
  return y;
}

LogicalResult flexAttention(NodeImporter &n) {
  Value q = n.tensor(0), k = n.tensor(1), v = n.tensor(2);
  if (!q || !k || !v)
    return failure();
  for (Value each : {q, k, v})
    if (n.shape(each).size() != 4)
      return n.error("has an input of rank " +
                     llvm::Twine(n.shape(each).size()) + "; it takes rank 4");
  int64_t heads = n.shape(q)[1];
  auto keys = repeatHeads(n, k, heads), values = repeatHeads(n, v, heads);
  if (failed(keys) || failed(values))
    return failure();
  double columns = static_cast<double>(n.shape(q)[3]);
  auto scores = scoreKeys(n, q, *keys, *values,
                          n.attribute("scale", 1 / std::sqrt(columns)));
  if (failed(scores))
    return failure();
  // Graphs see numbers of this type; all other arithmetic is of the inputs'
  // precision, single at least.
  Type element = n.type(q).getElementType(), seen = element;
  if (int64_t precision = n.attribute("softmax_precision", int64_t{0})) {
    seen = n.elementType(static_cast<onnx::DataType>(precision));
    if (!isa_and_nonnull<FloatType>(seen))
      return n.error("attribute softmax_precision is " +
                     llvm::Twine(precision) + ", which is no float type");
  }
  auto apply = [&](StringRef name, Value x) -> FailureOr<Value> {
    auto modified = modify(n, name, n.cast(x, seen));
    if (failed(modified))
      return failure();
    return n.cast(*modified, element);
  };
  auto modified = apply("score_mod", *scores);
  if (failed(modified))
    return failure();
  auto weights = apply("prob_mod", n.make<SoftmaxOp>(*modified));
  if (failed(weights))
    return failure();
  n.setOutput(0, sumValues(n, *weights, *values));
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

/// One step of an optimizer of several tensors: `lists` inputs for each tensor,
/// all of one kind together, behind the learning rate and the number of steps.
/// `update` maps those of a tensor to its outputs.
LogicalResult
optimize(NodeImporter &n, size_t lists,
         function_ref<SmallVector<Value>(Expressions &, Value rate, Value steps,
                                         ArrayRef<Value>)>
             update) {
  size_t tensors = (n.numInputs() - 2) / lists;
  if (tensors == 0 || tensors * lists + 2 != n.numInputs())
    return n.error("has " + llvm::Twine(n.numInputs()) +
                   " inputs, which are not two and " + llvm::Twine(lists) +
                   " for each tensor");
  Value scalars[] = {n.tensor(0), n.tensor(1)};
  for (Value scalar : scalars)
    if (!scalar || n.type(scalar).getNumElements() != 1)
      return n.error("has a learning rate or a number of steps that is no "
                     "number");
  Expressions e{n};
  for (size_t i = 0; i < tensors; ++i) {
    SmallVector<Value> own;
    for (size_t list = 0; list < lists; ++list) {
      own.push_back(n.tensor(2 + list * tensors + i));
      if (!own.back() || own.back().getType() != own.front().getType())
        return n.error("has tensors, gradients and states of different shapes");
    }
    auto spread = [&](Value scalar) -> Value {
      RankedTensorType type = n.type(own.front());
      Value cell = n.cast(n.reshape(scalar, {}), type.getElementType());
      return n.make<BroadcastOp>(type, cell, ArrayRef<int64_t>());
    };
    SmallVector<Value> results =
        update(e, spread(scalars[0]), spread(scalars[1]), own);
    for (auto [list, result] : llvm::enumerate(results))
      if (n.wantsOutput(list * tensors + i))
        n.setOutput(list * tensors + i, result);
  }
  return success();
}

/// The gradient, and that of half the square of the tensor.
Value regularized(NodeImporter &n, Expressions &e, ArrayRef<Value> own) {
  return e.add(e.mul(own[0], n.attribute("norm_coefficient", 0.0)), own[1]);
}

LogicalResult adagrad(NodeImporter &n) {
  double decay = n.attribute("decay_factor", 0.0);
  double epsilon = n.attribute("epsilon", 1e-6);
  n.ignoreAttribute("norm_coefficient");
  return optimize(n, 3,
                  [&](Expressions &e, Value rate, Value steps,
                      ArrayRef<Value> own) -> SmallVector<Value> {
                    Value g = regularized(n, e, own);
                    Value squares = e.add(own[2], e.mul(g, g));
                    Value r = e.div(rate, e.add(e.mul(steps, decay), 1));
                    Value step =
                        e.div(e.mul(r, g), e.add(e.sqrt(squares), epsilon));
                    return {e.sub(own[0], step), squares};
                  });
}

LogicalResult adam(NodeImporter &n) {
  double alpha = n.attribute("alpha", 0.9), beta = n.attribute("beta", 0.999);
  double epsilon = n.attribute("epsilon", 1e-6);
  double post = n.attribute("norm_coefficient_post", 0.0);
  n.ignoreAttribute("norm_coefficient");
  return optimize(
      n, 4,
      [&](Expressions &e, Value rate, Value steps,
          ArrayRef<Value> own) -> SmallVector<Value> {
        Value g = regularized(n, e, own);
        Value mean = e.add(e.mul(own[2], alpha), e.mul(g, 1 - alpha));
        Value square = e.add(e.mul(own[3], beta), e.mul(e.mul(g, g), 1 - beta));
        auto rest = [&](double base) {
          return e.sub(1, e.binary<PowOp>(e.number(steps, base), steps));
        };
        Value corrected = e.div(e.mul(rate, e.sqrt(rest(beta))), rest(alpha));
        Value isLater = e.compare(Comparison::gt, steps, 0);
        Value r = e.select(isLater, corrected, rate);
        Value step = e.div(e.mul(r, mean), e.add(e.sqrt(square), epsilon));
        return {e.mul(e.sub(own[0], step), 1 - post), mean, square};
      });
}

LogicalResult momentum(NodeImporter &n) {
  double alpha = n.attribute("alpha", 0.0), beta = n.attribute("beta", 0.0);
  bool isNesterov = n.attribute("mode", "standard") == "nesterov";
  n.ignoreAttribute("norm_coefficient");
  return optimize(
      n, 3,
      [&](Expressions &e, Value rate, Value steps,
          ArrayRef<Value> own) -> SmallVector<Value> {
        Value g = regularized(n, e, own);
        Value isLater = e.compare(Comparison::gt, steps, 0);
        Value factor = e.select(isLater, e.number(g, beta), e.number(g, 1));
        Value velocity = e.add(e.mul(own[2], alpha), e.mul(factor, g));
        Value direction =
            isNesterov ? e.add(g, e.mul(velocity, alpha)) : velocity;
        return {e.sub(own[0], e.mul(rate, direction)), velocity};
      });
}

//===----------------------------------------------------------------------===//
// ai.onnx.ml
//===----------------------------------------------------------------------===//

/// Columns by their numbers.
LogicalResult arrayFeatureExtractor(NodeImporter &n) {
  Value x = n.tensor(0), columns = n.tensor(1);
  if (!x || !columns)
    return failure();
  int64_t rank = static_cast<int64_t>(n.shape(x).size());
  int64_t count = n.type(columns).getNumElements();
  if (rank < 1 || count < 1)
    return n.error("takes columns of a tensor that has none, or none of them");
  Value y = n.make<GatherOp>(x, n.reshape(columns, {count}), rank - 1);
  n.setOutput(0, rank == 1 ? n.reshape(y, {1, count}) : y);
  return success();
}

LogicalResult binarizer(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Value isMore =
      Expressions{n}.compare(Comparison::gt, x, n.attribute("threshold", 0.0));
  n.setOutput(0, n.cast(isMore, n.type(x).getElementType()));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::previewOperators() {
  static const ImportedOperator entries[] = {
      {.name = "ai.onnx.ml.ArrayFeatureExtractor",
       .handler = arrayFeatureExtractor},
      {.name = "ai.onnx.ml.Binarizer",
       .handler = binarizer,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "ai.onnx.preview.FlexAttention",
       .handler = flexAttention,
       .types = floatTypes},
      {.name = "ai.onnx.preview.training.Adagrad",
       .handler = adagrad,
       .types = floatTypes},
      {.name = "ai.onnx.preview.training.Adam",
       .handler = adam,
       .types = floatTypes},
      {.name = "ai.onnx.preview.training.Momentum",
       .handler = momentum,
       .types = floatTypes,
       .choices = {{"mode", {"standard", "nesterov"}}}},
  };
  return entries;
}
