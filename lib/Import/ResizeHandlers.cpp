//===- ResizeHandlers.cpp - ONNX Resize and Upsample ----------------------===//
//
// Nearest-neighbour resizing takes, along each axis, a list of positions that
// is known at import: a gather.
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

static LogicalResult resize(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  // These speak of the other modes.
  for (StringRef name :
       {"antialias", "cubic_coeff_a", "exclude_outside", "extrapolation_value"})
    n.ignoreAttribute(name);
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
  SmallVector<int64_t> factors(axes->size(), 1);
  for (auto [index, axis] : llvm::enumerate(*axes)) {
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < axis.to; ++i) {
      float at = rounding(coordinate(axis, static_cast<float>(i)));
      positions.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(at), 0, axis.from - 1));
    }
    if (auto factor = repetitions(positions, axis.from))
      factors[index] = *factor;
    else
      x = n.take(x, index, positions);
  }
  n.setOutput(0, repeat(n, x, factors));
  return success();
}

ArrayRef<ImportedOperator> pp::resizeOperators() {
  static const std::vector<KnownInput> known = {{"scales"}, {"sizes"}};
  static const Choice mode = {"mode", {"nearest"}};
  static const ImportedOperator entries[] = {
      {.name = "Resize",
       .handler = resize,
       .known = known,
       .choices = {mode,
                   {"coordinate_transformation_mode",
                    {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                     "align_corners", "asymmetric", "tf_half_pixel_for_nn"}},
                   {"nearest_mode",
                    {"round_prefer_floor", "round_prefer_ceil", "floor",
                     "ceil"}},
                   {"keep_aspect_ratio_policy",
                    {"stretch", "not_larger", "not_smaller"}}}},
      {.name = "Upsample",
       .handler = resize,
       .known = known,
       .choices = {mode}},
  };
  return entries;
}
