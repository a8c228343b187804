//===- RecurrentHandlers.cpp - ONNX RNN, GRU and LSTM ---------------------===//
//
// Unrolled: each place of the sequence is operations of its own, so that they
// are differentiated and placed like all others. What the inputs contribute is
// one product for the whole sequence.
//
//===----------------------------------------------------------------------===//

#include "Activations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"
#include <functional>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

using Activation = std::function<Value(Expressions &, Value)>;

/// What the operators share: operands, sizes, activations.
class Recurrence {
public:
  Recurrence(NodeImporter &n, int64_t gates,
             ArrayRef<StringLiteral> defaultActivations)
      : n(n), gates(gates), defaults(defaultActivations) {}
  virtual ~Recurrence() = default;

  LogicalResult import();

protected:
  /// One step of direction `d`: from what the input contributes to the gates,
  /// with its biases, and the state, which is null where it is zero.
  virtual void step(int64_t d, Value fromInput, Value &h, Value &c) = 0;
  /// What else an operator reads.
  virtual LogicalResult readMore() { return success(); }
  virtual bool hasCell() const { return false; }
  /// Whether it reads gates by `gate` wherever this order is another one.
  virtual bool canReorder(ArrayRef<int64_t>) const { return false; }

  /// A gate, by its place in the operator's order, of the last axis of what is
  /// made of weights.
  Value gate(int64_t d, Value x, int64_t index) {
    return part(x, orders[d].empty() ? index : orders[d][index]);
  }
  /// Part `part` of the last axis, which has parts of the hidden size.
  Value part(Value x, int64_t index, int64_t count = 1) {
    return n.slice(x, n.type(x).getRank() - 1, index * hidden,
                   (index + count) * hidden);
  }
  /// h times the transposed recurrence weights of some gates.
  Value fromState(int64_t d, Value h, int64_t first, int64_t count) {
    if (!h)
      return {};
    Value r =
        n.slice(recurrence[d], 0, first * hidden, (first + count) * hidden);
    return product(h, r);
  }
  Value product(Value x, Value weights) {
    SmallVector<int64_t> shape(n.shape(x).drop_back());
    int64_t last = shape.size(), columns = 1;
    shape.push_back(n.shape(weights)[0]);
    ArrayRef<int64_t> noAxes;
    return n.make<DotGeneralOp>(n.type(x).clone(shape), x, weights, noAxes,
                                noAxes, last, columns);
  }
  /// Sums and products with null for zero.
  Value plus(Value x, Value y) { return x && y ? e.add(x, y) : x ? x : y; }
  Value times(Value x, Value y) { return x && y ? e.mul(x, y) : Value(); }
  /// Adds a row to each row.
  Value plusRow(Value x, Value row) {
    if (!row)
      return x;
    return e.add(x, n.broadcastTo(row, n.shape(x)));
  }
  Value activate(int64_t d, int64_t index, Value x) {
    if (clip > 0)
      x = e.max(e.min(x, clip), -clip);
    return activations[d * defaults.size() + index](e, x);
  }
  /// Row `d` of an operand with a row for each direction; null without it.
  Value rowOf(size_t index, int64_t d);
  LogicalResult checkShape(size_t index, ArrayRef<int64_t> expected,
                           StringRef name);

  Value join(ArrayRef<Value> values, int64_t axis) {
    if (values.size() == 1)
      return values.front();
    return n.make<ConcatOp>(values, axis);
  }

  NodeImporter &n;
  Expressions e{n};
  int64_t gates;
  int64_t directions = 1, length = 0, batch = 0, hidden = 0;
  bool isBatchFirst = false;
  double clip = 0;
  /// By direction; biases are null where there are none.
  SmallVector<Value> weights, recurrence, inputBias, stateBias;
  /// By direction: where the gates of all these are. Empty: in order.
  SmallVector<SmallVector<int64_t>> orders;

private:
  void findOrder(int64_t d);
  LogicalResult readShapes();
  LogicalResult readActivations();
  /// Whether each sample's sequence goes on at `place`; null if all do.
  Value isInside(int64_t place);
  /// Null for zeros, which then have no number of samples.
  Value initialState(size_t index, int64_t d);
  void run(int64_t d, Value x, MutableArrayRef<Value> ys, Value &h, Value &c);
  bool wants(size_t output) const {
    const auto &outputs = n.getNode().outputs;
    return output < outputs.size() && !outputs[output].empty();
  }

