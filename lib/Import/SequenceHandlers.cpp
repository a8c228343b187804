//===- SequenceHandlers.cpp - ONNX sequences and optional values ----------===//
//
// The length of a sequence, and whether an optional value is there, is known at
// import: their operators make no operations of nn.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"
#include "Pieces.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

FailureOr<int64_t> pp::sumOfPieces(NodeImporter &n, ArrayRef<int64_t> sizes) {
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > maxElements) {
      (void)n.error("has a piece of size " + llvm::Twine(size));
      return failure();
    }
    sum += size;
  }
  return sum;
}

namespace {

/// The most pieces of a tensor: each becomes an operation.
constexpr int64_t maxPieces = 1 << 16;

LogicalResult splitToSequence(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto axis =
      n.normalizeAxis(n.attribute("axis", int64_t{0}), n.shape(x).size());
  if (failed(axis))
    return failure();
  int64_t total = n.shape(x)[*axis];
  bool keepAxis = n.attribute("keepdims", int64_t{1}) != 0 || n.hasInput(1);
  SmallVector<int64_t> sizes;
  if (n.hasInput(1)) {
    auto given = n.integers("split", 1);
    if (failed(given))
      return failure();
    if (n.known(1).getShape().empty()) {
      int64_t each = given->front();
      if (each < 1)
        return n.error("has pieces of size " + llvm::Twine(each));
      if (total / each >= maxPieces)
        return n.error("splits " + llvm::Twine(total) + " into pieces of " +
                       llvm::Twine(each) + "; at most " +
                       llvm::Twine(maxPieces) + " pieces are supported");
      for (int64_t left = total; left > 0; left -= each)
        sizes.push_back(std::min(left, each));
    } else {
      sizes = *given;
      auto sum = sumOfPieces(n, sizes);
      if (failed(sum))
        return failure();
      if (*sum != total)
        return n.error("splits " + llvm::Twine(total) + " into pieces of " +
                       llvm::Twine(*sum));
    }
  } else {
    if (total > maxPieces)
      return n.error("splits " + llvm::Twine(total) +
                     " into single pieces; "
                     "at most " +
                     llvm::Twine(maxPieces) + " are supported");
    sizes.assign(total, 1);
  }
  Entry result;
  result.isSequence = true;
  int64_t start = 0;
  for (int64_t size : sizes) {
    Entry piece;
    piece.value = n.slice(x, *axis, start, start + size);
    if (!keepAxis) {
      SmallVector<int64_t> shape(n.shape(piece.value));
      shape.erase(shape.begin() + *axis);
      piece.value = n.reshape(piece.value, shape);
    }
    result.sequence.push_back(piece);
    start += size;
  }
  n.setOutput(0, std::move(result));
  return success();
}

LogicalResult sequenceAt(NodeImporter &n) {
  const Entry &entry = n.input(0);
  if (!entry.isSequence)
    return n.error("takes an element of what is no sequence");
  int64_t length = entry.sequence.size(), position = *n.known(1).integer();
  int64_t index = position < 0 ? position + length : position;
  if (index < 0 || index >= length)
    return n.error("takes element " + llvm::Twine(position) +
                   " of a sequence of " + llvm::Twine(length));
  n.setOutput(0, Entry(entry.sequence[index]));
  return success();
}

/// The sequence that input 0 is; null, with an error, if it is none.
const Entry *sequenceOf(NodeImporter &n, size_t index = 0) {
  const Entry &entry = n.input(index);
  if (entry.isSequence)
    return &entry;
  (void)n.error("input #" + llvm::Twine(index) + " is no sequence");
  return nullptr;
}

LogicalResult sequenceConstruct(NodeImporter &n) {
  Entry result;
  result.isSequence = true;
  for (size_t index = 0; index < n.numInputs(); ++index)
    result.sequence.push_back(n.input(index));
  n.setOutput(0, std::move(result));
  return success();
}

LogicalResult sequenceEmpty(NodeImporter &n) {
  n.ignoreAttribute("dtype");
  Entry result;
  result.isSequence = true;
  n.setOutput(0, std::move(result));
  return success();
}

void setNumber(NodeImporter &n, int64_t number) {
  Builder &b = n.getBuilder();
  n.setOutput(0, Constant(DenseElementsAttr::get(
                     RankedTensorType::get({}, b.getI64Type()),
                     Attribute(b.getI64IntegerAttr(number)))));
}

LogicalResult sequenceLength(NodeImporter &n) {
  const Entry *sequence = sequenceOf(n);
  if (!sequence)
    return failure();
  setNumber(n, static_cast<int64_t>(sequence->sequence.size()));
  return success();
}

/// The position that input `index` names, counted from the front; `fallback` if
/// it is not there.
FailureOr<int64_t> readPosition(NodeImporter &n, size_t index, int64_t length,
                                int64_t last, int64_t fallback) {
  if (!n.hasInput(index))
    return fallback;
  int64_t given = *n.known(index).integer();
  int64_t position = given < 0 ? given + length : given;
  if (position < 0 || position > last)
    return n.error("names position " + llvm::Twine(given) +
                   " of a sequence of " + llvm::Twine(length));
  return position;
}

LogicalResult sequenceInsert(NodeImporter &n) {
  const Entry *sequence = sequenceOf(n);
  if (!sequence)
    return failure();
  Entry result = *sequence;
  auto length = static_cast<int64_t>(result.sequence.size());
  auto position = readPosition(n, 2, length, length, length);
  if (failed(position))
    return failure();
  result.sequence.insert(result.sequence.begin() + *position, n.input(1));
  n.setOutput(0, std::move(result));
  return success();
}

LogicalResult sequenceErase(NodeImporter &n) {
  const Entry *sequence = sequenceOf(n);
  if (!sequence)
    return failure();
  Entry result = *sequence;
  auto length = static_cast<int64_t>(result.sequence.size());
  auto position = readPosition(n, 1, length, length - 1, length - 1);
  if (failed(position))
    return failure();
  if (result.sequence.empty())
    return n.error("takes an element out of an empty sequence");
  result.sequence.erase(result.sequence.begin() + *position);
  n.setOutput(0, std::move(result));
  return success();
}

LogicalResult concatFromSequence(NodeImporter &n) {
  const Entry *sequence = sequenceOf(n);
  if (!sequence)
    return failure();
  if (sequence->sequence.empty())
    return n.error("joins the tensors of an empty sequence");
  SmallVector<Value> values;
  for (const Entry &entry : sequence->sequence) {
    Value value = n.valueOf(entry);
    if (!value)
      return n.error("joins what is no tensor");
    values.push_back(value);
  }
  SmallVector<int64_t> shape(n.shape(values[0]));
  bool stacks = n.attribute("new_axis", int64_t{0}) != 0;
  int64_t rank = static_cast<int64_t>(shape.size()) + (stacks ? 1 : 0);
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{0}), rank);
  if (failed(axis))
    return failure();
  Value result = n.join(values, *axis, stacks);
  if (!result)
    return failure();
  n.setOutput(0, result);
  return success();
}

