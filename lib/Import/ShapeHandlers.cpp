//===- ShapeHandlers.cpp - ONNX operators that move elements --------------===//

#include "NodeImporter.h"
#include "Pieces.h"
#include "pp/Import/Onnx/TorchExport.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

static LogicalResult constantNode(NodeImporter &n) {
  Builder &builder = n.getBuilder();
  auto scalar = [&](TypedAttr value) {
    return Constant(DenseElementsAttr::get(
        RankedTensorType::get({}, value.getType()), Attribute(value)));
  };
  if (auto *value = n.findAttribute("value");
      value && !value->tensors.empty()) {
    auto tensor = n.readEntry(value->tensors.front());
    if (!tensor)
      return n.error(llvm::toString(tensor.takeError()));
    n.setOutput(0, *tensor);
  } else if (auto *value = n.findAttribute("value_float")) {
    n.setOutput(0, scalar(builder.getF32FloatAttr(value->f)));
  } else if (auto *value = n.findAttribute("value_floats")) {
    auto type = RankedTensorType::get(
        static_cast<int64_t>(value->floats.size()), builder.getF32Type());
    n.setOutput(
        0, Constant(DenseElementsAttr::get(type, ArrayRef(value->floats))));
  } else if (auto *value = n.findAttribute("value_int")) {
    n.setOutput(0, scalar(builder.getI64IntegerAttr(value->i)));
  } else if (auto *value = n.findAttribute("value_ints")) {
    n.setOutput(0, Constant::list(builder, value->ints));
  } else {
    return n.error("holds no tensor of a supported kind");
  }
  return success();
}

static LogicalResult constantOfShape(NodeImporter &n) {
  Builder &builder = n.getBuilder();
  auto shape = n.integers("shape", 0);
  if (failed(shape))
    return failure();
  Attribute value = builder.getF32FloatAttr(0);
  if (auto *given = n.findAttribute("value");
      given && !given->tensors.empty()) {
    auto tensor = n.readTensor(given->tensors.front());
    if (!tensor)
      return n.error(llvm::toString(tensor.takeError()));
    if (tensor->size() != 1)
      return n.error("attribute value has " + llvm::Twine(tensor->size()) +
                     " elements; it must have one");
    value = *tensor->getElements().getValues<Attribute>().begin();
  }
  for (int64_t size : *shape)
    if (size < 0)
      return n.error("makes a tensor with an axis of size " +
                     llvm::Twine(size));
  if (isTooLarge(*shape))
    return n.error("makes a tensor of more than " + llvm::Twine(maxElements) +
                   " elements");
  auto type = RankedTensorType::get(*shape, cast<TypedAttr>(value).getType());
  Constant filled(DenseElementsAttr::get(type, value));
  if (filled.size() > maxConstantElements)
    n.setOutput(0, n.constant(filled));
  else
    n.setOutput(0, filled);
  return success();
}

/// start + index * step. The product may be larger than the sum, and wraps
/// around and back.
static int64_t atStep(int64_t start, int64_t index, int64_t step) {
  return static_cast<int64_t>(static_cast<uint64_t>(start) +
                              static_cast<uint64_t>(index) *
                                  static_cast<uint64_t>(step));
}

static LogicalResult range(NodeImporter &n) {
  Constant start = n.known(0), limit = n.known(1), step = n.known(2);
  double by = *step.number();
  double count = std::ceil((*limit.number() - *start.number()) / by);
  if (by == 0 || std::isnan(count))
    return n.error("counts in steps of " + llvm::Twine(std::to_string(by)));
  if (count > static_cast<double>(maxConstantElements))
    return n.error("counts to more than " + llvm::Twine(maxConstantElements) +
                   " elements");
  auto elements = static_cast<int64_t>(std::max(0.0, count));
  Type element = start.getElementType();
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < elements; ++i)
    values.push_back(
        start.isFloat()
            ? Attribute(FloatAttr::get(
                  element, *start.number() + static_cast<double>(i) * by))
            : IntegerAttr::get(element,
                               atStep(*start.integer(), i, *step.integer())));
  n.setOutput(0, Constant(DenseElementsAttr::get(
                     RankedTensorType::get(elements, element), values)));
  return success();
}

