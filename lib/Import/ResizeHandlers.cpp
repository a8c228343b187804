//===- ResizeHandlers.cpp - ONNX Resize and Upsample ----------------------===//
//
// Nearest-neighbour resizing takes, along each axis, a list of positions that
// is known at import: a gather. Linear and cubic resizing is, along each axis,
// a product with a matrix that is known at import.
//
//===----------------------------------------------------------------------===//

#include "NodeImporter.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// One axis that changes. Numbers are single precision, as in ONNX Runtime.
struct Axis {
  int64_t from = 0, to = 0;
  float scale = 1;
  /// What tf_crop_and_resize takes of it.
  float start = 0, end = 1;

  /// The new size before it was rounded.
  float length() const { return scale * static_cast<float>(from); }
};

using Coordinate = float (*)(const Axis &, float);
using Rounding = float (*)(float);

} // namespace

/// coordinate_transformation_mode: the place in the input of an output's
/// position (ONNX, Resize).
static Coordinate findCoordinate(StringRef mode) {
  static const llvm::StringMap<Coordinate> modes = {
      {"half_pixel", [](const Axis &axis,
                        float x) { return (x + 0.5f) / axis.scale - 0.5f; }},
      {"half_pixel_symmetric",
       [](const Axis &axis, float x) {
         float adjustment = axis.to / (axis.scale * axis.from);
         float offset = axis.from / 2.0f * (1 - adjustment);
         return offset + (x + 0.5f) / axis.scale - 0.5f;
       }},
      {"pytorch_half_pixel",
       [](const Axis &axis, float x) {
         return axis.to > 1 ? (x + 0.5f) / axis.scale - 0.5f : 0.0f;
       }},
      {"align_corners",
       [](const Axis &axis, float x) {
         return axis.to > 1 ? x * (axis.from - 1) / (axis.to - 1) : 0.0f;
       }},
      {"asymmetric", [](const Axis &axis, float x) { return x / axis.scale; }},
      {"tf_crop_and_resize",
       [](const Axis &axis, float x) {
         float last = axis.from - 1, part = axis.end - axis.start;
         float at =
             axis.to > 1 ? x * part * last / (axis.to - 1) : part * last / 2;
         return axis.start * last + at;
       }},
      {"tf_half_pixel_for_nn",
       [](const Axis &axis, float x) { return (x + 0.5f) / axis.scale; }},
  };
  return modes.lookup(mode);
}

static Rounding findRounding(StringRef mode) {
  static const llvm::StringMap<Rounding> modes = {
      {"round_prefer_floor", [](float x) { return std::ceil(x - 0.5f); }},
      {"round_prefer_ceil", [](float x) { return std::floor(x + 0.5f); }},
      {"floor", [](float x) { return std::floor(x); }},
      {"ceil", [](float x) { return std::ceil(x); }},
  };
  return modes.lookup(mode);
}

/// The factors of attributes and inputs of all versions; empty, with an error,
/// where there are none.
static FailureOr<SmallVector<float>> readScales(NodeImporter &n) {
  SmallVector<float> scales;
  if (n.getNode().opType == "Upsample" && n.opset() < 7) {
    scales = {1, 1, static_cast<float>(n.attribute("height_scale", 1.0)),
              static_cast<float>(n.attribute("width_scale", 1.0))};
    return scales;
  }
  if (const onnx::Attribute *given = n.findAttribute("scales")) {
    scales.assign(given->floats.begin(), given->floats.end());
    return scales;
  }
  size_t at = n.opset() < 11 ? 1 : 2;
  if (!n.hasInput(at))
    return scales;
  llvm::append_range(scales, n.known(at).numbers());
  return scales;
}

