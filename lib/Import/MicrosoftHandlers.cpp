//===- MicrosoftHandlers.cpp - Operators of com.microsoft -----------------===//
//
// Those of exporters and optimizers of transformers that no function body
// states: forms of attention whose arithmetic depends on which inputs a node
// has. What they compute is what ONNX Runtime does (docs/ContribOperators.md of
// its repository).
//
//===----------------------------------------------------------------------===//

#include "AttentionParts.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// What is added to scores: 0 where the mask of input `index` lets through, and
/// `hidden` elsewhere. The mask is samples x keys, samples x queries x keys, or
/// how many keys each sample has.
FailureOr<Value> readKeyMask(NodeImporter &n, size_t index, Value scores,
                             double hidden) {
  Expressions e{n};
  Value mask = n.tensor(index);
  if (!mask)
    return failure();
  ArrayRef<int64_t> shape = n.shape(scores);
  int64_t samples = shape[0], queries = shape[2], keys = shape[3];
  ArrayRef<int64_t> own = n.shape(mask);
  SmallVector<int64_t> axes;
  if (own == ArrayRef<int64_t>{samples})
    axes = {0};
  else if (own == ArrayRef<int64_t>{samples, keys})
    axes = {0, 3};
  else if (own == ArrayRef<int64_t>{samples, queries, keys})
    axes = {0, 2, 3};
  else
    return n.error("has a mask that is neither samples x keys, nor samples x "
                   "queries x keys, nor one length for each sample");
  Value wide = n.make<BroadcastOp>(n.type(mask).clone(shape), mask, axes);
  Value seen =
      axes.size() == 1
          ? e.compare(Comparison::lt,
                      n.cast(e.iota(shape, 3), n.type(mask).getElementType()),
                      wide)
          : e.compare(Comparison::gt, wide, 0);
  return e.select(seen, e.number(scores, 0), e.number(scores, hidden));
}

/// Adds the input `index`, where the node has it, to the scores.
LogicalResult addBias(NodeImporter &n, size_t index, Value &scores) {
  if (!n.hasInput(index))
    return success();
  Value bias = n.tensor(index);
  if (!bias)
    return failure();
  ArrayRef<int64_t> shape = n.shape(bias), wanted = n.shape(scores);
  bool fits = shape.size() == 4;
  for (size_t i = 0; fits && i < 4; ++i)
    fits = shape[i] == wanted[i] || shape[i] == 1;
  if (!fits || n.type(bias).getElementType() != n.type(scores).getElementType())
    return n.error("has an attention_bias that does not fit its scores");
  scores = Expressions{n}.add(scores, n.broadcastTo(bias, wanted));
  return success();
}

/// Hides the keys behind the place of a query; before the first one are `past`.
Value hideLater(NodeImporter &n, Value scores, int64_t past) {
  Expressions e{n};
  ArrayRef<int64_t> shape = n.shape(scores);
  Value place = e.add(e.iota(shape, 2), static_cast<double>(past));
  Value seen = e.compare(Comparison::le, e.iota(shape, 3), place);
  return e.select(seen, scores, e.number(scores, hiddenScore));
}

/// What came before, of input `index`, and these rows.
FailureOr<Value> prepend(NodeImporter &n, Value past, Value x) {
  ArrayRef<int64_t> own = n.shape(x), other = n.shape(past);
  if (other.size() != 4 || other[0] != own[0] || other[1] != own[1] ||
      other[3] != own[3])
    return n.error("has a past of another shape than its keys or values");
  if (other[2] == 0)
    return x;
  return Value(n.make<ConcatOp>(ValueRange{past, x}, int64_t{2}));
}

LogicalResult refuseInputs(NodeImporter &n,
                           ArrayRef<std::pair<size_t, StringRef>> inputs) {
  for (auto [index, name] : inputs)
    if (n.hasInput(index))
      return n.error("input #" + llvm::Twine(index) + " (" + name +
                     ") is not supported");
  return success();
}

LogicalResult refuseAttributes(NodeImporter &n, ArrayRef<StringRef> names) {
  for (StringRef name : names)
    if (n.attribute(name, int64_t{0}) != 0)
      return n.error("attribute " + name + " is not supported");
  return success();
}