  ArrayRef<StringLiteral> defaults;
  SmallVector<Activation> activations;
  Value lengths;
  bool isReverse = false;
};

/// What the slices `[first, limit)` of the first axis of `x` are, if they are
/// an operand that was concatenated.
Value findPiece(Value x, int64_t first, int64_t limit) {
  auto concat = x.getDefiningOp<ConcatOp>();
  if (!concat || concat.getAxis() != 0)
    return {};
  for (Value piece : concat.getInputs()) {
    const int64_t size = cast<RankedTensorType>(piece.getType()).getDimSize(0);
    if (first == 0 && limit == size)
      return piece;
    if (first < size)
      return {};
    first -= size;
    limit -= size;
  }
  return {};
}

Value Recurrence::rowOf(size_t index, int64_t d) {
  if (!n.hasInput(index))
    return {};
  Value all = n.tensor(index);
  SmallVector<int64_t> shape(n.shape(all).drop_front());
  Value row = findPiece(all, d, d + 1);
  if (!row)
    row = directions == 1 ? all : n.slice(all, 0, d, d + 1);
  if (auto reshape = row.getDefiningOp<ReshapeOp>())
    if (n.shape(reshape.getInput()) == ArrayRef<int64_t>(shape))
      return reshape.getInput();
  return n.reshape(row, shape);
}

/// What was cut into gates and put together in another order.
struct OrderedGates {
  Value source;
  SmallVector<int64_t> order; // places in the source
};

std::optional<OrderedGates> matchGates(Value rows, int64_t gates,
                                       int64_t hidden) {
  auto concat = rows.getDefiningOp<ConcatOp>();
  if (!concat || concat.getAxis() != 0)
    return std::nullopt;
  OrderedGates result;
  for (Value piece : concat.getInputs()) {
    auto slice = piece.getDefiningOp<SliceOp>();
    if (!slice || slice.getOutput().getType().getDimSize(0) % hidden != 0 ||
        slice.getStarts()[0] % hidden != 0 || slice.getStrides()[0] != 1 ||
        slice.getOutput().getType().getShape().drop_front() !=
            slice.getInput().getType().getShape().drop_front() ||
        slice.getInput().getType() != rows.getType() ||
        (result.source && slice.getInput() != result.source))
      return std::nullopt;
    result.source = slice.getInput();
    const int64_t first = slice.getStarts()[0] / hidden;
    const int64_t count = slice.getOutput().getType().getDimSize(0) / hidden;
    llvm::append_range(result.order, llvm::seq(first, first + count));
  }
  SmallVector<int64_t> sorted(result.order);
  llvm::sort(sorted);
  return llvm::equal(sorted, llvm::seq(gates)) ? std::optional(result)
                                               : std::nullopt;
}

/// Exporters put the gates of a framework's weights into the operator's order,
/// in each step anew: they are taken as they lie where all of them are in the
/// same order.
void Recurrence::findOrder(int64_t d) {
  SmallVector<int64_t> order;
  SmallVector<std::pair<Value *, Value>> sources;
  for (SmallVector<Value> *values :
       {&weights, &recurrence, &inputBias, &stateBias}) {
    Value &own = (*values)[d];
    if (!own)
      continue;
    auto found = matchGates(own, gates, hidden);
    if (!found || (!order.empty() && found->order != order))
      return;
    order = found->order;
    sources.emplace_back(&own, found->source);
  }
  if (!canReorder(order))
    return;
  for (auto [own, source] : sources)
    *own = source;
  orders[d] = order;
}

LogicalResult Recurrence::checkShape(size_t index, ArrayRef<int64_t> expected,
                                     StringRef name) {
  if (!n.hasInput(index) || n.shape(n.input(index)) == expected)
    return success();
  std::string text;
  llvm::raw_string_ostream(text)
      << "input #" << index << " (" << name << ") has shape ["
      << llvm::interleaved(n.shape(n.input(index)))
      << "], but the others need [" << llvm::interleaved(expected) << "]";
  return n.error(text);
}

