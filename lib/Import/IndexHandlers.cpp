//===- IndexHandlers.cpp - ONNX operators on indices ----------------------===//
//
// Gathers and scatters by tensors of indices, and what makes indices of
// numbers. Tuples of indices become places in the merged axes; a tuple outside
// of these gets the place behind the end, which is outside too.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Puts axis `axis` last.
SmallVector<int64_t> toTheEnd(int64_t rank, int64_t axis) {
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      permutation.push_back(i);
  permutation.push_back(axis);
  return permutation;
}

SmallVector<int64_t> inverseOf(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [to, from] : llvm::enumerate(permutation))
    inverse[from] = to;
  return inverse;
}

/// Fails with an error where an index that is known is outside of `size`.
LogicalResult checkKnownIndices(NodeImporter &n, size_t input, int64_t size) {
  Constant known = n.known(input);
  if (!known)
    return success();
  auto indices = known.integers();
  if (failed(indices))
    return success();
  for (int64_t index : *indices)
    if (index < -size || index >= size)
      return n.error("index " + llvm::Twine(index) +
                     " is outside of an axis of size " + llvm::Twine(size));
  return success();
}

/// Elements of `x` at `indices` of the last axis of both, whose other axes are
/// the same.
Value pick(NodeImporter &n, Value x, Value indices) {
  int64_t last = static_cast<int64_t>(n.shape(x).size()) - 1;
  return n.make<GatherOp>(x, indices, last, last);
}

LogicalResult gatherElements(NodeImporter &n) {
  Value x = n.tensor(0), indices = n.tensor(1);
  if (!x || !indices)
    return failure();
  int64_t rank = n.shape(x).size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{0}), rank);
  if (failed(axis))
    return failure();
  if (static_cast<int64_t>(n.shape(indices).size()) != rank)
    return n.error("has indices of rank " +
                   llvm::Twine(n.shape(indices).size()) +
                   " for a tensor of rank " + llvm::Twine(rank));
  if (failed(checkKnownIndices(n, 1, n.shape(x)[*axis])))
    return failure();
  // The indices may leave out the end of the other axes.
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = n.shape(indices)[i];
    if (i == *axis || size == n.shape(x)[i])
      continue;
    if (size > n.shape(x)[i])
      return n.error("has " + llvm::Twine(size) + " indices along axis " +
                     llvm::Twine(i) + ", which has size " +
                     llvm::Twine(n.shape(x)[i]));
    x = n.slice(x, i, 0, size);
  }
  SmallVector<int64_t> permutation = toTheEnd(rank, *axis);
  Value picked =
      pick(n, n.transpose(x, permutation), n.transpose(indices, permutation));
  n.setOutput(0, n.transpose(picked, inverseOf(permutation)));
  return success();
}

/// The places that tuples of indices, along the last axis of `indices`, name in
/// merged axes of `sizes`.
Value placesOf(NodeImporter &n, Value indices, ArrayRef<int64_t> sizes) {
  Expressions e{n};
  int64_t last = static_cast<int64_t>(n.shape(indices).size()) - 1;
  SmallVector<int64_t> shape(n.shape(indices).drop_back());
  Value places, isInside;
  for (auto [position, size] : llvm::enumerate(sizes)) {
    Value part = n.slice(indices, last, position, position + 1);
    Value index = n.reshape(part, shape);
    if (sizes.size() == 1)
      return n.folded(index);
    Value isNegative = e.compare(Comparison::lt, index, 0);
    index = e.select(isNegative, e.add(index, size), index);
    Value fits = e.both(e.compare(Comparison::ge, index, 0),
                        e.compare(Comparison::lt, index, size));
    places = places ? e.add(e.mul(places, size), index) : index;
    isInside = isInside ? e.both(isInside, fits) : fits;
  }
  Value outside = e.number(places, static_cast<double>(computeProduct(sizes)));
  return n.folded(e.select(isInside, places, outside));
}

