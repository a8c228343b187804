//===- ControlFlowHandlers.cpp - ONNX If, Loop and Scan -------------------===//
//
// A program has no control flow: branches are chosen and loops unrolled at
// import. Of a condition that depends on the data both branches are computed,
// and the results chosen.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// The graph that is an attribute; null, with an error, if there is none.
const onnx::Graph *subgraph(NodeImporter &n, StringRef name) {
  const onnx::Attribute *found = n.findAttribute(name);
  if (found && !found->graphs.empty())
    return &found->graphs.front();
  (void)n.error("has no graph in attribute " + name);
  return nullptr;
}

FailureOr<Entry> chooseBetween(NodeImporter &n, Value condition,
                               const Entry &whenTrue, const Entry &whenFalse) {
  Value x = n.valueOf(whenTrue), y = n.valueOf(whenFalse);
  if (!x || !y || x.getType() != y.getType() ||
      whenTrue.narrow != whenFalse.narrow) {
    (void)n.error("has branches with results of different types or shapes, "
                  "and a condition that depends on the data",
                  n.howToKnow());
    return failure();
  }
  Entry chosen;
  chosen.narrow = whenTrue.narrow;
  chosen.value = n.make<SelectOp>(
      n.broadcastTo(n.reshape(condition, {}), n.shape(x)), x, y);
  return chosen;
}

LogicalResult branch(NodeImporter &n) {
  const onnx::Graph *whenTrue = subgraph(n, "then_branch");
  const onnx::Graph *whenFalse = subgraph(n, "else_branch");
  if (!whenTrue || !whenFalse)
    return failure();
  size_t count = n.getNode().outputs.size();
  if (whenTrue->outputs.size() < count || whenFalse->outputs.size() < count)
    return n.error("has a branch with fewer outputs than the node");
  if (Constant condition = n.known(0)) {
    auto holds = condition.integer();
    if (failed(holds))
      return n.error("has a condition without elements");
    auto results = n.importGraph(*holds ? *whenTrue : *whenFalse, {});
    if (failed(results))
      return failure();
    for (size_t index = 0; index < count; ++index)
      n.setOutput(index, (*results)[index]);
    return success();
  }
  Value condition = n.tensor(0);
  if (!condition)
    return failure();
  if (n.type(condition).getNumElements() != 1)
    return n.error("has a condition of several elements");
  auto first = n.importGraph(*whenTrue, {});
  auto second = succeeded(first) ? n.importGraph(*whenFalse, {})
                                 : FailureOr<std::vector<Entry>>(failure());
  if (failed(second)) {
    n.help(
        "both branches are computed, as the condition depends on the data: " +
        n.howToKnow());
    return failure();
  }
  for (size_t index = 0; index < count; ++index) {
    auto chosen =
        chooseBetween(n, condition, (*first)[index], (*second)[index]);
    if (failed(chosen))
      return failure();
    n.setOutput(index, *chosen);
  }
  return success();
}

/// What the iterations computed, stacked along axis `axis`. Of no iteration the
/// graph has to say what shape there would be.
FailureOr<Entry> stacked(NodeImporter &n, ArrayRef<Entry> turns, int64_t axis,
                         const onnx::ValueInfo &stated) {
  Entry result;
  if (turns.empty()) {
    Type element = n.storedType(stated.type);
    SmallVector<int64_t> shape;
    bool isKnown = element && stated.hasRank;
    for (const onnx::Dimension &dim : stated.dims) {
      isKnown &= dim.kind == onnx::Dimension::Kind::Static;
      shape.push_back(dim.size);
    }
    if (!isKnown || axis < 0 || axis > static_cast<int64_t>(shape.size())) {
      (void)n.error("has no iteration, and its body states no shape of '" +
                    stated.name + "'");
      return failure();
    }
    shape.insert(shape.begin() + axis, 0);
    result.constant = Constant(DenseElementsAttr::get(
        RankedTensorType::get(shape, element), ArrayRef<Attribute>()));
    return result;
  }
  SmallVector<Value> values;
  for (const Entry &turn : turns) {
    Value value = n.valueOf(turn);
    if (!value) {
      (void)n.error("stacks what is no tensor");
      return failure();
    }
    values.push_back(value);
  }
  auto normal = n.normalizeAxis(
      axis, static_cast<int64_t>(n.shape(values.front()).size()) + 1);
  if (failed(normal))
    return failure();
  Value value = n.join(values, *normal, /*isNew=*/true);
  if (!value)
    return failure();
  result = n.entryOf(value);
  result.narrow = turns.front().narrow;
  return result;
}