LogicalResult Recurrence::readShapes() {
  Value x = n.tensor(0), w = n.tensor(1), r = n.tensor(2);
  if (!x || !w || !r)
    return failure();
  std::string direction = n.attribute("direction", "forward");
  directions = direction == "bidirectional" ? 2 : 1;
  isReverse = direction == "reverse";
  isBatchFirst = n.attribute("layout", int64_t{0}) != 0;
  clip = n.attribute("clip", 0.0);
  // Of the first opset: whether Y is there, which its name says too.
  n.ignoreAttribute("output_sequence");
  if (n.shape(x).size() != 3 || n.shape(r).size() != 3)
    return n.error("takes X and R of rank 3");
  hidden = n.shape(r)[2];
  length = n.shape(x)[isBatchFirst ? 1 : 0];
  batch = n.shape(x)[isBatchFirst ? 0 : 1];
  if (n.attribute("hidden_size", hidden) != hidden)
    return n.error("attribute hidden_size is not the last axis of R");
  if (length * directions > maxUnrolledSteps)
    return n.error("unrolls " + llvm::Twine(length * directions) +
                       " steps; at most " + llvm::Twine(maxUnrolledSteps) +
                       " are supported",
                   "export the model for shorter sequences");
  SmallVector<int64_t> state = {directions, batch, hidden};
  if (isBatchFirst)
    std::swap(state[0], state[1]);
  if (failed(checkShape(1, {directions, gates * hidden, n.shape(x)[2]}, "W")) ||
      failed(checkShape(2, {directions, gates * hidden, hidden}, "R")) ||
      failed(checkShape(3, {directions, 2 * gates * hidden}, "B")) ||
      failed(checkShape(4, {batch}, "sequence_lens")) ||
      failed(checkShape(5, state, "initial_h")))
    return failure();
  if (hasCell() && (failed(checkShape(6, state, "initial_c")) ||
                    failed(checkShape(7, {directions, 3 * hidden}, "P"))))
    return failure();
  auto known = n.known(4).integers();
  bool isFull = succeeded(known) && llvm::all_of(*known, [&](int64_t each) {
                  return each == length;
                });
  if (n.hasInput(4) && !isFull)
    lengths = n.cast(n.tensor(4), n.getBuilder().getI64Type());
  for (int64_t d = 0; d < directions; ++d) {
    weights.push_back(rowOf(1, d));
    recurrence.push_back(rowOf(2, d));
    Value both = rowOf(3, d);
    auto bias = [&](int64_t first) -> Value {
      if (!both)
        return {};
      Value piece = findPiece(both, first * hidden, (first + gates) * hidden);
      return piece ? piece : part(both, first, gates);
    };
    inputBias.push_back(bias(0));
    stateBias.push_back(bias(gates));
    orders.emplace_back();
    findOrder(d);
  }
  return success();
}

LogicalResult Recurrence::readActivations() {
  SmallVector<StringRef> names;
  if (const onnx::Attribute *given = n.findAttribute("activations"))
    llvm::append_range(names, given->strings);
  size_t count = defaults.size() * directions;
  if (names.empty())
    for (size_t i = 0; i < count; ++i)
      names.push_back(defaults[i % defaults.size()]);
  if (names.size() != count)
    return n.error("has " + llvm::Twine(names.size()) + " activations for " +
                   llvm::Twine(count));
  // Those that have one take them in turn.
  auto next = [&](StringRef attribute, size_t &used, double fallback) {
    if (fallback == noParameter)
      return fallback;
    const onnx::Attribute *given = n.findAttribute(attribute);
    size_t index = used++;
    return given && index < given->floats.size()
               ? static_cast<double>(given->floats[index])
               : fallback;
  };
  size_t alphas = 0, betas = 0;
  for (StringRef name : names) {
    const ActivationKind *kind = findActivation(name);
    if (!kind)
      return n.error("has an activation " + onnx::quoted(name) +
                     ", which the operator does not define");
    double alpha = next("activation_alpha", alphas, kind->alpha);
    double beta = next("activation_beta", betas, kind->beta);
    activations.push_back(
        [=](Expressions &e, Value x) { return kind->make(e, x, alpha, beta); });
  }
  n.ignoreAttribute("activation_alpha");
  n.ignoreAttribute("activation_beta");
  return success();
}