/// The axes with their old and new sizes, in the order of the tensor.
static FailureOr<SmallVector<Axis>> readAxes(NodeImporter &n,
                                             ArrayRef<int64_t> shape) {
  int64_t rank = shape.size();
  SmallVector<Axis> result(rank);
  for (auto [axis, size] : llvm::zip(result, shape))
    axis = {size, size, 1};
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> axes = n.attribute("axes", all);
  for (int64_t &axis : axes) {
    auto counted = n.normalizeAxis(axis, rank);
    if (failed(counted))
      return failure();
    axis = *counted;
  }
  auto scales = readScales(n);
  if (failed(scales))
    return failure();
  std::string policy = n.attribute("keep_aspect_ratio_policy", "stretch");
  if (!scales->empty()) {
    if (scales->size() != axes.size())
      return n.error("has " + llvm::Twine(scales->size()) + " scales for " +
                     llvm::Twine(axes.size()) + " axes");
    for (auto [axis, scale] : llvm::zip(axes, *scales)) {
      Axis &changed = result[axis];
      float size = std::floor(changed.from * scale);
      if (!(scale > 0) || !(size >= 1) || !(size < (1LL << 31)))
        return n.error("scales axis " + llvm::Twine(axis) + " by " +
                       std::to_string(scale));
      changed.to = static_cast<int64_t>(size);
      changed.scale = scale;
    }
    return result;
  }
  if (!n.hasInput(3))
    return n.error("has neither scales nor sizes");
  auto sizes = n.integers("sizes", 3);
  if (failed(sizes))
    return failure();
  if (sizes->size() != axes.size())
    return n.error("has " + llvm::Twine(sizes->size()) + " sizes for " +
                   llvm::Twine(axes.size()) + " axes");
  float common = policy == "not_larger" ? INFINITY : 0;
  for (auto [axis, size] : llvm::zip(axes, *sizes)) {
    if (size < 1 || size >= (int64_t{1} << 31))
      return n.error("gives axis " + llvm::Twine(axis) + " the size " +
                     llvm::Twine(size));
    Axis &changed = result[axis];
    changed.to = size;
    changed.scale = static_cast<float>(size) / changed.from;
    common = policy == "not_larger" ? std::min(common, changed.scale)
                                    : std::max(common, changed.scale);
  }
  if (policy == "stretch")
    return result;
  for (int64_t axis : axes) {
    result[axis].scale = common;
    result[axis].to =
        static_cast<int64_t>(std::floor(common * result[axis].from + 0.5f));
  }
  return result;
}

/// How often every element is repeated; nothing if they are not.
static std::optional<int64_t> repetitions(ArrayRef<int64_t> positions,
                                          int64_t size) {
  int64_t count = positions.size();
  if (count % size != 0)
    return std::nullopt;
  for (int64_t i = 0; i < count; ++i)
    if (positions[i] != i / (count / size))
      return std::nullopt;
  return count / size;
}

/// Repeats the elements of `x` along each axis: a broadcast to new axes behind
/// the old ones, which a reshape merges.
static Value repeat(NodeImporter &n, Value x, ArrayRef<int64_t> factors) {
  SmallVector<int64_t> wide, kept, shape;
  for (auto [size, factor] : llvm::zip(n.shape(x), factors)) {
    kept.push_back(wide.size());
    wide.push_back(size);
    if (factor > 1)
      wide.push_back(factor);
    shape.push_back(size * factor);
  }
  if (n.shape(x) == ArrayRef<int64_t>(shape))
    return x;
  return n.reshape(n.make<BroadcastOp>(n.type(x).clone(wide), x, kept), shape);
}

namespace {
/// Linear and cubic interpolation of numbers at whole places.
struct Filter {
  bool isCubic, antialias, excludesOutside;
  double a;

  /// Half of the places around a number that it is made of, at scale 1.
  double reach() const { return isCubic ? 2 : 1; }
  double weight(double distance) const {
    double x = std::abs(distance);
    if (!isCubic)
      return std::max(0.0, 1 - x);
    if (x < 1)
      return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  }
};
} // namespace

namespace {
/// What a place of the new axis is made of: places of the old one, side by
/// side, and their weights.
struct Row {
  int64_t first;
  SmallVector<double> weights;

  int64_t end() const { return first + static_cast<int64_t>(weights.size()); }
};
} // namespace