/// One of the two or three parts of columns.
Value columnsOf(NodeImporter &n, Value x, int64_t from, int64_t count) {
  return n.slice(x, static_cast<int64_t>(n.shape(x).size()) - 1, from,
                 from + count);
}

/// Queries, keys and values with their heads apart.
struct Projections {
  Value q, k, v;
};

/// The end that both operators have in common: attention of what was before and
/// of these rows, to output 0.
LogicalResult attend(NodeImporter &n, const Projections &all, int64_t past,
                     std::optional<size_t> mask, size_t bias) {
  double columns = static_cast<double>(n.shape(all.q)[3]);
  double scale = n.attribute("scale", 0.0);
  auto scored = scoreKeys(n, all.q, all.k, all.v,
                          scale != 0 ? scale : 1 / std::sqrt(columns));
  if (failed(scored))
    return failure();
  Value scores = *scored;
  double hidden = n.attribute("mask_filter_value", -10000.0);
  if (mask) {
    auto added = readKeyMask(n, *mask, scores, hidden);
    if (failed(added))
      return failure();
    scores = Expressions{n}.add(scores, *added);
  }
  if (failed(addBias(n, bias, scores)))
    return failure();
  if (n.attribute("unidirectional", int64_t{0}) != 0)
    scores = hideLater(n, scores, past);
  Value y = sumValues(n, n.make<SoftmaxOp>(scores), all.v);
  n.setOutput(0, mergeHeads(n, y));
  return success();
}

/// The parts of `packed`, samples x rows x heads x parts x columns.
FailureOr<SmallVector<Value>> unpack(NodeImporter &n, Value packed,
                                     int64_t heads, int64_t parts) {
  SmallVector<int64_t> shape(n.shape(packed));
  if (shape.size() != 5 || shape[2] != heads || shape[3] != parts) {
    (void)n.error("has packed keys and values of another shape than samples x "
                  "rows x heads x " +
                  llvm::Twine(parts) + " x columns");
    return failure();
  }
  SmallVector<Value> result;
  for (int64_t i = 0; i < parts; ++i) {
    Value part = n.reshape(n.slice(packed, 3, i, i + 1),
                           {shape[0], shape[1], shape[2], shape[4]});
    result.push_back(n.transpose(part, {0, 2, 1, 3}));
  }
  return result;
}

/// The inputs of MultiHeadAttention, which may be packed, or have their heads
/// apart.
FailureOr<Projections> readProjections(NodeImporter &n, int64_t heads) {
  Value q = n.tensor(0);
  if (!q)
    return failure();
  if (!n.hasInput(1)) {
    auto parts = unpack(n, q, heads, 3);
    if (failed(parts))
      return failure();
    return Projections{(*parts)[0], (*parts)[1], (*parts)[2]};
  }
  Value k = n.tensor(1);
  if (!k)
    return failure();
  SmallVector<Value> all = {q, k};
  bool isPacked = !n.hasInput(2);
  if (!isPacked) {
    all.push_back(n.tensor(2));
    if (!all.back())
      return failure();
  }
  if (n.hasInput(3)) {
    // One after the other, of queries, keys and values.
    Value bias = n.tensor(3);
    if (!bias)
      return failure();
    int64_t at = 0;
    for (Value &x : all) {
      if (isPacked || n.shape(x).size() != 3)
        return n.error("has a bias for packed inputs");
      int64_t width = n.shape(x)[2];
      if (n.shape(bias).size() != 1 || at + width > n.shape(bias)[0])
        return n.error("has a bias of another size than its inputs");
      x = Expressions{n}.add(
          x, n.broadcastTo(columnsOf(n, bias, at, width), n.shape(x)));
      at += width;
    }
  }
  auto queries = splitHeads(n, all[0], heads);
  if (failed(queries))
    return failure();
  if (isPacked) {
    auto parts = unpack(n, k, heads, 2);
    if (failed(parts))
      return failure();
    return Projections{*queries, (*parts)[0], (*parts)[1]};
  }
  auto keys = splitHeads(n, all[1], heads),
       values = splitHeads(n, all[2], heads);
  if (failed(keys) || failed(values))
    return failure();
  return Projections{*queries, *keys, *values};
}