Value Recurrence::isInside(int64_t place) {
  if (!lengths)
    return {};
  Value inside = e.compare(Comparison::gt, lengths, static_cast<double>(place));
  return n.make<BroadcastOp>(n.type(inside).clone({batch, hidden}), inside,
                             ArrayRef<int64_t>{0});
}

Value Recurrence::initialState(size_t index, int64_t d) {
  Constant known = n.known(index);
  bool isZero = known && known.getElements().isSplat() && *known.number() == 0;
  if (n.hasInput(index) && !isZero)
    return n.reshape(n.slice(n.tensor(index), isBatchFirst ? 1 : 0, d, d + 1),
                     {batch, hidden});
  return {};
}

void Recurrence::run(int64_t d, Value x, MutableArrayRef<Value> ys, Value &h,
                     Value &c) {
  Value fromInput = plusRow(product(x, weights[d]), inputBias[d]);
  h = initialState(5, d);
  c = hasCell() ? initialState(6, d) : Value();
  int64_t timeAxis = isBatchFirst ? 1 : 0;
  for (int64_t turn = 0; turn < length; ++turn) {
    int64_t place = d == 1 || isReverse ? length - 1 - turn : turn;
    Value at = n.reshape(n.slice(fromInput, timeAxis, place, place + 1),
                         {batch, gates * hidden});
    Value lastH = h, lastC = c;
    step(d, at, h, c);
    ys[place] = h;
    // Behind its end a sample keeps its state, and gives zeros.
    if (Value inside = isInside(place)) {
      ys[place] = e.select(inside, h, e.number(h, 0));
      h = e.select(inside, h, lastH ? lastH : e.number(h, 0));
      if (c)
        c = e.select(inside, c, lastC ? lastC : e.number(c, 0));
    }
  }
}

LogicalResult Recurrence::import() {
  if (failed(readShapes()) || failed(readActivations()) || failed(readMore()))
    return failure();
  Value x = n.tensor(0);
  int64_t timeAxis = isBatchFirst ? 1 : 0;
  SmallVector<Value> ys, hs, cs;
  for (int64_t d = 0; d < directions; ++d) {
    SmallVector<Value> places(length);
    Value h, c;
    run(d, x, places, h, c);
    // Directions are an axis before the samples, or behind the sequence.
    SmallVector<int64_t> one = {1, 1, batch, hidden};
    SmallVector<int64_t> state = {1, batch, hidden};
    if (isBatchFirst) {
      one = {batch, 1, 1, hidden};
      state = {batch, 1, hidden};
    }
    if (wants(0)) {
      for (Value &place : places)
        place = n.reshape(place, one);
      ys.push_back(join(places, timeAxis));
    }
    hs.push_back(n.reshape(h, state));
    if (c)
      cs.push_back(n.reshape(c, state));
  }
  if (wants(0))
    n.setOutput(0, join(ys, isBatchFirst ? 2 : 1));
  if (wants(1))
    n.setOutput(1, join(hs, isBatchFirst ? 1 : 0));
  if (wants(2))
    n.setOutput(2, join(cs, isBatchFirst ? 1 : 0));
  return success();
}

class SimpleRecurrence : public Recurrence {
public:
  explicit SimpleRecurrence(NodeImporter &n) : Recurrence(n, 1, names) {}

private:
  void step(int64_t d, Value fromInput, Value &h, Value &) override {
    Value sum = plus(fromInput, fromState(d, h, 0, 1));
    h = activate(d, 0, plusRow(sum, stateBias[d]));
  }
  static constexpr StringLiteral names[] = {"Tanh"};
};

