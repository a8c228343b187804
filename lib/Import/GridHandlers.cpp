//===- GridHandlers.cpp - ONNX operators that sample images ---------------===//
//
// The places of an image are counted row-major; a sample is a sum of elements
// near it, gathered for all channels at once.
//
//===----------------------------------------------------------------------===//

#include "Taps.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

enum class Padding { Zeros, Border, Reflection };

/// Reflects coordinates at both ends until they are between them.
Value reflected(Expressions &e, Value x, double low, double high) {
  double range = high - low;
  if (range <= 0)
    return e.number(x, low);
  Value distance = e.abs(e.add(x, -low));
  Value turns = e.unary<FloorOp>(e.mul(distance, 1 / range));
  Value rest = e.sub(distance, e.mul(turns, range));
  Value half = e.mul(turns, 0.5);
  Value isEven = e.compare(Comparison::eq, e.unary<FloorOp>(half), half);
  return e.select(isEven, e.add(rest, low), e.sub(high, rest));
}

struct Sampler {
  Expressions e;
  Padding padding;
  bool alignsCorners;

  double low() const { return alignsCorners ? 0 : -0.5; }
  double high(int64_t size) const {
    return static_cast<double>(size) - (alignsCorners ? 1 : 0.5);
  }

  /// Places of pixels, which may be outside.
  Tap tap(Value place, Value weight, int64_t size) {
    if (padding == Padding::Reflection)
      // Between the ends of the image the middles of pixels are whole numbers.
      place = e.unary<RoundOp>(reflected(e, place, low(), high(size)));
    return padding == Padding::Zeros ? tapOrZero(e, place, weight, size)
                                     : Tap{placeInside(e, place, size), weight};
  }

  /// The elements near coordinates from -1 to 1 along an axis of `size`.
  FailureOr<SmallVector<Tap>> taps(Value coordinate, StringRef mode,
                                   int64_t size) {
    auto length = static_cast<double>(size);
    Value x = alignsCorners
                  ? e.mul(e.add(coordinate, 1), (length - 1) / 2)
                  : e.mul(e.add(e.mul(e.add(coordinate, 1), length), -1), 0.5);
    if (mode == "nearest")
      x = e.unary<RoundOp>(x);
    if (padding == Padding::Border)
      x = e.min(e.max(x, 0), length - 1);
    else if (padding == Padding::Reflection)
      x = reflected(e, x, low(), high(size));
    SmallVector<Tap> result;
    if (mode == "nearest") {
      result.push_back(tap(e.unary<RoundOp>(x), e.number(x, 1), size));
      return result;
    }
    Value first = e.unary<FloorOp>(x), t = e.sub(x, first);
    if (mode == "linear" || mode == "bilinear") {
      result.push_back(tap(first, e.sub(1, t), size));
      result.push_back(tap(e.add(first, 1), t, size));
      return result;
    }
    for (int64_t offset = -1; offset <= 2; ++offset)
      result.push_back(tap(e.add(first, static_cast<double>(offset)),
                           cubic(t, offset), size));
    return result;
  }

  /// Keys' kernel with a = -0.75 at t - offset.
  Value cubic(Value t, int64_t offset) {
    constexpr double a = -0.75;
    Value d = offset <= 0 ? e.add(t, -static_cast<double>(offset))
                          : e.sub(static_cast<double>(offset), t);
    if (offset == 0 || offset == 1) {
      // ((a + 2) d - (a + 3)) d^2 + 1.
      Value inner = e.add(e.mul(d, a + 2), -(a + 3));
      return e.add(e.mul(e.mul(inner, d), d), 1);
    }
    // ((a d - 5 a) d + 8 a) d - 4 a.
    Value inner = e.add(e.mul(e.add(e.mul(d, a), -5 * a), d), 8 * a);
    return e.add(e.mul(inner, d), -4 * a);
  }
};

