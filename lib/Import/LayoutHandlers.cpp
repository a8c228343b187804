//===- LayoutHandlers.cpp - ONNX operators that arrange elements ----------===//
//
// Tile, Pad, and what moves elements between channels and places.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Repeats whole axes: a broadcast to new axes before the old ones, which a
/// reshape merges.
Value tiled(NodeImporter &n, Value x, ArrayRef<int64_t> repeats) {
  SmallVector<int64_t> wide, kept, shape;
  for (auto [size, count] : llvm::zip(n.shape(x), repeats)) {
    if (count != 1)
      wide.push_back(count);
    kept.push_back(wide.size());
    wide.push_back(size);
    shape.push_back(size * count);
  }
  if (wide.size() == shape.size())
    return x;
  return n.reshape(n.make<BroadcastOp>(n.type(x).clone(wide), x, kept), shape);
}

LogicalResult tile(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> repeats;
  int64_t rank = n.shape(x).size();
  if (n.opset() < 6) {
    // How often, and along which axis.
    auto axis =
        n.normalizeAxis(towardsZero(n.known(2).number().value_or(0)), rank);
    if (failed(axis))
      return failure();
    repeats.assign(rank, 1);
    repeats[*axis] = towardsZero(n.known(1).number().value_or(0));
  } else {
    auto given = n.integers("repeats", 1);
    if (failed(given))
      return failure();
    repeats = *given;
  }
  if (static_cast<int64_t>(repeats.size()) != rank)
    return n.error("has " + llvm::Twine(repeats.size()) +
                   " repetitions for a tensor of rank " + llvm::Twine(rank));
  for (int64_t count : repeats)
    if (count < (n.known(0) ? 0 : 1) || count > maxElements)
      return n.error("repeats an axis " + llvm::Twine(count) + " times");
  SmallVector<int64_t> shape(n.shape(x));
  for (auto [size, count] : llvm::zip(shape, repeats))
    if (llvm::MulOverflow(size, count, size))
      return n.error("repeats an axis " + llvm::Twine(count) + " times");
  if (isTooLarge(shape))
    return n.error("makes a tensor of more than " + llvm::Twine(maxElements) +
                   " elements");
  n.setOutput(0, tiled(n, x, repeats));
  return success();
}

/// The positions of an axis of `size` that padding of it by `low` and `high`
/// shows.
SmallVector<int64_t> paddedPositions(StringRef mode, int64_t size, int64_t low,
                                     int64_t high) {
  SmallVector<int64_t> positions;
  // A mirror repeats after all elements but the ends were seen twice.
  int64_t period =
      mode == "reflect" ? std::max<int64_t>(1, 2 * (size - 1)) : size;
  for (int64_t i = -low; i < size + high; ++i) {
    if (mode == "edge") {
      positions.push_back(std::clamp<int64_t>(i, 0, size - 1));
      continue;
    }
    int64_t place = (i % period + period) % period;
    positions.push_back(place < size ? place : period - place);
  }
  return positions;
}

/// A constant around the elements of an axis.
Value padAxis(NodeImporter &n, Value x, int64_t axis, int64_t low, int64_t high,
              double value) {
  SmallVector<Value> parts;
  auto addPart = [&](int64_t size) {
    SmallVector<int64_t> shape(n.shape(x));
    shape[axis] = size;
    if (size > 0)
      parts.push_back(n.splat(n.type(x).clone(shape), value));
  };
  addPart(low);
  parts.push_back(x);
  addPart(high);
  return n.make<ConcatOp>(parts, axis);
}

/// Surrounds `x` by `value`, or by its own elements, as `mode` says.
Value padded(NodeImporter &n, Value x, StringRef mode, ArrayRef<int64_t> low,
             ArrayRef<int64_t> high, double value) {
  SmallVector<int64_t> shape(n.shape(x));
  bool isFloat = isa<FloatType>(n.type(x).getElementType());
  if (mode != "constant" || !isFloat) {
    for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
      if (low[axis] == 0 && high[axis] == 0)
        continue;
      x = mode == "constant" ? padAxis(n, x, axis, low[axis], high[axis], value)
                             : n.take(x, axis,
                                      paddedPositions(mode, shape[axis],
                                                      low[axis], high[axis]));
    }
    return x;
  }
  SmallVector<int64_t> none(shape.size(), 0);
  if (low == ArrayRef(none) && high == ArrayRef(none))
    return x;
  return n.make<PadOp>(x, low, high, none, llvm::APFloat(value));
}