LogicalResult multiHeadAttention(NodeImporter &n) {
  if (failed(refuseInputs(
          n, {{8, "past_sequence_length"}, {9, "cache_indirection"}})))
    return failure();
  auto all = readProjections(n, n.attribute("num_heads", int64_t{0}));
  if (failed(all))
    return failure();
  int64_t past = 0;
  for (auto [x, input, output] :
       {std::tuple(&all->k, 6, 1), std::tuple(&all->v, 7, 2)}) {
    if (n.hasInput(input)) {
      Value before = n.tensor(input);
      if (!before)
        return failure();
      auto joined = prepend(n, before, *x);
      if (failed(joined))
        return failure();
      past = n.shape(*joined)[2] - n.shape(*x)[2];
      *x = *joined;
    }
    if (n.wantsOutput(output))
      n.setOutput(output, *x);
  }
  std::optional<size_t> mask;
  if (n.hasInput(4))
    mask = 4;
  return attend(n, *all, past, mask, 5);
}

LogicalResult microsoftAttention(NodeImporter &n) {
  if (failed(refuseInputs(n, {{6, "past_sequence_length"}})) ||
      failed(refuseAttributes(n, {"do_rotary", "past_present_share_buffer",
                                  "rotary_embedding_dim"})))
    return failure();
  Value x = n.tensor(0), weights = n.tensor(1);
  if (!x || !weights)
    return failure();
  Expressions e{n};
  int64_t heads = n.attribute("num_heads", int64_t{0});
  SmallVector<int64_t> shape(n.shape(x)), weightShape(n.shape(weights));
  if (shape.size() != 3 || weightShape.size() != 2 ||
      weightShape[0] != shape[2])
    return n.error("has an input and weights that do not fit each other");
  SmallVector<int64_t> widths =
      n.attribute("qkv_hidden_sizes", ArrayRef<int64_t>());
  if (widths.empty())
    widths.assign(3, weightShape[1] / 3);
  if (widths.size() != 3 ||
      llvm::any_of(
          widths,
          [](int64_t width) { return width < 1 || width > maxElements; }) ||
      widths[0] + widths[1] + widths[2] != weightShape[1])
    return n.error("has weights of " + llvm::Twine(weightShape[1]) +
                   " columns, which are not those of queries, keys and values");
  SmallVector<int64_t> wide = {shape[0], shape[1], weightShape[1]};
  Value y = n.make<DotGeneralOp>(n.type(x).clone(wide), x, weights,
                                 ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                                 int64_t{2}, int64_t{0});
  if (n.hasInput(2)) {
    Value bias = n.tensor(2);
    if (!bias)
      return failure();
    if (n.shape(bias) != ArrayRef<int64_t>{weightShape[1]})
      return n.error("has a bias of another size than its weights");
    y = e.add(y, n.broadcastTo(bias, wide));
  }
  Projections all;
  int64_t at = 0;
  for (auto [target, width] :
       {std::pair(&all.q, widths[0]), std::pair(&all.k, widths[1]),
        std::pair(&all.v, widths[2])}) {
    auto split = splitHeads(n, columnsOf(n, y, at, width), heads);
    if (failed(split))
      return failure();
    *target = *split;
    at += width;
  }
  int64_t past = 0;
  if (n.hasInput(4)) {
    Value before = n.tensor(4);
    if (!before)
      return failure();
    SmallVector<int64_t> own(n.shape(before));
    if (own.size() != 5 || own[0] != 2)
      return n.error("has a past that is not keys and values, 2 x samples x "
                     "heads x rows x columns");
    past = own[3];
    SmallVector<int64_t> single(own.begin() + 1, own.end());
    for (auto [target, i] : {std::pair(&all.k, 0), std::pair(&all.v, 1)}) {
      auto joined =
          prepend(n, n.reshape(n.slice(before, 0, i, i + 1), single), *target);
      if (failed(joined))
        return failure();
      *target = *joined;
    }
  }
  if (n.wantsOutput(1)) {
    Value present = n.join({all.k, all.v}, 0, /*isNew=*/true);
    if (!present)
      return failure();
    n.setOutput(1, present);
  }
  std::optional<size_t> mask;
  if (n.hasInput(3))
    mask = 3;
  return attend(n, all, past, mask, 5);
}