/// The row for a place of the old axis.
static Row rowAt(const Filter &filter, const Axis &axis, double at) {
  // Where numbers are left out, the filter is wider.
  double shrink = filter.antialias ? std::min<double>(axis.scale, 1) : 1;
  double floor = std::floor(at);
  auto half = static_cast<int64_t>(std::ceil(filter.reach() / shrink));
  const auto middle = static_cast<int64_t>(floor);
  auto inside = [&](int64_t place) {
    return std::clamp<int64_t>(place, 0, axis.from - 1);
  };
  Row row{inside(middle + 1 - half), {}};
  row.weights.assign(inside(middle + half) - row.first + 1, 0);
  double sum = 0;
  for (int64_t i = 1 - half; i <= half; ++i) {
    double weight =
        filter.weight((static_cast<double>(i) - (at - floor)) * shrink);
    int64_t place = middle + i;
    if (filter.excludesOutside && (place < 0 || place >= axis.from))
      continue;
    row.weights[inside(place) - row.first] += weight;
    sum += weight;
  }
  if (filter.antialias || filter.excludesOutside)
    for (double &weight : row.weights)
      weight /= sum;
  return row;
}

/// A constant of the type of `like`.
static Value floats(NodeImporter &n, Value like, ArrayRef<int64_t> shape,
                    ArrayRef<double> values) {
  auto element = cast<FloatType>(n.type(like).getElementType());
  auto type = RankedTensorType::get(shape, element);
  if (element.isF64())
    return n.constant(Constant(DenseElementsAttr::get(type, values)));
  SmallVector<float> rounded(values.begin(), values.end());
  return n.constant(
      Constant(DenseElementsAttr::get(type, ArrayRef<float>(rounded))));
}

/// The product of the matrix of an axis with that axis of `x`.
static Value multiplyAxis(NodeImporter &n, Value x, int64_t index,
                          const Axis &axis, ArrayRef<Row> rows) {
  SmallVector<double> matrix(axis.to * axis.from, 0);
  for (auto [place, row] : llvm::enumerate(rows))
    llvm::copy(row.weights, matrix.begin() + place * axis.from + row.first);
  Value weights = floats(n, x, {axis.to, axis.from}, matrix);
  SmallVector<int64_t> shape(n.shape(x));
  shape.erase(shape.begin() + index);
  shape.push_back(axis.to);
  ArrayRef<int64_t> none;
  int64_t columns = 1, rank = shape.size();
  Value y = n.make<DotGeneralOp>(n.type(x).clone(shape), x, weights, none, none,
                                 index, columns);
  // The axis goes back from the end to its place.
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i)
    permutation.push_back(i < index ? i : i == index ? rank - 1 : i - 1);
  return n.transpose(y, permutation);
}

/// The same where the axis is long, and nearly all of the matrix 0: for each
/// tile of new places, the product of a small matrix with the old places that
/// they are made of.
///
///   old places   ├─────────────┤            tile 0: 0 to 17
///                            ├─────────────┤        1: 15 to 32
///   matrices     18 x 32 for each tile
///
/// Null, with an error, where these are too large.
static Value multiplyBand(NodeImporter &n, Value x, int64_t index,
                          const Axis &axis, ArrayRef<Row> rows) {
  constexpr int64_t tile = 32;
  const int64_t tiles = llvm::divideCeil(axis.to, tile);
  auto ofTile = [&](int64_t number) {
    return rows.slice(number * tile, std::min(tile, axis.to - number * tile));
  };
  SmallVector<int64_t> firsts;
  int64_t width = 1;
  for (int64_t number = 0; number < tiles; ++number) {
    int64_t first = axis.from, end = 0;
    for (const Row &row : ofTile(number)) {
      first = std::min(first, row.first);
      end = std::max(end, row.end());
    }
    firsts.push_back(first);
    width = std::max(width, end - first);
  }
  // Few places of many are far apart.
  constexpr int64_t mostNumbers = 1 << 24;
  if (width > mostNumbers / (tiles * tile)) {
    (void)n.error("resizes axis " + llvm::Twine(index) + " from " +
                  llvm::Twine(axis.from) + " to " + llvm::Twine(axis.to) +
                  ", which is too large");
    return {};
  }
  SmallVector<int64_t> places;
  SmallVector<double> matrices(tiles * width * tile, 0);
  for (auto [number, first] : llvm::enumerate(firsts)) {
    first = std::min(first, axis.from - width);
    for (int64_t i = 0; i < width; ++i)
      places.push_back(first + i);
    for (auto [column, row] : llvm::enumerate(ofTile(number)))
      for (auto [i, weight] : llvm::enumerate(row.weights))
        matrices[(number * width + row.first - first + i) * tile + column] =
            weight;
  }
  auto integers =
      RankedTensorType::get({tiles, width}, n.getBuilder().getI64Type());
  Value table = n.constant(
      Constant(DenseElementsAttr::get(integers, ArrayRef<int64_t>(places))));
  SmallVector<int64_t> shape(n.shape(x));
  const int64_t rank = shape.size();
  shape[index] = tiles;
  shape.insert(shape.begin() + index + 1, width);
  Value parts = n.make<GatherOp>(n.type(x).clone(shape), x, table, index,
                                 /*shared=*/int64_t{0});
  Value weights = floats(n, x, {tiles, width, tile}, matrices);
  SmallVector<int64_t> product(n.shape(x));
  product.erase(product.begin() + index);
  product.insert(product.begin(), tiles);
  product.push_back(tile);
  int64_t first = 0, second = 1, next = index + 1;
  Value y = n.make<DotGeneralOp>(n.type(x).clone(product), parts, weights,
                                 index, first, next, second);
  // Tiles, which are first, and their places, which are last, go to the axis.
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < index; ++i)
    permutation.push_back(i + 1);
  llvm::append_range(permutation, ArrayRef<int64_t>{0, rank});
  for (int64_t i = index; i + 1 < rank; ++i)
    permutation.push_back(i + 1);
  y = n.transpose(y, permutation);
  SmallVector<int64_t> whole(n.shape(x));
  whole[index] = tiles * tile;
  y = n.reshape(y, whole);
  return tiles * tile == axis.to ? y : n.slice(y, index, 0, axis.to);
}

