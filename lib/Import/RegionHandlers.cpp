//===- RegionHandlers.cpp - ONNX operators on regions of images -----------===//

#include "Taps.h"
#include "Window.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

constexpr int64_t maxSamples = 4096;

/// How many samples a region has along each side of a bin.
struct Grid {
  SmallVector<double> rows, columns;
};

/// The corners of regions are left, top, right, bottom; of each the number at
/// `column`.
Value cornerOf(NodeImporter &n, Value regions, int64_t column) {
  return n.reshape(n.slice(regions, 1, column, column + 1),
                   n.shape(regions).front());
}

/// The samples of regions whose number the node leaves to their sizes.
FailureOr<Grid> adaptiveGrid(NodeImporter &n, double scale, bool isHalfPixel,
                             int64_t height, int64_t width) {
  Constant regions = n.known(1);
  auto pending = n.parameters.find(n.getNode().inputs[1]);
  if (!regions && pending != n.parameters.end() &&
      pending->second->elements <= maxConstantElements) {
    auto read = n.readTensor(*pending->second);
    if (!read)
      return n.error(llvm::toString(read.takeError()));
    regions = *read;
  }
  if (!regions)
    return n.error("takes as many samples as its regions are large, and they "
                   "depend on the data",
                   "set sampling_ratio to the number of samples");
  SmallVector<double> corners = regions.numbers();
  Grid grid;
  for (size_t at = 0; at + 3 < corners.size(); at += 4) {
    auto samples = [&](size_t low, size_t high, int64_t bins) {
      auto from = static_cast<float>(corners[at + low] * scale);
      auto to = static_cast<float>(corners[at + high] * scale);
      float length = isHalfPixel ? to - from : std::max(to - from, 1.0F);
      return std::max(
          std::ceil(static_cast<double>(length) / static_cast<double>(bins)),
          0.0);
    };
    grid.rows.push_back(samples(1, 3, height));
    grid.columns.push_back(samples(0, 2, width));
    if (!(grid.rows.back() * grid.columns.back() <= maxSamples))
      return n.error("has a bin of more than " + llvm::Twine(maxSamples) +
                     " samples");
  }
  return grid;
}

/// What a sample at `x` of an axis takes: the two elements around it; within
/// one element outside of the axis, the last one of it.
SmallVector<Tap> regionTaps(Expressions &e, Value x, int64_t size) {
  auto length = static_cast<double>(size);
  Value isNear = e.both(e.compare(Comparison::ge, x, -1),
                        e.compare(Comparison::le, x, length));
  Value counts = e.select(isNear, e.number(x, 1), e.number(x, 0));
  x = e.min(e.max(x, 0), length - 1);
  Value first = e.unary<FloorOp>(x), t = e.sub(x, first);
  return {{placeInside(e, first, size), e.mul(counts, e.sub(1, t))},
          {placeInside(e, e.add(first, 1), size), e.mul(counts, t)}};
}