//===----------------------------------------------------------------------===//
// GroupQueryAttention
//===----------------------------------------------------------------------===//

/// The cache has rows for all keys that are ever seen; how many of them each
/// sample has is in the data.
class GroupQueryAttention {
public:
  explicit GroupQueryAttention(NodeImporter &n) : n(n), e{n} {}

  LogicalResult run() {
    if (failed(refuse()) || failed(readInputs()) || failed(readLengths()) ||
        failed(rotate(all.q)) || failed(rotate(all.k)))
      return failure();
    for (auto [x, input, output] :
         {std::tuple(&all.k, 3, 1), std::tuple(&all.v, 4, 2)}) {
      if (failed(place(*x, input)))
        return failure();
      if (n.wantsOutput(output))
        n.setOutput(output, *x);
    }
    int64_t heads = n.shape(all.q)[1];
    auto keys = repeatHeads(n, all.k, heads),
         values = repeatHeads(n, all.v, heads);
    if (failed(keys) || failed(values))
      return failure();
    return attend(*keys, *values);
  }

private:
  LogicalResult refuse() {
    n.ignoreAttribute("kv_cache_bit_width");
    n.ignoreAttribute("qk_norm_epsilon");
    for (StringRef name : {"k_quant_type", "v_quant_type"})
      if (std::string type = n.attribute(name, "NONE"); type != "NONE")
        return n.error("attribute " + name + " is '" + type +
                       "', which is not supported");
    if (failed(refuseAttributes(n, {"qk_output", "sliding_window_cache"})))
      return failure();
    return refuseInputs(n, {{12, "k_scale"},
                            {13, "v_scale"},
                            {14, "q_norm_weight"},
                            {15, "k_norm_weight"}});
  }

  LogicalResult readInputs() {
    int64_t heads = n.attribute("num_heads", int64_t{0});
    int64_t shared = n.attribute("kv_num_heads", int64_t{0});
    Value q = n.tensor(0);
    if (!q)
      return failure();
    SmallVector<int64_t> shape(n.shape(q));
    if (shape.size() != 3 || heads < 1 || shared < 1 || heads % shared != 0 ||
        heads > maxElements)
      return n.error("has queries of rank " + llvm::Twine(shape.size()) +
                     " in " + llvm::Twine(heads) + " heads, and " +
                     llvm::Twine(shared) + " of keys");
    Value k, v;
    if (n.hasInput(1) != n.hasInput(2))
      return n.error("has keys or values, but not both");
    if (n.hasInput(1)) {
      k = n.tensor(1);
      v = n.tensor(2);
      if (!k || !v)
        return failure();
    } else {
      int64_t columns = shape[2] / (heads + 2 * shared);
      if (columns * (heads + 2 * shared) != shape[2])
        return n.error("has packed queries, keys and values of " +
                       llvm::Twine(shape[2]) + " columns");
      k = columnsOf(n, q, heads * columns, shared * columns);
      v = columnsOf(n, q, (heads + shared) * columns, shared * columns);
      q = columnsOf(n, q, 0, heads * columns);
    }
    auto queries = splitHeads(n, q, heads), keys = splitHeads(n, k, shared),
         values = splitHeads(n, v, shared);
    if (failed(queries) || failed(keys) || failed(values))
      return failure();
    all = {*queries, *keys, *values};
    return success();
  }