/// An axis of `x` by interpolation; `x` itself where nothing changes. Null,
/// with an error, where it is too long.
static Value interpolate(NodeImporter &n, Value x, int64_t index,
                         const Axis &axis, const Filter &filter,
                         Coordinate coordinate) {
  // Above, most terms of a product are 0, and it takes longer than PyTorch.
  constexpr int64_t longest = 128;
  SmallVector<Row> rows;
  bool isIdentity = axis.from == axis.to;
  for (int64_t i = 0; i < axis.to; ++i) {
    rows.push_back(
        rowAt(filter, axis, coordinate(axis, static_cast<float>(i))));
    for (auto [place, weight] : llvm::enumerate(rows.back().weights))
      isIdentity &=
          weight == (rows.back().first + static_cast<int64_t>(place) == i);
  }
  if (isIdentity)
    return x;
  return axis.from <= longest ? multiplyAxis(n, x, index, axis, rows)
                              : multiplyBand(n, x, index, axis, rows);
}

/// Places that are outside of the old axis get a number of their own.
static Value extrapolate(NodeImporter &n, Value x, int64_t index,
                         const Axis &axis, Coordinate coordinate,
                         double value) {
  SmallVector<bool> outside;
  for (int64_t i = 0; i < axis.to; ++i) {
    float at = coordinate(axis, static_cast<float>(i));
    outside.push_back(at < 0 || at > static_cast<float>(axis.from - 1));
  }
  if (!llvm::is_contained(outside, true))
    return x;
  auto type = RankedTensorType::get(axis.to, n.getBuilder().getI1Type());
  Value mask = n.constant(Constant(DenseElementsAttr::get(type, outside)));
  mask = n.make<BroadcastOp>(type.clone(n.shape(x)), mask,
                             ArrayRef<int64_t>(index));
  return n.make<SelectOp>(mask, n.splat(n.type(x), value), x);
}

/// Reads what tf_crop_and_resize takes of each axis.
static LogicalResult readCrop(NodeImporter &n, MutableArrayRef<Axis> axes) {
  int64_t rank = axes.size();
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> given = n.attribute("axes", all);
  Constant crop = n.known(1);
  if (!crop || crop.size() != 2 * static_cast<int64_t>(given.size()))
    return n.error("crops without two numbers in roi for each axis");
  for (auto [i, axis] : llvm::enumerate(given)) {
    Axis &each = axes[axis < 0 ? axis + rank : axis];
    each.start = static_cast<float>(*crop.number(i));
    each.end = static_cast<float>(*crop.number(i + given.size()));
  }
  return success();
}