LogicalResult roiAlign(NodeImporter &n) {
  Value x = n.tensor(0), regions = n.tensor(1), samples = n.tensor(2);
  if (!x || !regions || !samples)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  if (shape.size() != 4 || n.shape(regions).size() != 2 ||
      n.shape(regions)[1] != 4 ||
      n.shape(samples) != n.shape(regions).take_front())
    return n.error("has an image, regions and indices of samples that do not "
                   "fit each other");
  int64_t count = n.shape(regions)[0];
  int64_t height = n.attribute("output_height", int64_t{1});
  int64_t width = n.attribute("output_width", int64_t{1});
  int64_t ratio = n.attribute("sampling_ratio", int64_t{0});
  double scale = n.attribute("spatial_scale", 1.0);
  bool isMax = n.attribute("mode", "avg") == "max";
  bool isHalfPixel =
      n.opset() >= 16 && n.attribute("coordinate_transformation_mode",
                                     "half_pixel") == "half_pixel";
  if (height < 1 || width < 1 || isTooLarge({count, height, width, shape[1]}) ||
      ratio > 64)
    return n.error("makes " + llvm::Twine(height) + " x " + llvm::Twine(width) +
                   " bins of " + llvm::Twine(ratio) + " x " +
                   llvm::Twine(ratio) + " samples");
  Grid grid{SmallVector<double>(count, static_cast<double>(ratio)),
            SmallVector<double>(count, static_cast<double>(ratio))};
  if (ratio <= 0) {
    auto own = adaptiveGrid(n, scale, isHalfPixel, height, width);
    if (failed(own))
      return failure();
    grid = *own;
  }
  Expressions e{n};
  auto element = cast<FloatType>(n.type(x).getElementType());
  auto perRegion = [&](ArrayRef<double> numbers) -> Value {
    SmallVector<Attribute> values;
    for (double number : numbers)
      values.push_back(n.getBuilder().getFloatAttr(element, number));
    return n.constant(Constant(
        DenseElementsAttr::get(RankedTensorType::get(count, element), values)));
  };
  SmallVector<int64_t> bins = {count, height, width};
  SmallVector<int64_t> flat = {1, count * height * width};
  auto spread = [&](Value numbers) {
    return n.reshape(e.spread(numbers, bins, {1, 2}), flat);
  };
  regions = e.mul(n.cast(regions, element), scale);
  if (isHalfPixel)
    regions = e.add(regions, -0.5);
  // Coordinates of sample `which` of each bin along one side.
  auto coordinates = [&](int64_t side, int64_t parts,
                         ArrayRef<double> numbers) {
    Value from = cornerOf(n, regions, side);
    Value length = e.sub(cornerOf(n, regions, side + 2), from);
    if (!isHalfPixel)
      length = e.max(length, 1);
    Value bin = e.mul(length, 1.0 / static_cast<double>(parts));
    Value turn = n.cast(e.iota(bins, side == 0 ? 2 : 1), element);
    Value start =
        e.add(spread(from), e.mul(n.reshape(turn, flat), spread(bin)));
    SmallVector<double> atLeastOne;
    for (double number : numbers)
      atLeastOne.push_back(std::max(number, 1.0));
    Value step = e.div(spread(bin), spread(perRegion(atLeastOne)));
    return std::pair(start, step);
  };
  auto [top, rowStep] = coordinates(1, height, grid.rows);
  auto [left, columnStep] = coordinates(0, width, grid.columns);
  Value image = n.transpose(x, {0, 2, 3, 1});
  image = n.reshape(image, {1, shape[0] * shape[2] * shape[3], shape[1]});
  Value sample = spread(n.cast(samples, element));
  SmallVector<Tap> which = {{sample, e.number(sample, 1)}};
  auto most = [](ArrayRef<double> numbers) {
    return numbers.empty() ? 0.0 : *llvm::max_element(numbers);
  };
  // What counts 1 where the region has this sample.
  auto exists = [&](int64_t row, int64_t column) {
    SmallVector<double> result;
    for (auto [rows, columns] : llvm::zip(grid.rows, grid.columns))
      result.push_back(static_cast<double>(row) < rows &&
                       static_cast<double>(column) < columns);
    return result;
  };
  SmallVector<int64_t> result = {1, flat[1], shape[1]};
  Value y = n.splat(n.type(x).clone(result), 0);
  for (int64_t row = 0; static_cast<double>(row) < most(grid.rows); ++row)
    for (int64_t column = 0; static_cast<double>(column) < most(grid.columns);
         ++column) {
      Value atRow = e.add(top, e.mul(rowStep, static_cast<double>(row) + 0.5));
      Value atColumn =
          e.add(left, e.mul(columnStep, static_cast<double>(column) + 0.5));
      SmallVector<SmallVector<Tap>> axes = {which,
                                            regionTaps(e, atRow, shape[2]),
                                            regionTaps(e, atColumn, shape[3])};
      int64_t sizes[] = {shape[0], shape[2], shape[3]};
      Value own = combineTaps(e, image, axes, sizes, [&](Value a, Value b) {
        return isMax ? e.binary<MaximumOp>(a, b) : e.add(a, b);
      });
      SmallVector<double> there = exists(row, column);
      if (!isMax && llvm::is_contained(there, 0.0))
        own = e.mul(own, e.spread(spread(perRegion(there)), result, {2}));
      if (!isMax) {
        y = e.add(y, own);
        continue;
      }
      Value best = row == 0 && column == 0 ? own : e.binary<MaximumOp>(y, own);
      Value isThere = e.compare(
          Comparison::gt, e.spread(spread(perRegion(there)), result, {2}), 0);
      y = e.select(isThere, best, y);
    }
  if (!isMax) {
    SmallVector<double> counts;
    for (auto [rows, columns] : llvm::zip(grid.rows, grid.columns))
      counts.push_back(std::max(rows * columns, 1.0));
    y = e.div(y, e.spread(spread(perRegion(counts)), result, {2}));
  }
  y = n.reshape(y, {count, height, width, shape[1]});
  n.setOutput(0, n.transpose(y, {0, 3, 1, 2}));
  return success();
}

