//===- AttentionHandlers.cpp - ONNX Attention and RotaryEmbedding ---------===//

#include "AttentionParts.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// What came before, along the rows, where the node has it.
LogicalResult appendPast(NodeImporter &n, size_t past, size_t present,
                         Value &x) {
  if (n.hasInput(past)) {
    Value before = n.tensor(past);
    if (!before)
      return failure();
    SmallVector<int64_t> shape(n.shape(x)), other(n.shape(before));
    if (other.size() != 4 || other[0] != shape[0] || other[1] != shape[1] ||
        other[3] != shape[3])
      return n.error("has a cache of another shape than its keys or values");
    x = n.make<ConcatOp>(ValueRange{before, x}, int64_t{2});
  }
  const auto &outputs = n.getNode().outputs;
  if (present < outputs.size() && !outputs[present].empty())
    n.setOutput(present, x);
  return success();
}

/// Brings the mask to the shape of the scores; nothing is seen of what it
/// leaves out at the end of the last axis.
FailureOr<Value> readMask(NodeImporter &n, ArrayRef<int64_t> scores) {
  Value mask = n.tensor(3);
  if (!mask)
    return failure();
  SmallVector<int64_t> shape(n.shape(mask));
  bool isBool = n.type(mask).getElementType().isInteger(1);
  bool fits = !shape.empty() && shape.size() <= scores.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    int64_t size = scores[scores.size() - shape.size() + i];
    bool isLast = i + 1 == shape.size();
    fits = shape[i] == size || shape[i] == 1 || (isLast && shape[i] < size);
  }
  if (!fits) {
    (void)n.error("has a mask that does not broadcast to its scores");
    return failure();
  }
  int64_t missing = scores.back() - shape.back();
  if (missing > 0 && shape.back() > 1) {
    SmallVector<int64_t> rest(shape);
    rest.back() = missing;
    Value filler = n.splat(n.type(mask).clone(rest), isBool ? 0 : hiddenScore);
    mask = n.make<ConcatOp>(ValueRange{mask, filler},
                            static_cast<int64_t>(shape.size()) - 1);
  }
  return n.broadcastTo(mask, scores);
}

/// Which keys the place of a query lets it see: those up to its own where that
/// is causal, those in a window around it, and none of the padding. Null where
/// all are seen.
FailureOr<Value> readVisible(NodeImporter &n, ArrayRef<int64_t> scores,
                             int64_t past) {
  Expressions e{n};
  int64_t left = n.attribute("left_window_size", int64_t{-1});
  int64_t right = n.attribute("right_window_size", int64_t{-1});
  if (left < -1 || right < -1 || left > maxElements || right > maxElements) {
    (void)n.error("has a window of " + llvm::Twine(left) + " and " +
                  llvm::Twine(right) + " keys");
    return failure();
  }
  if (n.attribute("is_causal", int64_t{0}) != 0)
    right = right < 0 ? 0 : std::min<int64_t>(right, 0);
  Value key = e.iota(scores, 3), query = e.iota(scores, 2), visible;
  auto require = [&](Comparison comparison, Value bound) {
    Value holds = e.compare(comparison, key, bound);
    visible = visible ? e.both(visible, holds) : holds;
  };
  Value place = e.add(query, static_cast<double>(past));
  if (n.hasInput(6)) {
    Value lengths = n.tensor(6);
    if (!lengths)
      return failure();
    if (n.shape(lengths) != scores.take_front(1)) {
      (void)n.error("has lengths that are not one for each sample");
      return failure();
    }
    Value length = n.make<BroadcastOp>(n.type(lengths).clone(scores), lengths,
                                       ArrayRef<int64_t>{0});
    require(Comparison::lt, length);
    place = e.add(e.add(query, length), -static_cast<double>(scores[2]));
  }
  if (right >= 0)
    require(Comparison::le, e.add(place, static_cast<double>(right)));
  if (left >= 0)
    require(Comparison::ge, e.add(place, -static_cast<double>(left)));
  return visible;
}