Entry scalar(NodeImporter &n, Type type, int64_t value) {
  Entry entry;
  entry.constant = Constant(DenseElementsAttr::get(
      RankedTensorType::get({}, type),
      Attribute(NodeImporter::integerAttribute(type, value))));
  return entry;
}

LogicalResult loop(NodeImporter &n) {
  const onnx::Graph *body = subgraph(n, "body");
  if (!body)
    return failure();
  Builder &b = n.getBuilder();
  bool hasCount = n.hasInput(0), hasCondition = n.hasInput(1);
  if (!hasCount && !hasCondition)
    return n.error("has neither a number of iterations nor a condition");
  int64_t most = hasCount ? *n.known(0).integer() : INT64_MAX;
  bool goesOn = !hasCondition || *n.known(1).integer() != 0;
  size_t carried = n.numInputs() < 2 ? 0 : n.numInputs() - 2;
  if (body->outputs.size() < carried + 1 ||
      n.getNode().outputs.size() > body->outputs.size() - 1)
    return n.error("has a body with " + llvm::Twine(body->outputs.size()) +
                   " outputs");
  std::vector<Entry> state;
  for (size_t index = 0; index < carried; ++index)
    state.push_back(n.input(index + 2));
  size_t scans = body->outputs.size() - 1 - carried;
  std::vector<std::vector<Entry>> turns(scans);
  for (int64_t turn = 0; turn < most && goesOn; ++turn) {
    std::vector<Entry> arguments = {scalar(n, b.getI64Type(), turn),
                                    scalar(n, b.getI1Type(), 1)};
    llvm::append_range(arguments, state);
    auto results = n.importGraph(*body, arguments);
    if (failed(results))
      return failure();
    if (hasCondition) {
      auto next = results->front().constant.integer();
      if (failed(next))
        return n.error("goes on for as long as the data says; the condition "
                       "must be known at compile time",
                       n.howToKnow());
      goesOn = *next != 0;
    }
    for (size_t index = 0; index < carried; ++index)
      state[index] = (*results)[index + 1];
    for (size_t index = 0; index < scans; ++index)
      turns[index].push_back((*results)[index + 1 + carried]);
  }
  for (size_t index = 0; index < n.getNode().outputs.size(); ++index) {
    if (!n.wantsOutput(index))
      continue;
    if (index < carried) {
      n.setOutput(index, state[index]);
      continue;
    }
    auto all = stacked(n, turns[index - carried], 0, body->outputs[index + 1]);
    if (failed(all))
      return failure();
    n.setOutput(index, *all);
  }
  return success();
}

/// The list that an attribute is, of `count` numbers; zeros if it is not there.
FailureOr<SmallVector<int64_t>> listOf(NodeImporter &n, StringRef name,
                                       size_t count) {
  SmallVector<int64_t> zeros(count, 0);
  SmallVector<int64_t> list = n.attribute(name, ArrayRef<int64_t>(zeros));
  if (list.size() == count)
    return list;
  return n.error("attribute " + name + " has " + llvm::Twine(list.size()) +
                 " numbers for " + llvm::Twine(count) + " values");
}