/// Checks the indices of GatherND and ScatterND; returns the length of their
/// tuples.
FailureOr<int64_t> tupleLength(NodeImporter &n, Value x, Value indices,
                               int64_t shared) {
  ArrayRef<int64_t> shape = n.shape(indices);
  int64_t rank = n.shape(x).size();
  if (shape.empty() || shape.back() < 1 || shared + shape.back() > rank) {
    (void)n.error("has tuples of " +
                  llvm::Twine(shape.empty() ? 0 : shape.back()) +
                  " indices into a tensor of rank " + llvm::Twine(rank));
    return failure();
  }
  return shape.back();
}

/// The parts of tuples along the last axis of `indices`, each of size one.
SmallVector<Value> partsOf(NodeImporter &n, Value indices) {
  int64_t last = static_cast<int64_t>(n.shape(indices).size()) - 1;
  auto joined = indices.getDefiningOp<ConcatOp>();
  SmallVector<Value> sources = {indices}, parts;
  if (joined && static_cast<int64_t>(joined.getAxis()) == last)
    sources.assign(joined.getInputs().begin(), joined.getInputs().end());
  for (Value source : sources) {
    int64_t count = n.shape(source)[last];
    for (int64_t at = 0; at < count; ++at)
      parts.push_back(n.slice(source, last, at, at + 1));
  }
  return parts;
}

/// The axis behind the first `shared` along which `part` counts 0, 1, ... up to
/// `size`; -1 if it is known to do so along none.
int64_t countedAxis(NodeImporter &n, Value part, int64_t size, int64_t shared) {
  ArrayRef<int64_t> shape = n.shape(part);
  auto numbers = evaluate(part).integers();
  if (failed(numbers))
    return -1;
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  for (int64_t axis = shared; axis < last; ++axis) {
    int64_t within = computeProduct(shape.drop_front(axis + 1));
    bool counts = shape[axis] == size;
    for (auto [index, number] : llvm::enumerate(*numbers))
      counts &= number == static_cast<int64_t>(index) / within % size;
    if (counts)
      return axis;
  }
  return -1;
}

/// Tuples of indices into the axes of a tensor behind the first `shared`. Where
/// a part of them counts along an axis, each row there picks from its own:
/// PyTorch writes `x[arange(batch), places]` so. These axes come first, in
/// both.
struct Tuples {
  /// The axes of the tensor: shared ones, indexed ones, the others.
  SmallVector<int64_t> dataAxes;
  /// The axes of the indices but the last: shared ones, the others.
  SmallVector<int64_t> indexAxes;
  int64_t shared;
  /// The sizes of the indexed axes, and places in them when they are merged,
  /// with the axes of the indices in their order.
  SmallVector<int64_t> sizes;
  Value places;

  /// The tensor with its axes in their order and the indexed ones merged.
  Value merge(NodeImporter &n, Value data) const {
    data = n.transpose(data, dataAxes);
    ArrayRef<int64_t> shape = n.shape(data);
    SmallVector<int64_t> merged(shape.take_front(shared));
    merged.push_back(computeProduct(sizes));
    llvm::append_range(merged, shape.drop_front(shared + sizes.size()));
    return n.reshape(data, merged);
  }
  /// The axes of what is picked, or put, from those in the node's order.
  SmallVector<int64_t> pickedAxes(int64_t rank) const {
    SmallVector<int64_t> axes(indexAxes);
    for (int64_t axis = axes.size(); axis < rank; ++axis)
      axes.push_back(axis);
    return axes;
  }
};