LogicalResult attention(NodeImporter &n) {
  Value q = n.tensor(0), k = n.tensor(1), v = n.tensor(2);
  if (!q || !k || !v)
    return failure();
  bool isFlat = n.shape(q).size() == 3;
  int64_t heads = n.attribute("q_num_heads", int64_t{0});
  int64_t shared = n.attribute("kv_num_heads", int64_t{0});
  auto queries = splitHeads(n, q, heads), keys = splitHeads(n, k, shared),
       values = splitHeads(n, v, shared);
  if (failed(queries) || failed(keys) || failed(values))
    return failure();
  if (n.hasInput(6) && n.hasInput(4))
    return n.error("has both nonpad_kv_seqlen and a cache");
  q = *queries;
  k = *keys;
  v = *values;
  int64_t past = n.hasInput(4) && n.tensor(4) ? n.shape(n.tensor(4))[2] : 0;
  if (failed(appendPast(n, 4, 1, k)) || failed(appendPast(n, 5, 2, v)))
    return failure();
  heads = n.shape(q)[1];
  keys = repeatHeads(n, k, heads);
  values = repeatHeads(n, v, heads);
  if (failed(keys) || failed(values))
    return failure();
  Expressions e{n};
  double columns = static_cast<double>(n.shape(q)[3]);
  auto scored = scoreKeys(n, q, *keys, *values,
                          n.attribute("scale", 1 / std::sqrt(columns)));
  if (failed(scored))
    return failure();
  Value shown[4] = {*scored};
  Value scores = capScores(n, *scored, n.attribute("softcap", 0.0));
  SmallVector<int64_t> shape(n.shape(scores));
  shown[1] = scores;
  Value hidden = e.number(scores, hiddenScore);
  auto visible = readVisible(n, shape, past);
  if (failed(visible))
    return failure();
  if (*visible)
    scores = e.select(*visible, scores, hidden);
  bool isMasked = n.hasInput(3) || *visible;
  if (n.hasInput(3)) {
    auto mask = readMask(n, shape);
    if (failed(mask))
      return failure();
    bool isBool = n.type(*mask).getElementType().isInteger(1);
    if (!isBool && n.type(*mask) != n.type(scores))
      return n.error("has a mask of another type than its scores");
    scores = isBool ? e.select(*mask, scores, hidden) : e.add(scores, *mask);
  }
  shown[2] = scores;
  // All arithmetic is of the inputs' precision, single at least.
  n.ignoreAttribute("softmax_precision");
  scores = isMasked ? weighMasked(n, scores) : n.make<SoftmaxOp>(scores);
  shown[3] = scores;
  int64_t mode = n.attribute("qk_matmul_output_mode", int64_t{0});
  if (mode < 0 || mode > 3)
    return n.error("attribute qk_matmul_output_mode is " + llvm::Twine(mode));
  const auto &outputs = n.getNode().outputs;
  if (outputs.size() > 3 && !outputs[3].empty())
    n.setOutput(3, shown[mode]);
  Value y = sumValues(n, scores, *values);
  n.setOutput(0, isFlat ? mergeHeads(n, y) : y);
  return success();
}

/// The angles of samples x rows x columns for all heads.
FailureOr<Value> readAngles(NodeImporter &n, size_t input,
                            ArrayRef<int64_t> shape) {
  Value table = n.tensor(input);
  if (!table)
    return failure();
  if (n.hasInput(3)) {
    Value positions = n.tensor(3);
    if (!positions)
      return failure();
    if (n.shape(table).size() != 2) {
      (void)n.error("has positions for a table of rank " +
                    llvm::Twine(n.shape(table).size()));
      return failure();
    }
    table = n.make<GatherOp>(table, positions, 0);
  }
  SmallVector<int64_t> expected = {shape[0], shape[2], shape[3]};
  if (n.shape(table) != ArrayRef<int64_t>(expected)) {
    (void)n.error("has angles of another shape than half of what it turns");
    return failure();
  }
  return Value(n.make<BroadcastOp>(n.type(table).clone(shape), table,
                                   ArrayRef<int64_t>{0, 2, 3}));
}

LogicalResult rotaryEmbedding(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  bool isFlat = n.shape(x).size() == 3;
  auto split = splitHeads(n, x, n.attribute("num_heads", int64_t{0}));
  if (failed(split))
    return failure();
  x = *split;
  SmallVector<int64_t> shape(n.shape(x));
  int64_t turned = n.attribute("rotary_embedding_dim", int64_t{0});
  if (turned == 0)
    turned = shape[3];
  if (turned < 2 || turned % 2 != 0 || turned > shape[3])
    return n.error("turns " + llvm::Twine(turned) + " of " +
                   llvm::Twine(shape[3]) + " columns");
  SmallVector<int64_t> half(shape);
  half[3] = turned / 2;
  auto cosine = readAngles(n, 1, half), sine = readAngles(n, 2, half);
  if (failed(cosine) || failed(sine))
    return failure();
  Value y = rotatePairs(n, x, *cosine, *sine,
                        n.attribute("interleaved", int64_t{0}) != 0);
  n.setOutput(0, isFlat ? mergeHeads(n, y) : y);
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::attentionOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Attention", .handler = attention, .types = floatTypes},
      {.name = "RotaryEmbedding",
       .handler = rotaryEmbedding,
       .types = floatTypes},
  };
  return entries;
}