/// Gates in the order update, reset, hidden.
class GatedRecurrence : public Recurrence {
public:
  explicit GatedRecurrence(NodeImporter &n) : Recurrence(n, 3, names) {}

private:
  LogicalResult readMore() override {
    resetsProduct = n.attribute("linear_before_reset", int64_t{0}) != 0;
    return success();
  }
  bool canReorder(ArrayRef<int64_t> order) const override {
    return order.back() == 2;
  }
  void step(int64_t d, Value fromInput, Value &h, Value &) override {
    Value bias = stateBias[d];
    Value gatesBias = bias ? part(bias, 0, 2) : Value();
    Value hiddenBias = bias ? part(bias, 2) : Value();
    Value state = fromState(d, h, 0, resetsProduct ? 3 : 2);
    Value both = part(fromInput, 0, 2);
    both = plusRow(plus(both, state ? part(state, 0, 2) : Value()), gatesBias);
    Value update = activate(d, 0, gate(d, both, 0));
    Value reset = activate(d, 0, gate(d, both, 1));
    Value row =
        hiddenBias ? n.broadcastTo(hiddenBias, {batch, hidden}) : Value();
    Value fromHidden;
    if (resetsProduct)
      fromHidden = times(reset, plus(state ? part(state, 2) : Value(), row));
    else
      fromHidden = plus(fromState(d, times(reset, h), 2, 1), row);
    Value candidate = activate(d, 1, plus(part(fromInput, 2), fromHidden));
    h = plus(e.mul(e.sub(1, update), candidate), times(update, h));
  }
  static constexpr StringLiteral names[] = {"Sigmoid", "Tanh"};
  bool resetsProduct = false;
};

/// Gates in the order input, output, forget, cell; peepholes input, output,
/// forget.
class LongShortTermMemory : public Recurrence {
public:
  explicit LongShortTermMemory(NodeImporter &n) : Recurrence(n, 4, names) {}

private:
  bool hasCell() const override { return true; }
  bool canReorder(ArrayRef<int64_t>) const override { return true; }
  LogicalResult readMore() override {
    isCoupled = n.attribute("input_forget", int64_t{0}) != 0;
    for (int64_t d = 0; d < directions; ++d)
      peepholes.push_back(rowOf(7, d));
    return success();
  }
  /// Adds what a gate sees of the cell.
  Value peep(int64_t d, int64_t index, Value x, Value c) {
    if (!peepholes[d] || !c)
      return x;
    Value row = n.broadcastTo(part(peepholes[d], index), n.shape(c));
    return e.add(x, e.mul(row, c));
  }
  void step(int64_t d, Value fromInput, Value &h, Value &c) override {
    Value all = plus(fromInput, fromState(d, h, 0, 4));
    all = plusRow(all, stateBias[d]);
    Value input = activate(d, 0, peep(d, 0, gate(d, all, 0), c));
    Value forget = isCoupled ? e.sub(1, input)
                             : activate(d, 0, peep(d, 2, gate(d, all, 2), c));
    Value cell = activate(d, 1, gate(d, all, 3));
    c = plus(times(forget, c), e.mul(input, cell));
    Value output = activate(d, 0, peep(d, 1, gate(d, all, 1), c));
    double bound = std::exchange(clip, 0);
    h = e.mul(output, activate(d, 2, c));
    clip = bound;
  }
  static constexpr StringLiteral names[] = {"Sigmoid", "Tanh", "Tanh"};
  SmallVector<Value> peepholes;
  bool isCoupled = false;
};

template <typename Kind> LogicalResult recurrent(NodeImporter &n) {
  return Kind(n).import();
}

} // namespace

ArrayRef<ImportedOperator> pp::recurrentOperators() {
  static const Choice direction = {"direction",
                                   {"forward", "reverse", "bidirectional"}};
  static const ImportedOperator entries[] = {
      {.name = "GRU",
       .handler = recurrent<GatedRecurrence>,
       .types = floatTypes,
       .choices = {direction},
       .note = "up to 4096 steps"},
      {.name = "LSTM",
       .handler = recurrent<LongShortTermMemory>,
       .types = floatTypes,
       .choices = {direction},
       .note = "up to 4096 steps"},
      {.name = "RNN",
       .handler = recurrent<SimpleRecurrence>,
       .types = floatTypes,
       .choices = {direction},
       .note = "up to 4096 steps"},
  };
  return entries;
}
