//===- SelectionHandlers.cpp - ONNX operators with as many results as data ===//
//
// How many elements these choose depends on numbers, so those must be known at
// compile time.
//
//===----------------------------------------------------------------------===//

#include "NodeImporter.h"

#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

Constant integersOf(NodeImporter &n, ArrayRef<int64_t> values,
                    ArrayRef<int64_t> shape) {
  return Constant(DenseElementsAttr::get(
      RankedTensorType::get(shape, n.getBuilder().getI64Type()), values));
}

LogicalResult compress(NodeImporter &n) {
  Value x = n.tensor(0);
  auto condition = n.known(1).integers();
  if (!x || failed(condition))
    return failure();
  int64_t axis = 0;
  if (const onnx::Attribute *given = n.findAttribute("axis")) {
    auto normal = n.normalizeAxis(given->i, n.shape(x).size());
    if (failed(normal))
      return failure();
    axis = *normal;
  } else {
    x = n.reshape(x, n.type(x).getNumElements());
  }
  SmallVector<int64_t> positions;
  for (auto [index, isTaken] : llvm::enumerate(*condition))
    if (isTaken != 0)
      positions.push_back(index);
  if (!positions.empty() && positions.back() >= n.shape(x)[axis])
    return n.error("chooses element " + llvm::Twine(positions.back()) +
                   " of an axis of size " + llvm::Twine(n.shape(x)[axis]));
  n.setOutput(0, n.take(x, axis, positions));
  return success();
}

LogicalResult nonZero(NodeImporter &n) {
  Constant x = n.known(0);
  int64_t rank = x.getShape().size();
  SmallVector<SmallVector<int64_t>> places(rank);
  int64_t count = 0;
  for (int64_t index = 0; index < x.size(); ++index) {
    if (*x.number(index) == 0)
      continue;
    ++count;
    int64_t rest = index;
    for (int64_t axis = rank - 1; axis >= 0; --axis) {
      places[axis].push_back(rest % x.getShape()[axis]);
      rest /= x.getShape()[axis];
    }
  }
  SmallVector<int64_t> all;
  for (const auto &axis : places)
    llvm::append_range(all, axis);
  n.setOutput(0, integersOf(n, all, {rank, count}));
  return success();
}

/// Compares two slices; NaN is larger than every number, and equal to itself.
bool isLess(ArrayRef<double> a, ArrayRef<double> b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
        return std::isnan(y) ? !std::isnan(x) : x < y;
      });
}

LogicalResult unique(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  Constant known = n.known(0);
  int64_t axis = 0;
  SmallVector<int64_t> shape(known.getShape());
  if (const onnx::Attribute *given = n.findAttribute("axis")) {
    auto normal = n.normalizeAxis(given->i, shape.size());
    if (failed(normal))
      return failure();
    axis = *normal;
  } else {
    shape = {known.size()};
    x = n.reshape(x, shape);
  }
  // The slices along the axis, each in row-major order.
  int64_t size = shape[axis], inner = 1;
  for (int64_t each : ArrayRef(shape).drop_front(axis + 1))
    inner *= each;
  std::vector<SmallVector<double>> slices(size);
  if (size > 0)
    for (int64_t index = 0; index < known.size(); ++index)
      slices[index / inner % size].push_back(*known.number(index));
  SmallVector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) {
    return isLess(slices[a], slices[b]);
  });
  // The first of each group of equal slices, and the group of each slice.
  SmallVector<int64_t> firsts, groups(size), counts;
  for (auto [turn, index] : llvm::enumerate(order)) {
    if (turn == 0 || isLess(slices[order[turn - 1]], slices[index])) {
      firsts.push_back(index);
      counts.push_back(0);
    }
    groups[index] = static_cast<int64_t>(firsts.size()) - 1;
    ++counts.back();
  }
  if (n.attribute("sorted", int64_t{1}) == 0) {
    SmallVector<int64_t> byFirst(firsts.size()), place(firsts.size());
    std::iota(byFirst.begin(), byFirst.end(), 0);
    llvm::sort(byFirst,
               [&](int64_t a, int64_t b) { return firsts[a] < firsts[b]; });
    SmallVector<int64_t> newFirsts, newCounts;
    for (auto [turn, group] : llvm::enumerate(byFirst)) {
      place[group] = turn;
      newFirsts.push_back(firsts[group]);
      newCounts.push_back(counts[group]);
    }
    for (int64_t &group : groups)
      group = place[group];
    firsts = newFirsts;
    counts = newCounts;
  }
  auto number = static_cast<int64_t>(firsts.size());
  n.setOutput(0, n.take(x, axis, firsts));
  n.setOutput(1, integersOf(n, firsts, number));
  n.setOutput(2, integersOf(n, groups, size));
  n.setOutput(3, integersOf(n, counts, number));
  return success();
}