  /// The keys that each sample had before, and all that there are rows for.
  LogicalResult readLengths() {
    Value lengths = n.tensor(5);
    if (!lengths)
      return failure();
    int64_t samples = n.shape(all.q)[0], rows = n.shape(all.q)[2];
    if (n.type(lengths).getNumElements() != samples)
      return n.error("has seqlens_k that are not one for each sample");
    auto total = n.known(6).integers();
    if (failed(total) || total->size() != 1)
      return n.error("input #6 (total_sequence_length) is no number");
    keyRows = (*total)[0];
    if (keyRows < rows || keyRows > maxElements)
      return n.error("has " + llvm::Twine(rows) + " rows of " +
                     llvm::Twine(keyRows) + " keys in total");
    if (n.hasInput(3)) {
      Value before = n.tensor(3);
      if (!before || n.shape(before).size() != 4)
        return n.error("has a past_key that is not samples x heads x rows x "
                       "columns");
      keyRows = std::max(keyRows, n.shape(before)[2]);
    }
    Type index = n.getBuilder().getI64Type();
    Value wide = n.cast(n.reshape(lengths, {samples}), index);
    // With the first rows, nothing was before, and what is short is padded.
    isFirst = (*total)[0] == rows;
    past = isFirst ? e.number(wide, 0)
                   : e.add(wide, static_cast<double>(1 - rows));
    return success();
  }

  /// `past` for each place of a tensor whose first axis is that of the samples.
  Value pastIn(ArrayRef<int64_t> shape) {
    return n.make<BroadcastOp>(n.type(past).clone(shape), past,
                               ArrayRef<int64_t>{0});
  }

  LogicalResult rotate(Value &x) {
    if (n.attribute("do_rotary", int64_t{0}) == 0)
      return success();
    bool isInterleaved = n.attribute("rotary_interleaved", int64_t{0}) != 0;
    if (!n.hasInput(7) || !n.hasInput(8))
      return n.error("turns its columns, but has no angles");
    SmallVector<int64_t> shape(n.shape(x)), rows = {shape[0], shape[2]};
    Value places =
        n.hasInput(9) ? n.tensor(9) : e.add(e.iota(rows, 1), pastIn(rows));
    if (!places)
      return failure();
    if (n.shape(places) != ArrayRef<int64_t>(rows))
      return n.error("has position_ids that are not samples x rows");
    Value angles[2];
    for (int i = 0; i < 2; ++i) {
      Value table = n.tensor(7 + i);
      if (!table)
        return failure();
      ArrayRef<int64_t> own = n.shape(table);
      if (own.size() != 2 || own[1] < 1 || 2 * own[1] > shape[3])
        return n.error(
            "has angles of another shape than half of what it turns");
      Value taken = n.make<GatherOp>(table, places, int64_t{0});
      angles[i] = n.make<BroadcastOp>(
          n.type(taken).clone({shape[0], shape[1], shape[2], own[1]}), taken,
          ArrayRef<int64_t>{0, 2, 3});
    }
    if (n.type(angles[0]) != n.type(angles[1]))
      return n.error("has cosines and sines of different shapes");
    x = rotatePairs(n, x, angles[0], angles[1], isInterleaved);
    return success();
  }

  /// Puts the rows behind those that each sample had before.
  LogicalResult place(Value &x, size_t input) {
    SmallVector<int64_t> shape(n.shape(x)), target(shape);
    target[2] = keyRows;
    if (isFirst && keyRows == shape[2])
      return success();
    // A row of the cache is the sum of the rows that are there, of which one
    // counts, or none.
    SmallVector<int64_t> pairs = {shape[0], keyRows, shape[2]};
    Value from = e.sub(e.iota(pairs, 1), pastIn(pairs));
    Value isThere = e.compare(Comparison::eq, from, e.iota(pairs, 2));
    Value placed = n.make<DotGeneralOp>(
        n.type(x).clone({shape[0], keyRows, shape[1], shape[3]}),
        n.cast(isThere, n.type(x).getElementType()), x, int64_t{0}, int64_t{0},
        int64_t{2}, int64_t{2});
    placed = n.transpose(placed, {0, 2, 1, 3});
    if (!n.hasInput(input) || isFirst) {
      x = placed;
      return success();
    }
    Value before = n.tensor(input);
    if (!before)
      return failure();
    SmallVector<int64_t> old(n.shape(before));
    if (old.size() != 4 || old[0] != shape[0] || old[1] != shape[1] ||
        old[2] > keyRows || old[3] != shape[3])
      return n.error("has a cache of another shape than its keys or values");
    if (old[2] < keyRows) {
      SmallVector<int64_t> rest(old);
      rest[2] = keyRows - old[2];
      Value zeros = n.splat(n.type(before).clone(rest), 0);
      before =
          old[2] == 0
              ? zeros
              : Value(n.make<ConcatOp>(ValueRange{before, zeros}, int64_t{2}));
    }
    Value isOld = e.compare(Comparison::lt, e.iota(target, 2), pastIn(target));
    x = e.select(isOld, before, placed);
    return success();
  }