static LogicalResult shapeOf(NodeImporter &n) {
  const Entry &entry = n.input(0);
  ArrayRef<int64_t> shape = NodeImporter::shape(entry);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t start = clamp(n.attribute("start", int64_t{0}));
  int64_t end = std::max(start, clamp(n.attribute("end", rank)));
  n.setOutput(0,
              Constant::list(n.getBuilder(), shape.slice(start, end - start)));
  return success();
}

static LogicalResult reshape(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto wanted = n.integers("shape", 1);
  if (failed(wanted))
    return failure();
  ArrayRef<int64_t> from = n.shape(x);
  bool allowZero = n.attribute("allowzero", int64_t{0}) != 0;
  int64_t known = 1, unknown = -1;
  SmallVector<int64_t> shape(*wanted);
  for (auto [axis, size] : llvm::enumerate(shape)) {
    if (size == 0 && !allowZero) {
      if (axis >= from.size())
        return n.error("keeps axis " + llvm::Twine(axis) +
                       " of a tensor of rank " + llvm::Twine(from.size()));
      size = from[axis];
    }
    if (size == -1) {
      if (unknown >= 0)
        return n.error("has -1 for two axes of the new shape");
      unknown = axis;
    } else if (size < 0) {
      return n.error("has size " + llvm::Twine(size) + " in the new shape");
    } else if (llvm::MulOverflow(known, size, known)) {
      return n.error("the new shape has too many elements");
    }
  }
  int64_t elements = n.type(x).getNumElements();
  if (unknown >= 0 && known != 0 && elements % known == 0)
    shape[unknown] = elements / known;
  else if (unknown >= 0 || known != elements)
    return n.error("turns " + llvm::Twine(elements) +
                   " elements into a shape for " +
                   (unknown >= 0 ? "a multiple of " : "") + llvm::Twine(known));
  n.setOutput(0, n.reshape(x, shape));
  return success();
}

static LogicalResult flatten(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> from = n.shape(x);
  int64_t rank = from.size(), axis = n.attribute("axis", int64_t{1});
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank)
    return n.error("attribute axis is outside of the tensor");
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < rank; ++i)
    (i < axis ? rows : columns) *= from[i];
  n.setOutput(0, n.reshape(x, {rows, columns}));
  return success();
}

static LogicalResult transpose(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  int64_t rank = n.shape(x).size();
  SmallVector<int64_t> reversed;
  for (int64_t axis = rank - 1; axis >= 0; --axis)
    reversed.push_back(axis);
  SmallVector<int64_t> permutation = n.attribute("perm", reversed);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, rank)))
    return n.error("attribute perm does not name each of the " +
                   llvm::Twine(rank) + " axes once");
  n.setOutput(0, n.transpose(x, permutation));
  return success();
}

static LogicalResult squeeze(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> from = n.shape(x);
  SmallVector<int64_t> all;
  for (auto [axis, size] : llvm::enumerate(from))
    if (size == 1)
      all.push_back(axis);
  auto axes = n.integers("axes", 1, all);
  if (failed(axes))
    return failure();
  SmallVector<bool> removed(from.size(), false);
  for (int64_t given : *axes) {
    auto axis = n.normalizeAxis(given, from.size());
    if (failed(axis))
      return failure();
    if (from[*axis] != 1)
      return n.error("removes axis " + llvm::Twine(*axis) +
                     ", which has size " + llvm::Twine(from[*axis]));
    removed[*axis] = true;
  }
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(from))
    if (!removed[axis])
      shape.push_back(size);
  n.setOutput(0, n.reshape(x, shape));
  return success();
}

static LogicalResult unsqueeze(NodeImporter &n) {
  Value x = n.tensor(0);
  auto axes = n.integers("axes", 1);
  if (!x || failed(axes))
    return failure();
  int64_t rank = n.shape(x).size() + axes->size();
  auto normal = n.normalizeAxes(*axes, rank);
  if (failed(normal))
    return failure();
  SmallVector<bool> inserted(rank, false);
  for (int64_t axis : *normal)
    inserted[axis] = true;
  SmallVector<int64_t> shape;
  auto next = n.shape(x).begin();
  for (int64_t axis = 0; axis < rank; ++axis)
    shape.push_back(inserted[axis] ? 1 : *next++);
  n.setOutput(0, n.reshape(x, shape));
  return success();
}

