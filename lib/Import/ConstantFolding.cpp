//===- ConstantFolding.cpp - Evaluate shape and mask arithmetic -----------===//
//
// Exporters compute shapes in the graph: Shape, Gather, Concat, Mul, Slice ...
// With static shapes all of it is known at import.
//
//===----------------------------------------------------------------------===//

#include "NodeImporter.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace pp;

namespace {

/// No folded tensor gets larger than this.
constexpr int64_t maxFoldedElements = 1 << 16;

SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t axis = static_cast<int64_t>(shape.size()) - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

std::optional<int64_t> elementsOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(count, size, count) ||
        count > maxFoldedElements)
      return std::nullopt;
  return count;
}

/// Makes a tensor of `shape` whose element at flat index i is element
/// `source(i)` of `from`.
template <typename Source>
HostTensor pick(const HostTensor &from, ArrayRef<int64_t> shape,
                Source &&source) {
  HostTensor result;
  result.elementType = from.elementType;
  result.shape.assign(shape.begin(), shape.end());
  int64_t count = *elementsOf(shape);
  for (int64_t i = 0; i < count; ++i) {
    if (from.isFloat())
      result.floats.push_back(from.floats[source(i)]);
    else
      result.ints.push_back(from.ints[source(i)]);
  }
  return result;
}

/// `from` broadcast to `shape`, as numpy does it.
HostTensor broadcast(const HostTensor &from, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides = stridesOf(from.shape);
  SmallVector<int64_t> outer = stridesOf(shape);
  size_t offset = shape.size() - from.shape.size();
  return pick(from, shape, [&](int64_t index) {
    int64_t at = 0;
    for (size_t axis = 0; axis < from.shape.size(); ++axis)
      if (from.shape[axis] != 1)
        at +=
            index / outer[axis + offset] % shape[axis + offset] * strides[axis];
    return at;
  });
}