  LogicalResult attend(Value keys, Value values) {
    double columns = static_cast<double>(n.shape(all.q)[3]);
    double scale = n.attribute("scale", 0.0);
    auto scored = scoreKeys(n, all.q, keys, values,
                            scale != 0 ? scale : 1 / std::sqrt(columns));
    if (failed(scored))
      return failure();
    Value scores = capScores(n, *scored, n.attribute("softcap", 0.0));
    SmallVector<int64_t> shape(n.shape(scores));
    if (n.hasInput(10)) {
      // It may be for fewer rows than the cache has.
      Value bias = n.tensor(10);
      if (!bias)
        return failure();
      if (failed(addBias(n, 10, scores)))
        return failure();
    }
    Value key = e.iota(shape, 3);
    Value own = e.add(e.iota(shape, 2), pastIn(shape));
    Value isSeen = e.compare(
        Comparison::le, key,
        n.attribute("causal", int64_t{1}) != 0
            ? own
            : e.add(pastIn(shape), static_cast<double>(shape[2] - 1)));
    // The own key, and the ones before it.
    if (int64_t window = n.attribute("local_window_size", int64_t{-1});
        window > 0) {
      auto before = static_cast<double>(std::min(window, maxElements));
      isSeen =
          e.both(isSeen, e.compare(Comparison::gt, key, e.add(own, -before)));
    }
    scores = e.select(isSeen, scores, e.number(scores, hiddenScore));
    auto weights = weigh(scores);
    if (failed(weights))
      return failure();
    n.setOutput(0, mergeHeads(n, sumValues(n, *weights, values)));
    return success();
  }

  /// The softmax, with one more score that has no value: 0, or one for each
  /// head.
  FailureOr<Value> weigh(Value scores) {
    SmallVector<int64_t> shape(n.shape(scores)), single(shape);
    bool isSmooth = n.attribute("smooth_softmax", int64_t{0}) == 1;
    if (!isSmooth && !n.hasInput(11))
      return weighMasked(n, scores);
    single[3] = 1;
    Value sink = n.splat(n.type(scores).clone(single), 0);
    if (n.hasInput(11)) {
      Value given = n.tensor(11);
      if (!given)
        return failure();
      if (n.shape(given) != ArrayRef<int64_t>{shape[1]})
        return n.error("has a head_sink that is not one for each head");
      sink = n.make<BroadcastOp>(n.type(scores).clone(single), given,
                                 ArrayRef<int64_t>{1});
    }
    Value all = n.make<ConcatOp>(ValueRange{scores, sink}, int64_t{3});
    return n.slice(n.make<SoftmaxOp>(all), 3, 0, shape[3]);
  }

  NodeImporter &n;
  Expressions e;
  Projections all;
  Value past; // by sample
  int64_t keyRows = 0;
  bool isFirst = false;
};

LogicalResult groupQueryAttention(NodeImporter &n) {
  return GroupQueryAttention(n).run();
}

} // namespace

ArrayRef<ImportedOperator> pp::microsoftOperators() {
  static const ImportedOperator entries[] = {
      {.name = "com.microsoft.Attention",
       .handler = microsoftAttention,
       .types = floatTypes,
       .note = "without rotary embedding and shared buffers"},
      {.name = "com.microsoft.GroupQueryAttention",
       .handler = groupQueryAttention,
       .types = floatTypes,
       .known = {{"total_sequence_length", KnownInput::Scalar}},
       .note = "without quantized caches"},
      {.name = "com.microsoft.MultiHeadAttention",
       .handler = multiHeadAttention,
       .types = floatTypes,
       .outputs = 3,
       .note = "without `cache_indirection`"},
  };
  return entries;
}