static LogicalResult concat(NodeImporter &n) {
  SmallVector<Value> values;
  for (size_t index = 0; index < n.numInputs(); ++index) {
    values.push_back(n.tensor(index));
    if (!values.back())
      return failure();
  }
  if (values.empty())
    return n.error("has no inputs");
  SmallVector<int64_t> shape(n.shape(values[0]));
  // Only before opset 4 may the axis be left out.
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{1}), shape.size());
  if (failed(axis))
    return failure();
  for (Value value : ArrayRef(values).drop_front()) {
    SmallVector<int64_t> expected(shape), actual(n.shape(value));
    if (expected.size() != actual.size())
      return n.error("joins tensors of different rank");
    expected[*axis] = actual[*axis];
    if (expected != actual ||
        n.type(value).getElementType() != n.type(values[0]).getElementType())
      return n.error("joins tensors that differ on another axis than " +
                     llvm::Twine(*axis));
  }
  // Nothing of an empty tensor is in the result.
  Value first = values[0];
  llvm::erase_if(values,
                 [&](Value value) { return n.shape(value)[*axis] == 0; });
  if (values.empty())
    values.push_back(first);
  if (values.size() == 1)
    n.setOutput(0, values[0]);
  else
    n.setOutput(0, Value(n.make<ConcatOp>(values, *axis)));
  return success();
}

/// The sizes of the pieces of a Split.
static FailureOr<SmallVector<int64_t>>
splitSizes(NodeImporter &n, int64_t total, size_t pieces, bool hasSizes) {
  if (hasSizes) {
    auto sizes = n.integers("split", 1);
    if (failed(sizes))
      return failure();
    auto sum = sumOfPieces(n, *sizes);
    if (failed(sum))
      return failure();
    if (*sum != total || sizes->size() != pieces) {
      (void)n.error("splits " + llvm::Twine(total) + " into " +
                    llvm::Twine(sizes->size()) + " pieces of together " +
                    llvm::Twine(*sum));
      return failure();
    }
    return *sizes;
  }
  int64_t each = pieces ? (total + pieces - 1) / pieces : 0;
  SmallVector<int64_t> sizes;
  for (int64_t left = total; left > 0; left -= each)
    sizes.push_back(std::min(left, each));
  if (sizes.size() != pieces) {
    (void)n.error("splits " + llvm::Twine(total) + " into " +
                  llvm::Twine(pieces) + " pieces");
    return failure();
  }
  return sizes;
}

static LogicalResult split(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto axis =
      n.normalizeAxis(n.attribute("axis", int64_t{0}), n.shape(x).size());
  if (failed(axis))
    return failure();
  bool hasSizes = n.findAttribute("split") || n.hasInput(1);
  int64_t pieces = n.getNode().outputs.size();
  if (int64_t given = n.attribute("num_outputs", pieces); given != pieces)
    return n.error("attribute num_outputs is " + llvm::Twine(given) +
                   ", but the node has " + llvm::Twine(pieces) + " outputs");
  auto sizes = splitSizes(n, n.shape(x)[*axis], pieces, hasSizes);
  if (failed(sizes))
    return failure();
  int64_t start = 0;
  for (auto [index, size] : llvm::enumerate(*sizes)) {
    n.setOutput(index, n.slice(x, *axis, start, start + size));
    start += size;
  }
  return success();
}

/// The positions of an axis of `size` that a slice with a negative step takes.
static SmallVector<int64_t> backwardPositions(int64_t start, int64_t end,
                                              int64_t step, int64_t size) {
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(
        at < 0 ? std::max<int64_t>(at, -size - 1) + size : at, -1, size - 1);
  };
  SmallVector<int64_t> positions;
  // A step may be the lowest number.
  step = std::max(step, -size - 1);
  for (int64_t at = clamp(start); at > clamp(end); at += step)
    positions.push_back(at);
  return positions;
}