std::optional<SmallVector<int64_t>> commonShape(ArrayRef<int64_t> left,
                                                ArrayRef<int64_t> right) {
  SmallVector<int64_t> shape(std::max(left.size(), right.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t a = i < left.size() ? left[left.size() - 1 - i] : 1;
    int64_t b = i < right.size() ? right[right.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1)
      return std::nullopt;
    shape[shape.size() - 1 - i] = a == 1 ? b : a;
  }
  return shape;
}

/// Two numbers of one kind to one of the same kind (or to a boolean).
struct BinaryRule {
  int64_t (*ints)(int64_t, int64_t);
  double (*floats)(double, double);
  bool toBool = false;
};

const llvm::StringMap<BinaryRule> &binaryRules() {
  static const llvm::StringMap<BinaryRule> rules = {
      {"Add",
       {[](int64_t a, int64_t b) {
          return static_cast<int64_t>(static_cast<uint64_t>(a) + b);
        },
        [](double a, double b) { return a + b; }}},
      {"Sub",
       {[](int64_t a, int64_t b) {
          return static_cast<int64_t>(static_cast<uint64_t>(a) - b);
        },
        [](double a, double b) { return a - b; }}},
      {"Mul",
       {[](int64_t a, int64_t b) {
          return static_cast<int64_t>(static_cast<uint64_t>(a) *
                                      static_cast<uint64_t>(b));
        },
        [](double a, double b) { return a * b; }}},
      {"Div",
       {[](int64_t a, int64_t b) {
          return b == 0 || (b == -1 && a == INT64_MIN) ? 0 : a / b;
        },
        [](double a, double b) { return a / b; }}},
      {"Mod",
       {[](int64_t a, int64_t b) -> int64_t {
          if (b == 0 || b == -1)
            return 0;
          int64_t rest = a % b;
          return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        },
        [](double a, double b) { return std::fmod(a, b); }}},
      {"Pow",
       {[](int64_t a, int64_t b) {
          return static_cast<int64_t>(
              std::pow(static_cast<double>(a), static_cast<double>(b)));
        },
        [](double a, double b) { return std::pow(a, b); }}},
      {"Min",
       {[](int64_t a, int64_t b) { return std::min(a, b); },
        [](double a, double b) { return std::min(a, b); }}},
      {"Max",
       {[](int64_t a, int64_t b) { return std::max(a, b); },
        [](double a, double b) { return std::max(a, b); }}},
      {"Equal",
       {[](int64_t a, int64_t b) { return int64_t{a == b}; },
        [](double a, double b) { return double(a == b); }, true}},
      {"Less",
       {[](int64_t a, int64_t b) { return int64_t{a < b}; },
        [](double a, double b) { return double(a < b); }, true}},
      {"LessOrEqual",
       {[](int64_t a, int64_t b) { return int64_t{a <= b}; },
        [](double a, double b) { return double(a <= b); }, true}},
      {"Greater",
       {[](int64_t a, int64_t b) { return int64_t{a > b}; },
        [](double a, double b) { return double(a > b); }, true}},
      {"GreaterOrEqual",
       {[](int64_t a, int64_t b) { return int64_t{a >= b}; },
        [](double a, double b) { return double(a >= b); }, true}},
      {"And", {[](int64_t a, int64_t b) { return int64_t{a && b}; }, nullptr}},
      {"Or", {[](int64_t a, int64_t b) { return int64_t{a || b}; }, nullptr}},
  };
  return rules;
}

/// The nearest 64-bit integer towards zero; numbers outside of their range
/// become its ends, and NaN becomes zero.
int64_t toInteger(double value) {
  if (std::isnan(value))
    return 0;
  constexpr double limit = 9223372036854775808.0;
  if (value >= limit)
    return INT64_MAX;
  return value < -limit ? INT64_MIN : static_cast<int64_t>(value);
}

/// A number to one of the same type; `ints` is null where the operator takes
/// none.
struct UnaryRule {
  double (*floats)(double);
  int64_t (*ints)(int64_t);
};

const llvm::StringMap<UnaryRule> &unaryRules() {
  static const llvm::StringMap<UnaryRule> rules = {
      {"Sqrt", {[](double x) { return std::sqrt(x); }, nullptr}},
      {"Neg",
       {[](double x) { return -x; },
        [](int64_t x) {
          return static_cast<int64_t>(-static_cast<uint64_t>(x));
        }}},
      {"Abs",
       {[](double x) { return std::abs(x); },
        [](int64_t x) {
          return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
        }}},
      {"Floor", {[](double x) { return std::floor(x); }, nullptr}},
      {"Ceil", {[](double x) { return std::ceil(x); }, nullptr}},
      {"Exp", {[](double x) { return std::exp(x); }, nullptr}},
      {"Log", {[](double x) { return std::log(x); }, nullptr}},
      {"Reciprocal", {[](double x) { return 1 / x; }, nullptr}},
      {"Identity", {[](double x) { return x; }, [](int64_t x) { return x; }}},
  };
  return rules;
}

/// Integers keep the range of their type.
int64_t wrap(Type type, int64_t value) {
  if (type.isInteger(32))
    return static_cast<int32_t>(value);
  return type.isInteger(8) ? static_cast<int8_t>(value) : value;
}

/// Single precision stays single precision between operations.
double roundTo(Type type, double value) {
  return type.isF32() ? static_cast<double>(static_cast<float>(value)) : value;
}

class Folder {
public:
  explicit Folder(NodeImporter &n) : n(n) {}

  LogicalResult run() {
    StringRef op = n.getNode().opType;
    for (size_t index = 0; index < n.numInputs(); ++index)
      if (HostTensor *known = n.host(index))
        if (known->size() > maxFoldedElements)
          return failure();
    if (auto rule = binaryRules().find(op); rule != binaryRules().end())
      return foldBinary(rule->second);
    if (auto rule = unaryRules().find(op); rule != unaryRules().end())
      return foldUnary(rule->second);
    if (op == "Cast" || op == "CastLike")
      return foldCast();
    if (op == "Not")
      return foldNot();
    if (op == "Where")
      return foldWhere();
    if (op == "Concat")
      return foldConcat();
    if (op == "Gather")
      return foldGather();
    if (op == "Slice")
      return foldSlice();
    if (op == "Squeeze" || op == "Unsqueeze" || op == "Reshape")
      return foldReshape();
    if (op == "Expand")
      return foldExpand();
    if (op == "ConstantOfShape")
      return foldConstantOfShape();
    if (op == "Range")
      return foldRange();
    if (op == "ReduceProd")
      return foldReduceProd();
    return failure();
  }

private:
  LogicalResult set(HostTensor tensor) {
    n.setOutput(0, std::move(tensor));
    return success();
  }

  LogicalResult foldBinary(const BinaryRule &rule) {
    if (n.numInputs() != 2)
      return failure();
    // Of legacy broadcasting only what numpy does too.
    if (n.opset() < 7 && n.findAttribute("axis"))
      return failure();
    const HostTensor &a = *n.host(0), &b = *n.host(1);
    if (n.opset() < 7 && !n.attribute("broadcast", int64_t{0}) &&
        a.shape != b.shape)
      return failure();
    auto shape = commonShape(a.shape, b.shape);
    if (a.elementType != b.elementType || !shape || !elementsOf(*shape) ||
        (a.isFloat() && !rule.floats))
      return failure();
    bool truncates = n.attribute("fmod", int64_t{0}) != 0;
    bool divides = n.getNode().opType == "Div" || n.getNode().opType == "Mod";
    if (!a.isFloat() && divides && llvm::is_contained(b.ints, 0))
      return n.error("divides whole numbers by zero");
    if (n.getNode().opType == "Mod" && a.isFloat() && !truncates)
      return n.error("takes the remainder of floating-point numbers without "
                     "fmod=1, which ONNX does not define");
    HostTensor x = broadcast(a, *shape), y = broadcast(b, *shape), result;
    result.elementType =
        rule.toBool ? n.getBuilder().getI1Type() : a.elementType;
    result.shape = *shape;
    for (int64_t i = 0; i < x.size(); ++i) {
      if (!a.isFloat() && truncates)
        result.ints.push_back(y.ints[i] == -1 ? 0 : x.ints[i] % y.ints[i]);
      else if (!a.isFloat())
        result.ints.push_back(
            wrap(result.elementType, rule.ints(x.ints[i], y.ints[i])));
      else if (rule.toBool)
        result.ints.push_back(rule.floats(x.floats[i], y.floats[i]) != 0);
      else
        result.floats.push_back(
            roundTo(a.elementType, rule.floats(x.floats[i], y.floats[i])));
    }
    return set(std::move(result));
  }

  LogicalResult foldUnary(const UnaryRule &rule) {
    HostTensor result = *n.host(0);
    if (!result.isFloat() && !rule.ints)
      return failure();
    for (double &value : result.floats)
      value = roundTo(result.elementType, rule.floats(value));
    for (int64_t &value : result.ints)
      value = wrap(result.elementType, rule.ints(value));
    return set(std::move(result));
  }

  LogicalResult foldCast() {
    const HostTensor &from = *n.host(0);
    n.ignoreFloat8Attributes();
    Type to = n.getNode().opType == "CastLike" ? n.host(1)->elementType
                                               : n.castTarget();
    if (!to)
      return failure();
    HostTensor result;
    result.elementType = to;
    result.shape = from.shape;
    for (int64_t i = 0; i < from.size(); ++i) {
      if (isa<FloatType>(to)) {
        double value =
            from.isFloat() ? from.floats[i] : static_cast<double>(from.ints[i]);
        result.floats.push_back(roundTo(to, value));
      } else if (to.isInteger(1)) {
        result.ints.push_back(from.isFloat() ? from.floats[i] != 0
                                             : from.ints[i] != 0);
      } else {
        result.ints.push_back(wrap(
            to, from.isFloat() ? toInteger(from.floats[i]) : from.ints[i]));
      }
    }
    return set(std::move(result));
  }

  LogicalResult foldNot() {
    HostTensor result = *n.host(0);
    for (int64_t &value : result.ints)
      value = !value;
    return set(std::move(result));
  }

  LogicalResult foldWhere() {
    const HostTensor &c = *n.host(0), &a = *n.host(1), &b = *n.host(2);
    auto values = commonShape(a.shape, b.shape);
    if (!values || a.elementType != b.elementType)
      return failure();
    auto shape = commonShape(*values, c.shape);
    if (!shape || !elementsOf(*shape))
      return failure();
    HostTensor condition = broadcast(c, *shape), x = broadcast(a, *shape);
    HostTensor y = broadcast(b, *shape);
    for (int64_t i = 0; i < x.size(); ++i)
      if (!condition.ints[i]) {
        if (x.isFloat())
          x.floats[i] = y.floats[i];
        else
          x.ints[i] = y.ints[i];
      }
    return set(std::move(x));
  }

  LogicalResult foldConcat() {
    // Lists only: that is what shapes are.
    HostTensor result = *n.host(0);
    int64_t axis = n.attribute("axis", int64_t{0});
    if (result.shape.size() != 1 || axis < -1 || axis > 0)
      return failure();
    for (size_t index = 1; index < n.numInputs(); ++index) {
      const HostTensor &next = *n.host(index);
      if (next.shape.size() != 1 || next.elementType != result.elementType)
        return failure();
      llvm::append_range(result.ints, next.ints);
      llvm::append_range(result.floats, next.floats);
    }
    result.shape = {result.size()};
    return set(std::move(result));
  }

  LogicalResult foldGather() {
    const HostTensor &data = *n.host(0), &indices = *n.host(1);
    if (data.shape.empty())
      return failure();
    int64_t rank = data.shape.size(), axis = n.attribute("axis", int64_t{0});
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis >= rank)
      return failure();
    SmallVector<int64_t> shape(ArrayRef(data.shape).take_front(axis));
    llvm::append_range(shape, indices.shape);
    shape.append(data.shape.begin() + axis + 1, data.shape.end());
    for (int64_t index : indices.ints)
      if (index < -data.shape[axis] || index >= data.shape[axis])
        return failure();
    if (!elementsOf(shape))
      return failure();
    int64_t inner = stridesOf(data.shape)[axis], count = indices.size();
    return set(pick(data, shape, [&](int64_t i) {
      int64_t index = indices.ints[i / inner % count];
      index = index < 0 ? index + data.shape[axis] : index;
      return (i / (inner * count) * data.shape[axis] + index) * inner +
             i % inner;
    }));
  }

  LogicalResult foldSlice() {
    const HostTensor &data = *n.host(0);
    if (data.shape.size() != 1 || n.numInputs() < 3)
      return failure();
    int64_t size = data.shape[0];
    for (size_t index = 1; index < n.numInputs(); ++index)
      if (n.hasInput(index) && n.host(index)->size() != 1)
        return failure();
    int64_t step = n.hasInput(4) ? n.host(4)->ints[0] : 1;
    if (step < 1 ||
        (n.hasInput(3) && n.host(3)->ints[0] != 0 && n.host(3)->ints[0] != -1))
      return failure();
    auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(
          at < 0 ? std::max<int64_t>(at, -size) + size : at, 0, size);
    };
    int64_t start = clamp(n.host(1)->ints[0]);
    int64_t end = std::max(start, clamp(n.host(2)->ints[0]));
    return set(pick(data, {(end - start + step - 1) / step},
                    [&](int64_t i) { return start + i * step; }));
  }

  LogicalResult foldReshape() {
    HostTensor result = *n.host(0);
    StringRef op = n.getNode().opType;
    int64_t rank = result.shape.size();
    if (op == "Unsqueeze" || op == "Squeeze") {
      auto axes = n.integers("axes", 1);
      if (failed(axes))
        return failure();
      int64_t newRank = op == "Unsqueeze" ? rank + axes->size() : rank;
      SmallVector<bool> named(newRank, false);
      for (int64_t axis : *axes) {
        axis = axis < 0 ? axis + newRank : axis;
        if (axis < 0 || axis >= newRank)
          return failure();
        named[axis] = true;
      }
      SmallVector<int64_t> shape;
      auto next = result.shape.begin();
      for (int64_t axis = 0; axis < newRank; ++axis) {
        if (op == "Unsqueeze") {
          shape.push_back(named[axis] ? 1 : *next++);
          continue;
        }
        bool drop = axes->empty() ? result.shape[axis] == 1 : named[axis];
        if (drop && result.shape[axis] != 1)
          return failure();
        if (!drop)
          shape.push_back(result.shape[axis]);
      }
      result.shape = shape;
      return set(std::move(result));
    }
    auto wanted = n.integers("shape", 1);
    if (failed(wanted) || n.attribute("allowzero", int64_t{0}))
      return failure();
    SmallVector<int64_t> shape(*wanted);
    int64_t known = 1, unknown = -1;
    for (auto [axis, size] : llvm::enumerate(shape)) {
      if (size == 0 && static_cast<int64_t>(axis) < rank)
        size = result.shape[axis];
      if (size == -1 && unknown < 0)
        unknown = axis;
      else if (size < 1 || llvm::MulOverflow(known, size, known))
        return failure();
    }
    if (unknown >= 0)
      shape[unknown] = result.size() / known;
    if (elementsOf(shape) != result.size())
      return failure();
    result.shape = shape;
    return set(std::move(result));
  }

  LogicalResult foldExpand() {
    SmallVector<int64_t> wanted(n.host(1)->ints.begin(), n.host(1)->ints.end());
    auto shape = commonShape(n.host(0)->shape, wanted);
    if (!shape || !elementsOf(*shape))
      return failure();
    return set(broadcast(*n.host(0), *shape));
  }

  LogicalResult foldConstantOfShape() {
    HostTensor result;
    result.elementType = n.getBuilder().getF32Type();
    result.floats = {0};
    if (auto *value = n.findAttribute("value");
        value && !value->tensors.empty()) {
      auto tensor = n.readTensor(value->tensors.front());
      if (!tensor) {
        llvm::consumeError(tensor.takeError());
        return failure();
      }
      result = std::move(*tensor);
    }
    if (result.size() != 1)
      return failure();
    SmallVector<int64_t> shape(n.host(0)->ints.begin(), n.host(0)->ints.end());
    if (!elementsOf(shape))
      return failure();
    result.shape.clear();
    return set(broadcast(result, shape));
  }

  LogicalResult foldRange() {
    const HostTensor &start = *n.host(0), &limit = *n.host(1),
                     &step = *n.host(2);
    if (start.size() != 1 || limit.size() != 1 || step.size() != 1)
      return failure();
    HostTensor result;
    result.elementType = start.elementType;
    double first = start.isFloat() ? start.floats[0] : start.ints[0];
    double last = start.isFloat() ? limit.floats[0] : limit.ints[0];
    double by = start.isFloat() ? step.floats[0] : step.ints[0];
    double count = by == 0 ? -1 : std::ceil((last - first) / by);
    if (!(count >= 0) || count > maxFoldedElements)
      return failure();
    for (int64_t i = 0; i < count; ++i) {
      if (start.isFloat())
        result.floats.push_back(first + i * by);
      else
        result.ints.push_back(start.ints[0] + i * step.ints[0]);
    }
    result.shape = {static_cast<int64_t>(count)};
    return set(std::move(result));
  }

  LogicalResult foldReduceProd() {
    const HostTensor &data = *n.host(0);
    auto axes = n.integers("axes", 1);
    if (failed(axes) || data.isFloat() || data.shape.size() != 1 ||
        (axes->empty() && n.attribute("noop_with_empty_axes", int64_t{0})) ||
        llvm::any_of(*axes, [](int64_t axis) { return axis && axis != -1; }))
      return failure();
    HostTensor result;
    result.elementType = data.elementType;
    result.ints = {1};
    (void)n.attribute("noop_with_empty_axes", int64_t{0});
    for (int64_t value : data.ints)
      if (llvm::MulOverflow(result.ints[0], value, result.ints[0]))
        return failure();
    if (n.attribute("keepdims", int64_t{1}))
      result.shape = {1};
    return set(std::move(result));
  }

  NodeImporter &n;
};

} // namespace

LogicalResult pp::foldNode(NodeImporter &importer) {
  return Folder(importer).run();
}