LogicalResult gridSample(NodeImporter &n) {
  Value x = n.tensor(0), grid = n.tensor(1);
  if (!x || !grid)
    return failure();
  SmallVector<int64_t> shape(n.shape(x)), places(n.shape(grid));
  size_t rank = shape.size(), spatial = rank < 3 ? 0 : rank - 2;
  if (spatial < 1 || spatial > 3 || places.size() != rank ||
      places[0] != shape[0] || places.back() != static_cast<int64_t>(spatial))
    return n.error("has a grid that does not fit its image");
  Expressions e{n};
  std::string padding = n.attribute("padding_mode", "zeros");
  std::string mode =
      n.attribute("mode", n.opset() < 20 ? "bilinear" : "linear");
  bool isCubic = mode == "cubic" || mode == "bicubic";
  if (isCubic && spatial != 2)
    return n.error("attribute mode is '" + mode + "' for " +
                   llvm::Twine(spatial) + " spatial axes; it needs two");
  Sampler sampler{e,
                  padding == "border"       ? Padding::Border
                  : padding == "reflection" ? Padding::Reflection
                                            : Padding::Zeros,
                  n.attribute("align_corners", int64_t{0}) != 0};
  grid = n.cast(grid, n.type(x).getElementType());
  ArrayRef<int64_t> sizes = ArrayRef(shape).drop_front(2);
  SmallVector<int64_t> output(places.begin() + 1, places.end() - 1);
  int64_t count = computeProduct(output), last = static_cast<int64_t>(rank) - 1;
  SmallVector<SmallVector<Tap>> axes;
  for (size_t axis = 0; axis < spatial; ++axis) {
    // The last number of a place is that of the first axis.
    auto column = static_cast<int64_t>(spatial - 1 - axis);
    Value coordinate =
        n.reshape(n.slice(grid, last, column, column + 1), {shape[0], count});
    auto taps = sampler.taps(coordinate, mode, sizes[axis]);
    if (failed(taps))
      return failure();
    axes.push_back(*taps);
  }
  Value image = n.transpose(
      n.reshape(x, {shape[0], shape[1], computeProduct(sizes)}), {0, 2, 1});
  Value y = n.transpose(sumOfTaps(e, image, axes, sizes), {0, 2, 1});
  SmallVector<int64_t> result = {shape[0], shape[1]};
  llvm::append_range(result, output);
  n.setOutput(0, n.reshape(y, result));
  return success();
}

LogicalResult affineGrid(NodeImporter &n) {
  Value theta = n.tensor(0);
  auto size = n.integers("size", 1);
  if (!theta || failed(size))
    return failure();
  auto spatial = static_cast<int64_t>(size->size()) - 2;
  if (spatial < 2 || spatial > 3 ||
      n.shape(theta) !=
          ArrayRef<int64_t>({size->front(), spatial, spatial + 1}))
    return n.error("has maps that do not fit the size of the image");
  SmallVector<int64_t> sizes(size->begin() + 2, size->end());
  for (int64_t each : sizes)
    if (each < 1)
      return n.error("has an image with an axis of size " + llvm::Twine(each));
  if (isTooLarge(sizes))
    return n.error("makes a grid of more than " + llvm::Twine(maxElements) +
                   " places");
  bool alignsCorners = n.attribute("align_corners", int64_t{0}) != 0;
  Expressions e{n};
  Type element = n.type(theta).getElementType();
  // Columns of the coordinates, the last axis first, and of ones.
  SmallVector<Value> columns;
  for (int64_t axis = spatial - 1; axis >= 0; --axis) {
    auto length = static_cast<double>(sizes[axis]);
    Value at = n.cast(e.iota(sizes, axis), element);
    Value x = alignsCorners
                  ? e.add(e.mul(at, sizes[axis] > 1 ? 2 / (length - 1) : 0), -1)
                  : e.add(e.mul(e.add(e.mul(at, 2), 1), 1 / length), -1);
    columns.push_back(x);
  }
  columns.push_back(e.number(columns.front(), 1));
  int64_t count = computeProduct(sizes);
  Value base = n.reshape(n.join(columns, spatial, true), {count, spatial + 1});
  ArrayRef<int64_t> none;
  Value grid = n.make<DotGeneralOp>(
      n.type(theta).clone({size->front(), spatial, count}), theta,
      n.folded(base), none, none, int64_t{2}, int64_t{1});
  SmallVector<int64_t> result = {size->front()};
  llvm::append_range(result, sizes);
  result.push_back(spatial);
  n.setOutput(0, n.reshape(n.transpose(grid, {0, 2, 1}), result));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::gridOperators() {
  static const ImportedOperator entries[] = {
      {.name = "AffineGrid",
       .handler = affineGrid,
       .types = floatTypes,
       .known = {{"size"}}},
      {.name = "GridSample",
       .handler = gridSample,
       .types = floatTypes,
       .choices = {{"mode",
                    {"linear", "bilinear", "nearest", "cubic", "bicubic"}},
                   {"padding_mode", {"zeros", "border", "reflection"}}},
       .note = "one to three spatial axes"},
  };
  return entries;
}