static LogicalResult slice(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> from = n.shape(x);
  auto starts = n.integers("starts", 1), ends = n.integers("ends", 2);
  if (failed(starts) || failed(ends))
    return failure();
  SmallVector<int64_t> firstAxes, ones(starts->size(), 1);
  for (size_t axis = 0; axis < starts->size(); ++axis)
    firstAxes.push_back(axis);
  auto axes = n.integers("axes", 3, firstAxes);
  auto steps = n.integers("steps", 4, ones);
  if (failed(axes) || failed(steps))
    return failure();
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps->size() != starts->size())
    return n.error("has starts, ends, axes and steps of different length");
  SmallVector<int64_t> low(from.size(), 0), high(from), stride(from.size(), 1);
  auto normal = n.normalizeAxes(*axes, from.size());
  if (failed(normal))
    return failure();
  SmallVector<std::pair<int64_t, SmallVector<int64_t>>> backward;
  for (auto [axis, start, end, step] :
       llvm::zip(*normal, *starts, *ends, *steps)) {
    if (step == 0)
      return n.error("has steps of 0");
    int64_t size = from[axis];
    auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(
          at < 0 ? std::max<int64_t>(at, -size) + size : at, 0, size);
    };
    if (step < 0) {
      backward.push_back({axis, backwardPositions(start, end, step, size)});
      continue;
    }
    low[axis] = clamp(start);
    high[axis] = std::max(clamp(end), low[axis]);
    stride[axis] = step;
  }
  SmallVector<int64_t> shape;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    int64_t taken = high[axis] - low[axis];
    shape.push_back(taken == 0 ? 0 : (taken - 1) / stride[axis] + 1);
  }
  if (ArrayRef<int64_t>(shape) != from)
    x = n.make<SliceOp>(x, low, high, stride);
  for (const auto &[axis, positions] : backward) {
    if (static_cast<int64_t>(positions.size()) > maxConstantElements)
      return n.error("walks backwards over more than " +
                     llvm::Twine(maxConstantElements) + " elements");
    x = n.take(x, axis, positions);
  }
  n.setOutput(0, x);
  return success();
}

/// The row of a table that is not trained: what the user says, or the file.
static std::optional<int64_t> untrainedRow(NodeImporter &n, int64_t axis,
                                           int64_t size) {
  if (axis != 0 || !n.isTraining())
    return std::nullopt;
  const auto &given = n.getOptions().paddingIndices;
  auto row = given.find(n.getNode().inputs[0]);
  auto found = row != given.end() ? std::optional(row->second)
                                  : onnx::findPaddingIndex(n.getNode());
  return found && *found < size ? found : std::nullopt;
}

static LogicalResult gather(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> from = n.shape(x);
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{0}), from.size());
  if (failed(axis))
    return failure();
  int64_t size = from[*axis];
  std::optional<int64_t> untrained = untrainedRow(n, *axis, size);
  if (n.isTraining() && onnx::scalesByFrequency(n.getNode()))
    n.warning("gradients of this embedding are not scaled by the frequency of "
              "its rows, as scale_grad_by_freq of the module says");
  Value indices;
  if (Constant known = n.known(1)) {
    // Exporters write a negative index for "the last".
    SmallVector<Attribute> positive;
    Type element = known.getElementType();
    for (int64_t i = 0; i < known.size(); ++i) {
      int64_t index = *known.integer(i);
      if (index < -size || index >= size)
        return n.error("index " + llvm::Twine(index) + " is outside of axis " +
                       llvm::Twine(*axis) + ", which has size " +
                       llvm::Twine(size));
      positive.push_back(
          IntegerAttr::get(element, index < 0 ? index + size : index));
    }
    if (positive.size() == 1 && !untrained) {
      int64_t only = cast<IntegerAttr>(positive.front()).getInt();
      SmallVector<int64_t> shape(from.take_front(*axis));
      llvm::append_range(shape, known.getShape());
      shape.append(from.begin() + *axis + 1, from.end());
      n.setOutput(0, n.reshape(n.slice(x, *axis, only, only + 1), shape));
      return success();
    }
    indices = n.constant(Constant(
        DenseElementsAttr::get(known.getElements().getType(), positive)));
  } else {
    indices = n.tensor(1);
  }
  if (!indices)
    return failure();
  auto op = n.make<GatherOp>(x, indices, *axis);
  if (untrained)
    op.setUntrained(*untrained);
  n.setOutput(0, Value(op));
  return success();
}