static LogicalResult resizeByProducts(NodeImporter &n, Value x,
                                      ArrayRef<Axis> axes,
                                      StringRef coordinateMode,
                                      const Filter &filter) {
  constexpr int64_t mostPlaces = 1 << 22;
  Type element = n.type(x).getElementType();
  if (!isa<FloatType>(element))
    return n.error("interpolates numbers that are not floating-point, which is "
                   "not supported");
  if (!element.isF64())
    x = n.cast(x, n.getBuilder().getF32Type());
  Coordinate coordinate = findCoordinate(coordinateMode);
  if (coordinateMode == "align_corners")
    coordinate = [](const Axis &axis, float x) {
      return axis.length() == 1 ? 0.0f
                                : x * (axis.from - 1) / (axis.length() - 1);
    };
  double outside = n.attribute("extrapolation_value", 0.0);
  for (auto [index, axis] : llvm::enumerate(axes)) {
    if (axis.to > mostPlaces)
      return n.error("resizes axis " + llvm::Twine(index) + " from " +
                     llvm::Twine(axis.from) + " to " + llvm::Twine(axis.to) +
                     ", which is too large");
    x = interpolate(n, x, index, axis, filter, coordinate);
    if (!x)
      return failure();
    if (coordinateMode == "tf_crop_and_resize")
      x = extrapolate(n, x, index, axis, coordinate, outside);
  }
  n.setOutput(0, n.cast(x, element));
  return success();
}

static LogicalResult resize(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  std::string mode = n.attribute("mode", "nearest");
  Filter filter;
  filter.isCubic = mode == "cubic";
  filter.antialias = n.attribute("antialias", int64_t{0}) != 0;
  filter.excludesOutside = n.attribute("exclude_outside", int64_t{0}) != 0;
  filter.a = n.attribute("cubic_coeff_a", -0.75);
  double outside = n.attribute("extrapolation_value", 0.0);
  // Before opset 11 there was one way.
  bool isOld = n.opset() < 11;
  std::string coordinateMode = n.attribute("coordinate_transformation_mode",
                                           isOld ? "asymmetric" : "half_pixel");
  std::string roundingMode =
      n.attribute("nearest_mode", isOld ? "floor" : "round_prefer_floor");
  Coordinate coordinate = findCoordinate(coordinateMode);
  Rounding rounding = findRounding(roundingMode);
  auto axes = readAxes(n, n.shape(x));
  if (failed(axes))
    return failure();
  bool crops = coordinateMode == "tf_crop_and_resize";
  if (crops && failed(readCrop(n, *axes)))
    return failure();
  if (mode != "nearest")
    return resizeByProducts(n, x, *axes, coordinateMode, filter);
  SmallVector<int64_t> factors(axes->size(), 1);
  for (auto [index, axis] : llvm::enumerate(*axes)) {
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < axis.to; ++i) {
      float at = rounding(coordinate(axis, static_cast<float>(i)));
      positions.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(at), 0, axis.from - 1));
    }
    if (crops)
      x = extrapolate(n, n.take(x, index, positions), index, axis, coordinate,
                      outside);
    else if (auto factor = repetitions(positions, axis.from))
      factors[index] = *factor;
    else
      x = n.take(x, index, positions);
  }
  n.setOutput(0, repeat(n, x, factors));
  return success();
}

ArrayRef<ImportedOperator> pp::resizeOperators() {
  static const std::vector<KnownInput> known = {{"roi"}, {"scales"}, {"sizes"}};
  static const Choice mode = {"mode", {"nearest", "linear", "cubic"}};
  static const Choice oldMode = {"mode", {"nearest", "linear", "bilinear"}};
  static const ImportedOperator entries[] = {
      {.name = "Resize",
       .handler = resize,
       .known = known,
       .choices = {mode,
                   {"coordinate_transformation_mode",
                    {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                     "align_corners", "asymmetric", "tf_crop_and_resize",
                     "tf_half_pixel_for_nn"}},
                   {"nearest_mode",
                    {"round_prefer_floor", "round_prefer_ceil", "floor",
                     "ceil"}},
                   {"keep_aspect_ratio_policy",
                    {"stretch", "not_larger", "not_smaller"}}}},
      {.name = "Upsample",
       .handler = resize,
       .known = known,
       .choices = {oldMode}},
  };
  return entries;
}