/// A box by its corners.
struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

Box boxAt(ArrayRef<double> numbers, bool isCentered) {
  auto at = [&](int index) { return static_cast<float>(numbers[index]); };
  if (isCentered)
    return {at(1) - at(3) / 2, at(0) - at(2) / 2, at(1) + at(3) / 2,
            at(0) + at(2) / 2};
  return {std::min(at(0), at(2)), std::min(at(1), at(3)),
          std::max(at(0), at(2)), std::max(at(1), at(3))};
}

float overlap(const Box &a, const Box &b) {
  float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  float both = std::max(height, 0.0F) * std::max(width, 0.0F);
  float either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

LogicalResult nonMaxSuppression(NodeImporter &n) {
  Constant boxes = n.known(0), scores = n.known(1);
  ArrayRef<int64_t> shape = boxes.getShape(), scoreShape = scores.getShape();
  if (shape.size() != 3 || shape[2] != 4 || scoreShape.size() != 3 ||
      scoreShape[0] != shape[0] || scoreShape[2] != shape[1])
    return n.error("has scores that do not fit its boxes");
  auto numberAt = [&](size_t index, double fallback) {
    Constant given = n.known(index);
    return given && given.size() > 0 ? *given.number() : fallback;
  };
  double most = numberAt(2, 0);
  auto threshold = static_cast<float>(numberAt(3, 0));
  double least = numberAt(4, -std::numeric_limits<double>::infinity());
  bool isCentered = n.attribute("center_point_box", int64_t{0}) != 0;
  SmallVector<double> corners = boxes.numbers(), points = scores.numbers();
  SmallVector<int64_t> selected;
  for (int64_t sample = 0; sample < shape[0]; ++sample)
    for (int64_t group = 0; group < scoreShape[1]; ++group) {
      ArrayRef<double> own = ArrayRef(points).slice(
          (sample * scoreShape[1] + group) * shape[1], shape[1]);
      SmallVector<int64_t> order;
      for (int64_t box = 0; box < shape[1]; ++box)
        if (own[box] > least)
          order.push_back(box);
      llvm::stable_sort(order,
                        [&](int64_t a, int64_t b) { return own[a] > own[b]; });
      SmallVector<Box> kept;
      for (int64_t box : order) {
        if (static_cast<double>(kept.size()) >= most)
          break;
        Box candidate =
            boxAt(ArrayRef(corners).slice((sample * shape[1] + box) * 4, 4),
                  isCentered);
        if (llvm::any_of(kept, [&](const Box &other) {
              return overlap(candidate, other) > threshold;
            }))
          continue;
        kept.push_back(candidate);
        selected.append({sample, group, box});
      }
    }
  n.setOutput(0, integersOf(n, selected,
                            {static_cast<int64_t>(selected.size()) / 3, 3}));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::selectionOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Compress",
       .handler = compress,
       .types = movedTypes,
       .known = {{"condition"}}},
      {.name = "NonMaxSuppression",
       .handler = nonMaxSuppression,
       .isDifferentiable = false,
       .needsKnownInputs = true},
      {.name = "NonZero",
       .handler = nonZero,
       .isDifferentiable = false,
       .needsKnownInputs = true},
      {.name = "Unique",
       .handler = unique,
       .isDifferentiable = false,
       .needsKnownInputs = true},
  };
  return entries;
}