static LogicalResult expand(NodeImporter &n) {
  Value x = n.tensor(0);
  auto wanted = n.integers("shape", 1);
  if (!x || failed(wanted))
    return failure();
  SmallVector<int64_t> shape(*wanted), from(n.shape(x));
  size_t rank = std::max(shape.size(), from.size());
  shape.insert(shape.begin(), rank - shape.size(), 1);
  from.insert(from.begin(), rank - from.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (shape[axis] < 0 ||
        (shape[axis] != from[axis] && shape[axis] != 1 && from[axis] != 1))
      return n.error("cannot expand axis " + llvm::Twine(axis) + " from " +
                     llvm::Twine(from[axis]) + " to " +
                     llvm::Twine(shape[axis]));
    if (shape[axis] == 1)
      shape[axis] = from[axis];
  }
  n.setOutput(0, n.broadcastTo(x, shape));
  return success();
}

static LogicalResult trilu(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto type = n.type(x);
  int64_t rank = type.getRank(), diagonal = 0;
  if (rank < 2)
    return n.error("needs a tensor of rank 2 or more");
  if (n.hasInput(1))
    diagonal = *n.known(1).integer();
  bool upper = n.attribute("upper", int64_t{1}) != 0;
  auto counts = type.clone(n.getBuilder().getI64Type());
  Value row = n.make<IotaOp>(counts, rank - 2);
  Value column = n.make<IotaOp>(counts, rank - 1);
  Value shift = n.make<ConstantOp>(DenseElementsAttr::get(
      counts, n.getBuilder().getI64IntegerAttr(diagonal)));
  Value border = n.make<AddOp>(row, shift);
  Value keep = n.make<CompareOp>(upper ? Comparison::ge : Comparison::le,
                                 column, border);
  Value zero = n.make<ConstantOp>(cast<ElementsAttr>(DenseElementsAttr::get(
      type, n.getBuilder().getZeroAttr(type.getElementType()))));
  n.setOutput(0, Value(n.make<SelectOp>(keep, x, zero)));
  return success();
}

ArrayRef<ImportedOperator> pp::shapeOperators() {
  static const KnownInput axes = {"axes"};
  static const ImportedOperator entries[] = {
      {.name = "Concat", .handler = concat, .types = movedTypes},
      {.name = "Constant",
       .handler = constantNode,
       .isDifferentiable = false,
       .note = "no strings, no sparse tensors"},
      {.name = "ConstantOfShape",
       .handler = constantOfShape,
       .isDifferentiable = false,
       .known = {{"input"}}},
      {.name = "Expand",
       .handler = expand,
       .types = movedTypes,
       .known = {{"shape"}}},
      {.name = "Flatten", .handler = flatten, .types = movedTypes},
      {.name = "Gather", .handler = gather, .types = movedTypes},
      {.name = "Range",
       .handler = range,
       .isDifferentiable = false,
       .known = {{"start", KnownInput::Scalar},
                 {"limit", KnownInput::Scalar},
                 {"delta", KnownInput::Scalar}},
       .note = "up to 65536 elements"},
      {.name = "Reshape",
       .handler = reshape,
       .types = movedTypes,
       .known = {{"shape"}}},
      {.name = "Shape", .handler = shapeOf, .isDifferentiable = false},
      {.name = "Slice",
       .handler = slice,
       .types = movedTypes,
       .known = {{"starts"}, {"ends"}, axes, {"steps"}}},
      {.name = "Split",
       .handler = split,
       .types = movedTypes,
       .known = {{"split"}}},
      {.name = "Squeeze",
       .handler = squeeze,
       .types = movedTypes,
       .known = {axes}},
      {.name = "Transpose", .handler = transpose, .types = movedTypes},
      {.name = "Trilu", .handler = trilu, .known = {{"k", KnownInput::Scalar}}},
      {.name = "Unsqueeze",
       .handler = unsqueeze,
       .types = movedTypes,
       .known = {axes}},
  };
  return entries;
}