/// Reads tuples of `length` into `data`.
Tuples readTuples(NodeImporter &n, Value data, Value indices, int64_t shared,
                  int64_t length) {
  Tuples tuples;
  SmallVector<Value> rest;
  for (int64_t axis = 0; axis < shared; ++axis) {
    tuples.dataAxes.push_back(axis);
    tuples.indexAxes.push_back(axis);
  }
  SmallVector<int64_t> indexed;
  for (auto [at, part] : llvm::enumerate(partsOf(n, indices))) {
    int64_t axis = shared + static_cast<int64_t>(at);
    int64_t along = countedAxis(n, part, n.shape(data)[axis], shared);
    if (along >= 0 && !llvm::is_contained(tuples.indexAxes, along)) {
      tuples.dataAxes.push_back(axis);
      tuples.indexAxes.push_back(along);
      continue;
    }
    indexed.push_back(axis);
    rest.push_back(part);
    tuples.sizes.push_back(n.shape(data)[axis]);
  }
  tuples.shared = tuples.dataAxes.size();
  llvm::append_range(tuples.dataAxes, indexed);
  int64_t rank = n.shape(data).size();
  for (int64_t axis = shared + length; axis < rank; ++axis)
    tuples.dataAxes.push_back(axis);
  int64_t last = static_cast<int64_t>(n.shape(indices).size()) - 1;
  for (int64_t axis = 0; axis < last; ++axis)
    if (!llvm::is_contained(tuples.indexAxes, axis))
      tuples.indexAxes.push_back(axis);

  Value places;
  if (rest.empty()) {
    // All places are the first one of an axis of its own.
    SmallVector<int64_t> shape(n.shape(indices).drop_back());
    places = n.splat(n.type(indices).clone(shape), 0);
  } else {
    places = placesOf(n, n.folded(n.join(rest, last, /*isNew=*/false)),
                      tuples.sizes);
  }
  tuples.places = n.folded(n.transpose(places, tuples.indexAxes));
  return tuples;
}

LogicalResult gatherND(NodeImporter &n) {
  Value x = n.tensor(0), indices = n.tensor(1);
  if (!x || !indices)
    return failure();
  int64_t shared = n.attribute("batch_dims", int64_t{0});
  ArrayRef<int64_t> shape = n.shape(x), table = n.shape(indices);
  if (shared < 0 || shared >= static_cast<int64_t>(table.size()) ||
      shared > static_cast<int64_t>(shape.size()) ||
      table.take_front(shared) != shape.take_front(shared))
    return n.error("has other first axes in its indices than in its data");
  auto length = tupleLength(n, x, indices, shared);
  if (failed(length))
    return failure();
  Tuples tuples = readTuples(n, x, indices, shared, *length);
  Value picked = n.make<GatherOp>(tuples.merge(n, x), tuples.places,
                                  tuples.shared, tuples.shared);
  n.setOutput(0, n.transpose(picked, inverseOf(tuples.pickedAxes(
                                         n.shape(picked).size()))));
  return success();
}

/// Puts `updates` at `places` of axis `axis`, or combines them with what is
/// there, as the node's attribute says.
Value scatter(NodeImporter &n, Value x, Value places, Value updates,
              int64_t axis, int64_t shared) {
  std::string how = n.attribute("reduction", "none");
  if (how == "none")
    return n.make<ScatterOp>(x, places, updates, axis, shared, ReductionAttr());
  if (how != "add")
    return n.make<ScatterOp>(x, places, updates, axis, shared,
                             ReductionAttr::get(n.getBuilder().getContext(),
                                                how == "max" ? Reduction::max
                                                : how == "min"
                                                    ? Reduction::min
                                                    : Reduction::product));
  Value sum = n.make<ScatterAddOp>(x.getType(), places, updates, axis, shared);
  return n.make<AddOp>(x, sum);
}