LogicalResult pad(NodeImporter &n) {
  Value x = n.tensor(0);
  // "pads" was called "paddings" in the first opset.
  auto pads = n.integers(n.opset() < 2 ? "paddings" : "pads", 1);
  if (!x || failed(pads))
    return failure();
  int64_t rank = n.shape(x).size();
  SmallVector<int64_t> axes;
  if (n.hasInput(3)) {
    auto given = n.integers("axes", 3);
    if (failed(given))
      return failure();
    auto normal = n.normalizeAxes(*given, rank);
    if (failed(normal))
      return failure();
    axes = *normal;
  } else {
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  }
  if (pads->size() != 2 * axes.size())
    return n.error("has " + llvm::Twine(pads->size()) + " paddings for " +
                   llvm::Twine(axes.size()) + " axes");
  std::string mode = n.attribute("mode", "constant");
  double value = n.attribute("value", 0.0);
  if (n.hasInput(2))
    value = *n.known(2).number();
  SmallVector<int64_t> low(rank, 0), high(rank, 0), shape(n.shape(x));
  for (auto [index, axis] : llvm::enumerate(axes)) {
    low[axis] = (*pads)[index];
    high[axis] = (*pads)[index + axes.size()];
    if (std::max(low[axis], high[axis]) > maxElements ||
        std::min(low[axis], high[axis]) < -maxElements)
      return n.error("pads axis " + llvm::Twine(axis) + " with more than " +
                     llvm::Twine(maxElements) + " elements");
    // A negative padding takes elements away.
    int64_t start = std::max<int64_t>(0, -low[axis]);
    int64_t end = shape[axis] - std::max<int64_t>(0, -high[axis]);
    if (end <= start)
      return n.error("takes away all elements of axis " + llvm::Twine(axis));
    if (end - start < shape[axis])
      x = n.slice(x, axis, start, end);
    low[axis] = std::max<int64_t>(0, low[axis]);
    high[axis] = std::max<int64_t>(0, high[axis]);
    shape[axis] = end - start + low[axis] + high[axis];
  }
  if (isTooLarge(shape))
    return n.error("makes a tensor of more than " + llvm::Twine(maxElements) +
                   " elements");
  if (mode != "constant")
    for (int64_t axis = 0; axis < rank; ++axis)
      if (low[axis] + high[axis] > maxConstantElements)
        return n.error("pads axis " + llvm::Twine(axis) + " with more than " +
                       llvm::Twine(maxConstantElements) +
                       " of its own elements");
  // Truth values as numbers: what pads them is one.
  Type element = n.type(x).getElementType();
  if (element.isInteger(1))
    x = n.cast(x, n.getBuilder().getI32Type());
  n.setOutput(0, n.cast(padded(n, x, mode, low, high, value), element));
  return success();
}

/// Images, and the size of the blocks that move between space and channels.
struct BlockedImages {
  Value x;
  int64_t samples, channels, height, width, block;
  bool isDepthFirst;
};

/// Fails with an error.
FailureOr<BlockedImages> readBlockedImages(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> shape = n.shape(x);
  if (shape.size() != 4) {
    (void)n.error("has an input of rank " + llvm::Twine(shape.size()) +
                  "; it must be 4");
    return failure();
  }
  int64_t block = n.attribute("blocksize", int64_t{0});
  if (block < 1 || block > (1 << 15)) {
    (void)n.error("has blocks of size " + llvm::Twine(block));
    return failure();
  }
  return BlockedImages{x,
                       shape[0],
                       shape[1],
                       shape[2],
                       shape[3],
                       block,
                       n.attribute("mode", "DCR") == "DCR"};
}