/// A convolution each of whose taps is moved by an offset of its own.
LogicalResult deformConv(NodeImporter &n) {
  Value x = n.tensor(0), w = n.tensor(1), offset = n.tensor(2);
  if (!x || !w || !offset)
    return failure();
  SmallVector<int64_t> shape(n.shape(x)), weight(n.shape(w));
  if (shape.size() != 4 || weight.size() != 4)
    return n.error("has " + llvm::Twine(shape.size()) +
                   " axes; images of two spatial axes are supported");
  int64_t groups = n.attribute("group", int64_t{1});
  int64_t parts = n.attribute("offset_group", int64_t{1});
  if (groups < 1 || parts < 1 || groups > shape[1] || parts > shape[1] ||
      shape[1] % parts || shape[1] != weight[1] * groups || weight[0] % groups)
    return n.error("has " + llvm::Twine(shape[1]) +
                   " input channels, which its weight does not take in " +
                   llvm::Twine(groups) + " groups, or its offsets in " +
                   llvm::Twine(parts));
  ArrayRef<int64_t> kernel = ArrayRef(weight).drop_front(2);
  SmallVector<int64_t> given = n.attribute("kernel_shape", kernel);
  if (ArrayRef<int64_t>(given) != kernel)
    return n.error("attribute kernel_shape is not that of the weight");
  ArrayRef<int64_t> input = ArrayRef(shape).drop_front(2);
  auto window = readWindow(n, input, kernel);
  if (failed(window))
    return failure();
  auto output = slide(n, *window, input);
  if (failed(output))
    return failure();
  int64_t taps = kernel[0] * kernel[1], places = (*output)[0] * (*output)[1];
  auto fits = [&](Value value, int64_t channels) {
    return n.shape(value) ==
           ArrayRef<int64_t>({shape[0], channels, (*output)[0], (*output)[1]});
  };
  if (!fits(offset, parts * taps * 2))
    return n.error("has offsets of another shape than its output says");
  Value mask;
  if (n.hasInput(4)) {
    mask = n.tensor(4);
    if (!mask)
      return failure();
    if (!fits(mask, parts * taps))
      return n.error("has a mask of another shape than its output says");
  }
  Expressions e{n};
  Type element = n.type(x).getElementType();
  // Where each tap is without its offset.
  SmallVector<int64_t> lattice = {kernel[0], kernel[1], (*output)[0],
                                  (*output)[1]};
  SmallVector<int64_t> flat = {shape[0], taps * places};
  auto lay = [&](int64_t axis) {
    Value at = e.add(e.mul(e.iota(lattice, axis + 2),
                           static_cast<double>(window->strides[axis])),
                     e.mul(e.iota(lattice, axis),
                           static_cast<double>(window->dilations[axis])));
    at = e.add(at, static_cast<double>(-window->low[axis]));
    return e.spread(n.cast(n.reshape(at, taps * places), element), flat,
                    int64_t{0});
  };
  Value rows = lay(0), columns = lay(1);
  int64_t channels = shape[1] / parts;
  offset = n.reshape(offset, {shape[0], parts, taps, 2, places});
  if (mask)
    mask = n.reshape(mask, {shape[0], parts, taps * places});
  SmallVector<Value> sampled;
  for (int64_t part = 0; part < parts; ++part) {
    Value own = n.slice(offset, 1, part, part + 1);
    auto moved = [&](Value base, int64_t which) {
      return e.add(base, n.reshape(n.slice(own, 3, which, which + 1), flat));
    };
    SmallVector<SmallVector<Tap>> axes = {
        linearTaps(e, moved(rows, 0), shape[2]),
        linearTaps(e, moved(columns, 1), shape[3])};
    Value image = n.slice(x, 1, part * channels, (part + 1) * channels);
    image = n.transpose(
        n.reshape(image, {shape[0], channels, shape[2] * shape[3]}), {0, 2, 1});
    Value column = sumOfTaps(e, image, axes, input);
    if (mask) {
      Value weights = n.reshape(n.slice(mask, 1, part, part + 1), flat);
      column = e.mul(column, e.spread(weights, n.shape(column), int64_t{2}));
    }
    sampled.push_back(n.transpose(column, {0, 2, 1}));
  }
  Value columnsOfAll = n.join(sampled, 1, /*isNew=*/false);
  int64_t terms = weight[1] * taps, outputs = weight[0] / groups;
  columnsOfAll = n.reshape(columnsOfAll, {shape[0], groups, terms, places});
  w = n.reshape(w, {groups, outputs, terms});
  Value y = n.make<DotGeneralOp>(
      n.type(x).clone({groups, outputs, shape[0], places}), w, columnsOfAll,
      int64_t{0}, int64_t{1}, int64_t{2}, int64_t{2});
  y = n.reshape(n.transpose(y, {2, 0, 1, 3}),
                {shape[0], weight[0], (*output)[0], (*output)[1]});
  if (n.hasInput(3)) {
    Value bias = n.tensor(3);
    if (!bias)
      return failure();
    if (n.shape(bias) != ArrayRef<int64_t>(weight[0]))
      return n.error("has a bias that does not fit its " +
                     llvm::Twine(weight[0]) + " channels");
    y = e.add(y, n.make<BroadcastOp>(n.type(y), bias, int64_t{1}));
  }
  n.setOutput(0, y);
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::regionOperators() {
  static const ImportedOperator entries[] = {
      {.name = "DeformConv",
       .handler = deformConv,
       .types = floatTypes,
       .note = "two spatial axes"},
      {.name = "RoiAlign",
       .handler = roiAlign,
       .types = floatTypes,
       .choices = {{"mode", {"avg", "max"}},
                   {"coordinate_transformation_mode",
                    {"half_pixel", "output_half_pixel"}}},
       .note = "`sampling_ratio` is positive, or `rois` known at compile time"},
  };
  return entries;
}