LogicalResult scatterND(NodeImporter &n) {
  Value x = n.tensor(0), indices = n.tensor(1), updates = n.tensor(2);
  if (!x || !indices || !updates)
    return failure();
  auto length = tupleLength(n, x, indices, 0);
  if (failed(length))
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  if (n.type(updates).getNumElements() == 0 &&
      n.type(indices).getNumElements() == 0) {
    n.ignoreAttribute("reduction");
    n.setOutput(0, x);
    return success();
  }
  SmallVector<int64_t> expected(n.shape(indices).drop_back());
  llvm::append_range(expected, ArrayRef(shape).drop_front(*length));
  if (n.shape(updates) != ArrayRef<int64_t>(expected))
    return n.error("has updates of another shape than its indices say");
  Tuples tuples = readTuples(n, x, indices, 0, *length);
  Value put = n.transpose(updates, tuples.pickedAxes(expected.size()));
  Value y = scatter(n, tuples.merge(n, x), tuples.places, put, tuples.shared,
                    tuples.shared);
  SmallVector<int64_t> split;
  for (int64_t axis : tuples.dataAxes)
    split.push_back(shape[axis]);
  n.setOutput(0, n.transpose(n.reshape(y, split), inverseOf(tuples.dataAxes)));
  return success();
}

/// The places that indices along axis `axis` name in the axes from `first` on,
/// when these are merged; the sizes of all axes are `shape`.
Value mergedPlaces(NodeImporter &n, Value indices, ArrayRef<int64_t> shape,
                   int64_t first, int64_t axis) {
  Expressions e{n};
  Type index = n.getBuilder().getI64Type();
  Value own = n.cast(indices, index);
  Value isNegative = e.compare(Comparison::lt, own, 0);
  own = e.select(isNegative, e.add(own, shape[axis]), own);
  Value places;
  for (int64_t i = first; i < static_cast<int64_t>(shape.size()); ++i) {
    Value at = i == axis ? own : e.iota(n.shape(indices), i);
    places = places ? e.add(e.mul(places, shape[i]), at) : at;
  }
  Value isInside = e.both(e.compare(Comparison::ge, own, 0),
                          e.compare(Comparison::lt, own, shape[axis]));
  auto end = static_cast<double>(computeProduct(shape.drop_front(first)));
  return n.folded(e.select(isInside, places, e.number(places, end)));
}

LogicalResult scatterElements(NodeImporter &n) {
  Value x = n.tensor(0), indices = n.tensor(1), updates = n.tensor(2);
  if (!x || !indices || !updates)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  int64_t rank = shape.size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{0}), rank);
  if (failed(axis))
    return failure();
  if (failed(checkKnownIndices(n, 1, shape[*axis])))
    return failure();
  SmallVector<int64_t> table(n.shape(indices));
  if (static_cast<int64_t>(table.size()) != rank ||
      n.shape(updates) != ArrayRef<int64_t>(table))
    return n.error("has indices and updates of another shape or rank");
  // Axes with an index for each row first, then those without and the node's,
  // which are merged.
  SmallVector<int64_t> permutation, merged;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != *axis && table[i] > shape[i])
      return n.error("has " + llvm::Twine(table[i]) + " indices along axis " +
                     llvm::Twine(i) + ", which has size " +
                     llvm::Twine(shape[i]));
    (i == *axis || table[i] != shape[i] ? merged : permutation).push_back(i);
  }
  int64_t shared = permutation.size();
  int64_t own = shared + (llvm::find(merged, *axis) - merged.begin());
  llvm::append_range(permutation, merged);
  x = n.transpose(x, permutation);
  indices = n.transpose(indices, permutation);
  updates = n.transpose(updates, permutation);
  SmallVector<int64_t> turned(n.shape(x));
  if (merged.size() > 1) {
    indices = mergedPlaces(n, indices, turned, shared, own);
    auto merge = [&](Value value) {
      SmallVector<int64_t> flat(n.shape(value).take_front(shared));
      flat.push_back(computeProduct(n.shape(value).drop_front(shared)));
      return n.reshape(value, flat);
    };
    x = merge(x);
    indices = merge(indices);
    updates = merge(updates);
  }
  Value y = scatter(n, x, indices, updates, shared, shared);
  n.setOutput(0, n.transpose(n.reshape(y, turned), inverseOf(permutation)));
  return success();
}