LogicalResult depthToSpace(NodeImporter &n) {
  auto images = readBlockedImages(n);
  if (failed(images))
    return failure();
  auto [x, samples, channels, height, width, b, isDepthFirst] = *images;
  if (channels % (b * b) != 0)
    return n.error("has " + llvm::Twine(channels) +
                   " channels, which blocks of " + llvm::Twine(b) +
                   " do not take");
  int64_t left = channels / (b * b);
  x = isDepthFirst
          ? n.transpose(n.reshape(x, {samples, b, b, left, height, width}),
                        {0, 3, 4, 1, 5, 2})
          : n.transpose(n.reshape(x, {samples, left, b, b, height, width}),
                        {0, 1, 4, 2, 5, 3});
  n.setOutput(0, n.reshape(x, {samples, left, height * b, width * b}));
  return success();
}

LogicalResult spaceToDepth(NodeImporter &n) {
  auto images = readBlockedImages(n);
  if (failed(images))
    return failure();
  auto [x, samples, channels, height, width, b, isDepthFirst] = *images;
  if (height % b != 0 || width % b != 0)
    return n.error("has an image of " + llvm::Twine(height) + " x " +
                   llvm::Twine(width) + ", which blocks of " + llvm::Twine(b) +
                   " do not divide");
  x = n.reshape(x, {samples, channels, height / b, b, width / b, b});
  x = isDepthFirst ? n.transpose(x, {0, 3, 5, 1, 2, 4})
                   : n.transpose(x, {0, 1, 3, 5, 2, 4});
  n.setOutput(0,
              n.reshape(x, {samples, channels * b * b, height / b, width / b}));
  return success();
}

LogicalResult sizeOf(NodeImporter &n) {
  int64_t elements = 1;
  for (int64_t size : NodeImporter::shape(n.input(0)))
    elements *= size;
  Builder &builder = n.getBuilder();
  n.setOutput(0, Constant(DenseElementsAttr::get(
                     RankedTensorType::get({}, builder.getI64Type()),
                     Attribute(builder.getI64IntegerAttr(elements)))));
  return success();
}

LogicalResult eyeLike(NodeImporter &n) {
  const Entry &like = n.input(0);
  SmallVector<int64_t> shape(NodeImporter::shape(like));
  if (shape.size() != 2)
    return n.error("has an input of rank " + llvm::Twine(shape.size()) +
                   "; it must be 2");
  Type element = NodeImporter::elementType(like);
  if (const onnx::Attribute *given = n.findAttribute("dtype")) {
    element = onnx::isDataType(given->i)
                  ? n.elementType(static_cast<onnx::DataType>(given->i))
                  : Type();
    if (!element)
      return n.error("its element type is not supported");
  }
  Expressions e{n};
  Value row = e.iota(shape, 0), column = e.iota(shape, 1);
  int64_t diagonal = n.attribute("k", int64_t{0});
  if (diagonal <= -maxElements || diagonal >= maxElements)
    return n.error("has diagonal " + llvm::Twine(diagonal));
  Value isThere = e.compare(Comparison::eq, column,
                            e.add(row, static_cast<double>(diagonal)));
  n.setOutput(0, n.folded(n.cast(isThere, element)));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::layoutOperators() {
  static const Choice order = {"mode", {"DCR", "CRD"}};
  static const ImportedOperator entries[] = {
      {.name = "DepthToSpace", .handler = depthToSpace, .choices = {order}},
      {.name = "EyeLike", .handler = eyeLike, .isDifferentiable = false},
      {.name = "Pad",
       .handler = pad,
       .types = numberTypes | boolType,
       .known = {{"pads"}, {"constant_value", KnownInput::Scalar}, {"axes"}},
       .choices = {{"mode", {"constant", "reflect", "edge", "wrap"}}}},
      {.name = "Size", .handler = sizeOf, .isDifferentiable = false},
      {.name = "SpaceToDepth", .handler = spaceToDepth, .choices = {order}},
      {.name = "Tile",
       .handler = tile,
       .known = {{"repeats"},
                 {"tiles", KnownInput::Scalar},
                 {"axis", KnownInput::Scalar}}},
  };
  return entries;
}