LogicalResult sequenceMap(NodeImporter &n) {
  const onnx::Attribute *body = n.findAttribute("body");
  if (!body || body->graphs.empty())
    return n.error("has no body");
  const Entry *first = sequenceOf(n);
  if (!first)
    return failure();
  size_t length = first->sequence.size();
  SmallVector<Entry> inputs;
  for (size_t index = 0; index < n.numInputs(); ++index) {
    inputs.push_back(n.input(index));
    if (inputs.back().isSequence && inputs.back().sequence.size() != length)
      return n.error("maps sequences of different length");
  }
  std::vector<Entry> outputs(n.getNode().outputs.size());
  for (Entry &output : outputs)
    output.isSequence = true;
  for (size_t turn = 0; turn < length; ++turn) {
    SmallVector<Entry> arguments;
    for (const Entry &input : inputs)
      arguments.push_back(input.isSequence ? input.sequence[turn] : input);
    auto results = n.importGraph(body->graphs.front(), arguments);
    if (failed(results))
      return failure();
    if (results->size() < outputs.size())
      return n.error("has a body with " + llvm::Twine(results->size()) +
                     " outputs");
    for (auto [output, result] : llvm::zip(outputs, *results))
      output.sequence.push_back(result);
  }
  for (auto [index, output] : llvm::enumerate(outputs))
    n.setOutput(index, output);
  return success();
}

LogicalResult optional(NodeImporter &n) {
  n.ignoreAttribute("type");
  Entry result;
  if (n.hasInput(0))
    result = n.input(0);
  else
    result.isAbsent = true;
  n.setOutput(0, std::move(result));
  return success();
}

LogicalResult optionalHasElement(NodeImporter &n) {
  bool isThere = n.hasInput(0) && !n.input(0).isAbsent;
  Builder &b = n.getBuilder();
  n.setOutput(0, Constant(DenseElementsAttr::get(
                     RankedTensorType::get({}, b.getI1Type()), isThere)));
  return success();
}

LogicalResult optionalGetElement(NodeImporter &n) {
  if (n.input(0).isAbsent)
    return n.error("takes the value of an optional that has none");
  n.setOutput(0, Entry(n.input(0)));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::sequenceOperators() {
  static const KnownInput position = {"position", KnownInput::Scalar};
  static const ImportedOperator entries[] = {
      {.name = "ConcatFromSequence",
       .handler = concatFromSequence,
       .types = movedTypes},
      {.name = "Optional", .handler = optional, .types = movedTypes},
      {.name = "OptionalGetElement",
       .handler = optionalGetElement,
       .types = movedTypes},
      {.name = "OptionalHasElement",
       .handler = optionalHasElement,
       .types = movedTypes,
       .isDifferentiable = false},
      {.name = "SequenceAt",
       .handler = sequenceAt,
       .types = movedTypes,
       .known = {position}},
      {.name = "SequenceConstruct",
       .handler = sequenceConstruct,
       .types = movedTypes},
      {.name = "SequenceEmpty",
       .handler = sequenceEmpty,
       .types = movedTypes,
       .isDifferentiable = false},
      {.name = "SequenceErase",
       .handler = sequenceErase,
       .types = movedTypes,
       .known = {position}},
      {.name = "SequenceInsert",
       .handler = sequenceInsert,
       .types = movedTypes,
       .known = {position}},
      {.name = "SequenceLength",
       .handler = sequenceLength,
       .types = movedTypes,
       .isDifferentiable = false},
      {.name = "SequenceMap", .handler = sequenceMap, .types = movedTypes},
      {.name = "SplitToSequence",
       .handler = splitToSequence,
       .types = movedTypes,
       .known = {{"split"}},
       .note = "up to 65536 pieces"},
  };
  return entries;
}