/// The place of the extremum: the first or the last of those that attain it.
/// NaN is larger and smaller than every number.
Value extremumOf(Expressions &e, Value x, int64_t axis, bool isMax,
                 bool isLast) {
  NodeImporter &n = e.n;
  SmallVector<int64_t> shape(n.shape(x));
  Value best = n.reduce(isMax ? Reduction::max : Reduction::min, x, axis,
                        /*keepAxes=*/false);
  Value wins = e.compare(Comparison::eq, x, e.spread(best, shape, axis));
  if (isa<FloatType>(n.type(x).getElementType()))
    wins = e.either(wins, e.isNaN(x));
  Value places = e.iota(shape, axis);
  Value none = e.number(places, isLast ? -1 : static_cast<double>(shape[axis]));
  return n.reduce(isLast ? Reduction::max : Reduction::min,
                  e.select(wins, places, none), axis, /*keepAxes=*/false);
}

template <bool isMax> LogicalResult argExtremum(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{0}), shape.size());
  if (failed(axis))
    return failure();
  bool isLast = n.attribute("select_last_index", int64_t{0}) != 0;
  Expressions e{n};
  Value place = extremumOf(e, x, *axis, isMax, isLast);
  shape[*axis] = 1;
  bool keep = n.attribute("keepdims", int64_t{1}) != 0;
  n.setOutput(0, keep ? n.reshape(place, shape) : place);
  return success();
}

/// 1 at the first largest element of a line, 0 elsewhere. Before opset 13 all
/// axes from `axis` on were one line.
LogicalResult hardmax(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> original(n.shape(x));
  bool flattens = n.opset() < 13;
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{flattens ? 1 : -1}),
                              original.size());
  if (failed(axis))
    return failure();
  int64_t line = *axis;
  if (flattens) {
    x = n.reshape(x, {computeProduct(ArrayRef(original).take_front(line)),
                      computeProduct(ArrayRef(original).drop_front(line))});
    line = 1;
  }
  Expressions e{n};
  SmallVector<int64_t> shape(n.shape(x));
  Value place = extremumOf(e, x, line, /*isMax=*/true, /*isLast=*/false);
  Value isThere = e.compare(Comparison::eq, e.iota(shape, line),
                            e.spread(place, shape, line));
  Value y = e.select(isThere, e.number(x, 1), e.number(x, 0));
  n.setOutput(0, n.reshape(y, original));
  return success();
}

LogicalResult topK(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  int64_t rank = n.shape(x).size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{-1}), rank);
  if (failed(axis))
    return failure();
  int64_t count = n.attribute("k", int64_t{0});
  if (n.opset() >= 10)
    count = *n.known(1).integer();
  // What is returned is in order in any case.
  n.ignoreAttribute("sorted");
  if (count < 1 || count > n.shape(x)[*axis])
    return n.error("takes " + llvm::Twine(count) + " elements of an axis of " +
                   llvm::Twine(n.shape(x)[*axis]));
  bool smallest = n.attribute("largest", int64_t{1}) == 0;
  SmallVector<int64_t> permutation = toTheEnd(rank, *axis);
  Value lines = n.transpose(x, permutation);
  SmallVector<int64_t> shape(n.shape(lines));
  shape.back() = count;
  Value places =
      n.make<TopKOp>(RankedTensorType::get(shape, n.getBuilder().getI64Type()),
                     lines, smallest);
  SmallVector<int64_t> back = inverseOf(permutation);
  if (!n.getNode().outputs.front().empty())
    n.setOutput(0, n.transpose(pick(n, lines, places), back));
  n.setOutput(1, n.transpose(places, back));
  return success();
}