LogicalResult scan(NodeImporter &n) {
  if (n.opset() < 9)
    return n.error("is that of opset 8, which scans batches; it is supported "
                   "from opset 9 on");
  const onnx::Graph *body = subgraph(n, "body");
  if (!body)
    return failure();
  int64_t given = n.attribute("num_scan_inputs", int64_t{0});
  if (given < 1 || given > static_cast<int64_t>(n.numInputs()))
    return n.error("attribute num_scan_inputs is " + llvm::Twine(given));
  size_t scanned = given, carried = n.numInputs() - scanned;
  if (body->outputs.size() < carried ||
      n.getNode().outputs.size() > body->outputs.size())
    return n.error("has a body with " + llvm::Twine(body->outputs.size()) +
                   " outputs");
  size_t made = body->outputs.size() - carried;
  auto axes = listOf(n, "scan_input_axes", scanned);
  auto backward = listOf(n, "scan_input_directions", scanned);
  auto outputAxes = listOf(n, "scan_output_axes", made);
  auto outputBackward = listOf(n, "scan_output_directions", made);
  if (failed(axes) || failed(backward) || failed(outputAxes) ||
      failed(outputBackward))
    return failure();
  std::vector<Entry> state;
  for (size_t index = 0; index < carried; ++index)
    state.push_back(n.input(index));
  SmallVector<Value> inputs;
  int64_t length = -1;
  for (size_t index = 0; index < scanned; ++index) {
    Value value = n.tensor(carried + index);
    if (!value)
      return failure();
    auto axis = n.normalizeAxis((*axes)[index], n.shape(value).size());
    if (failed(axis))
      return failure();
    (*axes)[index] = *axis;
    int64_t size = n.shape(value)[*axis];
    if (length >= 0 && size != length)
      return n.error("scans axes of sizes " + llvm::Twine(length) + " and " +
                     llvm::Twine(size));
    length = size;
    inputs.push_back(value);
  }
  std::vector<std::vector<Entry>> turns(made);
  for (int64_t turn = 0; turn < length; ++turn) {
    std::vector<Entry> arguments = state;
    for (auto [index, input] : llvm::enumerate(inputs)) {
      int64_t at = (*backward)[index] != 0 ? length - 1 - turn : turn;
      int64_t axis = (*axes)[index];
      SmallVector<int64_t> shape(n.shape(input));
      shape.erase(shape.begin() + axis);
      Entry part =
          n.entryOf(n.reshape(n.slice(input, axis, at, at + 1), shape));
      part.narrow = n.input(carried + index).narrow;
      arguments.push_back(part);
    }
    auto results = n.importGraph(*body, arguments);
    if (failed(results))
      return failure();
    for (size_t index = 0; index < carried; ++index)
      state[index] = (*results)[index];
    for (size_t index = 0; index < made; ++index)
      turns[index].push_back((*results)[carried + index]);
  }
  for (size_t index = 0; index < n.getNode().outputs.size(); ++index) {
    if (!n.wantsOutput(index))
      continue;
    if (index < carried) {
      n.setOutput(index, state[index]);
      continue;
    }
    size_t which = index - carried;
    if ((*outputBackward)[which] != 0)
      std::reverse(turns[which].begin(), turns[which].end());
    auto all =
        stacked(n, turns[which], (*outputAxes)[which], body->outputs[index]);
    if (failed(all))
      return failure();
    n.setOutput(index, *all);
  }
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::controlFlowOperators() {
  static const ImportedOperator entries[] = {
      {.name = "If",
       .handler = branch,
       .types = movedTypes,
       .note = "both branches are computed where `cond` depends on the data; "
               "their results have one shape then"},
      {.name = "Loop",
       .handler = loop,
       .types = movedTypes,
       .known = {{"M", KnownInput::Scalar}, {"cond", KnownInput::Scalar}},
       .note = "unrolled, up to 131072 nodes"},
      {.name = "Scan",
       .handler = scan,
       .types = movedTypes,
       .note = "from opset 9; unrolled, up to 131072 nodes"},
  };
  return entries;
}