LogicalResult oneHot(NodeImporter &n) {
  Value indices = n.tensor(0);
  if (!indices)
    return failure();
  auto depthNumber = n.known(1).number();
  Constant values = n.known(2);
  if (values.size() != 2)
    return n.error("has " + llvm::Twine(values.size()) +
                   " values; it must have the one off and the one on");
  auto depth = towardsZero(*depthNumber);
  if (depth < 1 || depth > maxElements)
    return n.error("has depth " + llvm::Twine(depth));
  int64_t rank = n.shape(indices).size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{-1}), rank + 1);
  if (failed(axis))
    return failure();
  Expressions e{n};
  indices = n.cast(indices, n.getBuilder().getI64Type());
  Value isNegative = e.compare(Comparison::lt, indices, 0);
  indices =
      e.select(isNegative, e.add(indices, static_cast<double>(depth)), indices);
  SmallVector<int64_t> shape(n.shape(indices));
  shape.insert(shape.begin() + *axis, depth);
  Value isThere = e.compare(Comparison::eq, e.iota(shape, *axis),
                            e.spread(indices, shape, *axis));
  auto type = RankedTensorType::get(shape, values.getElementType());
  auto filled = [&](int64_t index) -> Value {
    Attribute value = values.getElements().getValues<Attribute>()[index];
    return n.make<ConstantOp>(DenseElementsAttr::get(type, value));
  };
  n.setOutput(0, e.select(isThere, filled(1), filled(0)));
  return success();
}

LogicalResult cumSum(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto axis = n.normalizeAxis(*n.known(1).integer(), n.shape(x).size());
  if (failed(axis))
    return failure();
  n.setOutput(0, Value(n.make<CumSumOp>(
                     x, *axis, n.attribute("exclusive", int64_t{0}) != 0,
                     n.attribute("reverse", int64_t{0}) != 0)));
  return success();
}

/// `x` moved by `distance` along an axis, away from `fill`.
Value shifted(NodeImporter &n, Value x, int64_t axis, int64_t distance,
              bool isBackward, double fill) {
  int64_t size = n.shape(x)[axis];
  SmallVector<int64_t> shape(n.shape(x));
  shape[axis] = distance;
  Value filler = n.splat(n.type(x).clone(shape), fill);
  if (isBackward)
    return n.join({n.slice(x, axis, distance, size), filler}, axis, false);
  return n.join({filler, n.slice(x, axis, 0, size - distance)}, axis, false);
}

/// Products of twice as many neighbours each time.
LogicalResult cumProd(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto axis = n.normalizeAxis(*n.known(1).integer(), n.shape(x).size());
  if (failed(axis))
    return failure();
  bool isBackward = n.attribute("reverse", int64_t{0}) != 0;
  int64_t size = n.shape(x)[*axis];
  if (n.attribute("exclusive", int64_t{0}) != 0 && size > 0)
    x = shifted(n, x, *axis, 1, isBackward, 1);
  for (int64_t distance = 1; distance < size; distance *= 2)
    x = n.make<MulOp>(x, shifted(n, x, *axis, distance, isBackward, 1));
  n.setOutput(0, x);
  return success();
}

/// The axes `first` and `second` in front, the others in their order.
SmallVector<int64_t> toTheFront(int64_t rank, int64_t first, int64_t second) {
  SmallVector<int64_t> permutation = {first, second};
  for (int64_t i = 0; i < rank; ++i)
    if (i != first && i != second)
      permutation.push_back(i);
  return permutation;
}

LogicalResult reverseSequence(NodeImporter &n) {
  Value x = n.tensor(0), lengths = n.tensor(1);
  if (!x || !lengths)
    return failure();
  int64_t rank = n.shape(x).size();
  auto batch = n.normalizeAxis(n.attribute("batch_axis", int64_t{1}), rank);
  auto time = n.normalizeAxis(n.attribute("time_axis", int64_t{0}), rank);
  if (failed(batch) || failed(time))
    return failure();
  if (*batch == *time)
    return n.error("has one axis for both batch and time");
  SmallVector<int64_t> table = {n.shape(x)[*batch], n.shape(x)[*time]};
  if (n.shape(lengths) != ArrayRef<int64_t>(table[0]))
    return n.error("has lengths that are not one for each sample");
  SmallVector<int64_t> permutation = toTheFront(rank, *batch, *time);
  Value turned = n.transpose(x, permutation);
  Expressions e{n};
  Value at = e.iota(table, 1), length = e.spread(lengths, table, int64_t{1});
  Value mirrored = e.sub(e.add(length, -1), at);
  Value places =
      n.folded(e.select(e.compare(Comparison::lt, at, length), mirrored, at));
  Value y = n.make<GatherOp>(turned.getType(), turned, places, int64_t{1},
                             int64_t{1});
  n.setOutput(0, n.transpose(y, inverseOf(permutation)));
  return success();
}

/// Writes the update into each sample of a cache, from its own place on.
LogicalResult tensorScatter(NodeImporter &n) {
  Value cache = n.tensor(0), update = n.tensor(1);
  if (!cache || !update)
    return failure();
  int64_t rank = n.shape(cache).size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{-2}), rank);
  if (failed(axis))
    return failure();
  if (*axis == 0)
    return n.error("writes along the axis of samples");
  SmallVector<int64_t> fitting(n.shape(cache)), own(n.shape(update));
  int64_t size = fitting[*axis];
  if (own.size() == fitting.size())
    fitting[*axis] = own[*axis];
  if (own != fitting || own[*axis] > size)
    return n.error("has an update that does not fit its cache");
  Expressions e{n};
  SmallVector<int64_t> table = {own[0], own[*axis]};
  Value places = e.iota(table, 1);
  if (n.hasInput(2)) {
    Value starts = n.tensor(2);
    if (!starts)
      return failure();
    if (n.shape(starts) != ArrayRef<int64_t>(table[0]))
      return n.error("has places that are not one for each sample");
    places = e.add(places, e.spread(starts, table, int64_t{1}));
  }
  if (n.attribute("mode", "linear") == "circular")
    places =
        e.binary<RemOp>(places, e.number(places, static_cast<double>(size)));
  SmallVector<int64_t> permutation = toTheFront(rank, 0, *axis);
  Value turned = n.transpose(cache, permutation);
  Value y = n.make<ScatterOp>(turned.getType(), turned, n.folded(places),
                              n.transpose(update, permutation), int64_t{1},
                              int64_t{1}, ReductionAttr());
  n.setOutput(0, n.transpose(y, inverseOf(permutation)));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::indexOperators() {
  static const std::vector<Choice> reductions = {
      {"reduction", {"none", "add", "mul", "max", "min"}}};
  static const ImportedOperator entries[] = {
      {.name = "ArgMax",
       .handler = argExtremum<true>,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "ArgMin",
       .handler = argExtremum<false>,
       .types = numberTypes,
       .isDifferentiable = false},
      {.name = "CumProd",
       .handler = cumProd,
       .types = numberTypes,
       .known = {{"axis", KnownInput::Scalar}}},
      {.name = "CumSum",
       .handler = cumSum,
       .types = numberTypes,
       .known = {{"axis", KnownInput::Scalar}}},
      {.name = "GatherElements", .handler = gatherElements},
      {.name = "GatherND", .handler = gatherND},
      {.name = "Hardmax",
       .handler = hardmax,
       .types = floatTypes,
       .isDifferentiable = false},
      {.name = "OneHot",
       .handler = oneHot,
       .isDifferentiable = false,
       .known = {{"depth", KnownInput::Scalar}, {"values"}}},
      {.name = "ReverseSequence", .handler = reverseSequence},
      {.name = "Scatter", .handler = scatterElements},
      {.name = "ScatterElements",
       .handler = scatterElements,
       .choices = reductions},
      {.name = "ScatterND", .handler = scatterND, .choices = reductions},
      {.name = "TensorScatter",
       .handler = tensorScatter,
       .choices = {{"mode", {"linear", "circular"}}}},
      {.name = "TopK",
       .handler = topK,
       .types = numberTypes,
       .known = {{"K", KnownInput::Scalar}}},
  };
  return entries;
}
