//===- ExpandDoubles.cpp - Windows and norms of f64 by generated code -----===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>
#include <numeric>

namespace pp::nn {
#define GEN_PASS_DEF_EXPANDDOUBLES
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp::nn;

using Shape = SmallVector<int64_t>;

static int64_t product(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

/// The geometry of a window over the spatial axes of N x C x spatial.
struct Window {
  ArrayRef<int64_t> kernel, strides, dilations, low, high;

  template <typename Op>
  Window(Op op, ArrayRef<int64_t> kernel)
      : kernel(kernel), strides(op.getStrides()), dilations(op.getDilations()),
        low(op.getPadLow()), high(op.getPadHigh()) {}

  /// The place in the kernel of its element number `element`, row-major.
  Shape placeOf(int64_t element) const {
    Shape place(kernel.size());
    for (size_t axis = kernel.size(); axis-- > 0; element /= kernel[axis])
      place[axis] = element % kernel[axis];
    return place;
  }

  int64_t reach(size_t axis) const {
    return (kernel[axis] - 1) * dilations[axis] + 1;
  }
};

namespace {

/// Builds what `from` stands for, in front of it.
struct Expansion {
  Operation *from;
  OpBuilder builder{from};

  explicit Expansion(Operation *from) : from(from) {}

  /// A hint about the stage stays.
  template <typename Op, typename... Args> Value make(Args &&...args) {
    auto op = Op::create(builder, from->getLoc(), std::forward<Args>(args)...);
    op->setDiscardableAttrs(from->getDiscardableAttrDictionary());
    return op;
  }

  Value reshape(Value x, ArrayRef<int64_t> shape) {
    return make<ReshapeOp>(cast<RankedTensorType>(x.getType()).clone(shape), x);
  }

  Value splat(Value like, double value) {
    auto type = cast<RankedTensorType>(like.getType());
    return make<ConstantOp>(DenseElementsAttr::get(
        type, builder.getFloatAttr(type.getElementType(), value)));
  }

  /// One number for each channel, at all of its places in `like`.
  Value spread(Value channels, Value like) {
    return make<BroadcastOp>(like.getType(), channels, int64_t{1});
  }

  /// Pads the spatial axes.
  Value pad(Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
            ArrayRef<int64_t> interior, double value) {
    auto all = [](ArrayRef<int64_t> spatial) {
      Shape entries(2, 0);
      llvm::append_range(entries, spatial);
      return entries;
    };
    return make<PadOp>(x, all(low), all(high), all(interior),
                       llvm::APFloat(value));
  }

  Value pad(Value x, const Window &window, double value) {
    return pad(x, window.low, window.high, Shape(window.low.size(), 0), value);
  }

  /// What element number `element` of the kernel sees of the padded `x`, at
  /// each of the `positions` of the window.
  Value look(Value x, const Window &window, int64_t element,
             ArrayRef<int64_t> strides, ArrayRef<int64_t> positions) {
    Shape place = window.placeOf(element), starts(2, 0), steps(2, 1);
    Shape limits(shapeOf(x).take_front(2));
    for (auto [axis, count] : llvm::enumerate(positions)) {
      starts.push_back(place[axis] * window.dilations[axis]);
      steps.push_back(strides[axis]);
      limits.push_back(starts.back() + (count - 1) * strides[axis] + 1);
    }
    return make<SliceOp>(x, starts, limits, steps);
  }

  /// weight (G x O/G x k) times columns (N x G x k x P), as N x O x
  /// `positions`.
  Value multiply(Value weight, Value columns, ArrayRef<int64_t> positions) {
    ArrayRef<int64_t> rows = shapeOf(weight), seen = shapeOf(columns);
    auto type = cast<RankedTensorType>(columns.getType());
    Value y = make<DotGeneralOp>(
        type.clone({rows[0], rows[1], seen[0], seen[3]}), weight, columns,
        ArrayRef<int64_t>(0), ArrayRef<int64_t>(1), ArrayRef<int64_t>(2),
        ArrayRef<int64_t>(2));
    y = make<TransposeOp>(y, ArrayRef<int64_t>{2, 0, 1, 3});
    Shape shape = {seen[0], rows[0] * rows[1]};
    llvm::append_range(shape, positions);
    return reshape(y, shape);
  }

  /// The padded `x` as N x G x C/G*K x P: for each channel all that a window
  /// sees, in the kernel's order or in reverse.
  Value columns(Value x, const Window &window, ArrayRef<int64_t> strides,
                ArrayRef<int64_t> positions, int64_t groups, bool isReversed) {
    int64_t samples = shapeOf(x)[0], channels = shapeOf(x)[1] / groups;
    int64_t elements = product(window.kernel), places = product(positions);
    SmallVector<Value> parts;
    for (int64_t element = 0; element < elements; ++element)
      parts.push_back(
          reshape(look(x, window, isReversed ? elements - 1 - element : element,
                       strides, positions),
                  {samples, groups, channels, 1, places}));
    Value all = parts.size() == 1 ? parts[0] : make<ConcatOp>(parts, 3);
    return reshape(all, {samples, groups, channels * elements, places});
  }
};

/// A product of the weight with columns of all that each window sees.
Value expand(Expansion &e, ConvOp op) {
  ArrayRef<int64_t> weight = shapeOf(op.getWeight());
  int64_t groups = op.getGroups();
  Window window(op, weight.drop_front(2));
  ArrayRef<int64_t> positions = shapeOf(op.getOutput()).drop_front(2);
  Value columns = e.columns(e.pad(op.getInput(), window, 0), window,
                            op.getStrides(), positions, groups, false);
  Value rows = e.reshape(op.getWeight(), {groups, weight[0] / groups,
                                          product(weight.drop_front(1))});
  return e.multiply(rows, columns, positions);
}

/// A dense convolution with the mirrored kernel over `x` with strides - 1 zeros
/// between its elements.
Value expand(Expansion &e, ConvBackwardInputOp op) {
  Value x = op.getOutputGradient();
  ArrayRef<int64_t> weight = shapeOf(op.getWeight());
  ArrayRef<int64_t> positions = shapeOf(op.getOutput()).drop_front(2);
  int64_t groups = op.getGroups();
  Window window(op, weight.drop_front(2));
  Shape low, high, interior, starts(2, 0);
  Shape limits(shapeOf(x).take_front(2)), ones(positions.size(), 1);
  for (auto [axis, size] : llvm::enumerate(positions)) {
    int64_t reach = window.reach(axis), before = reach - 1 - window.low[axis];
    int64_t wide = (shapeOf(x)[axis + 2] - 1) * window.strides[axis] + 1;
    int64_t after = size + reach - 1 - before - wide;
    low.push_back(std::max<int64_t>(before, 0));
    high.push_back(std::max<int64_t>(after, 0));
    interior.push_back(window.strides[axis] - 1);
    starts.push_back(std::max<int64_t>(-before, 0));
    limits.push_back(starts.back() + size + reach - 1);
  }
  x = e.pad(x, low, high, interior, 0);
  x = e.make<SliceOp>(x, starts, limits, Shape(starts.size(), 1));
  Value columns = e.columns(x, window, ones, positions, groups, true);
  // Input channels of the convolution that this is the transpose of come last.
  int64_t inputs = weight[0] / groups, elements = product(window.kernel);
  Value rows = e.reshape(op.getWeight(), {groups, inputs, weight[1], elements});
  rows = e.make<TransposeOp>(rows, ArrayRef<int64_t>{0, 2, 1, 3});
  rows = e.reshape(rows, {groups, weight[1], inputs * elements});
  return e.multiply(rows, columns, positions);
}

/// The first maximum of what the elements of the kernel see, or NaN.
Value expand(Expansion &e, MaxPoolOp op) {
  Window window(op, op.getKernel());
  ArrayRef<int64_t> positions = shapeOf(op.getOutput()).drop_front(2);
  Value x =
      e.pad(op.getInput(), window, -std::numeric_limits<double>::infinity());
  Value most = e.look(x, window, 0, op.getStrides(), positions);
  for (int64_t i = 1; i < product(op.getKernel()); ++i) {
    Value next = e.look(x, window, i, op.getStrides(), positions);
    Value isMore = e.make<CompareOp>(Comparison::gt, next, most);
    Value isNaN = e.make<CompareOp>(Comparison::ne, next, next);
    most = e.make<SelectOp>(e.make<OrOp>(isMore, isNaN), next, most);
  }
  return most;
}

/// How many elements of a window lie inside, at each of its positions.
Value countInside(Expansion &e, const Window &window, ArrayRef<int64_t> input,
                  Value like) {
  ArrayRef<int64_t> positions = shapeOf(like).drop_front(2);
  SmallVector<double> counts;
  for (int64_t index = 0; index < product(positions); ++index) {
    int64_t rest = index, count = 1;
    for (size_t axis = positions.size(); axis-- > 0;) {
      int64_t first = rest % positions[axis] * window.strides[axis];
      int64_t inside = 0;
      for (int64_t i = 0; i < window.kernel[axis]; ++i) {
        int64_t at = first + i * window.dilations[axis] - window.low[axis];
        inside += at >= 0 && at < input[axis];
      }
      count *= inside;
      rest /= positions[axis];
    }
    counts.push_back(static_cast<double>(count));
  }
  auto type = cast<RankedTensorType>(like.getType());
  Value table = e.make<ConstantOp>(
      DenseElementsAttr::get(type.clone(positions), ArrayRef<double>(counts)));
  return e.make<BroadcastOp>(
      type, table, llvm::to_vector(llvm::seq<int64_t>(2, type.getRank())));
}

Value expand(Expansion &e, AvgPoolOp op) {
  Window window(op, op.getKernel());
  ArrayRef<int64_t> positions = shapeOf(op.getOutput()).drop_front(2);
  Value x = e.pad(op.getInput(), window, 0);
  int64_t elements = product(op.getKernel());
  Value sum = e.look(x, window, 0, op.getStrides(), positions);
  for (int64_t i = 1; i < elements; ++i)
    sum = e.make<AddOp>(sum, e.look(x, window, i, op.getStrides(), positions));
  if (op.getIncludePad())
    return e.make<DivOp>(sum, e.splat(sum, static_cast<double>(elements)));
  return e.make<DivOp>(
      sum, countInside(e, window, shapeOf(op.getInput()).drop_front(2), sum));
}

/// The norm, the mean and the population variance of each channel.
SmallVector<Value> expand(Expansion &e, BatchNormOp op) {
  Value x = op.getInput();
  Shape others = {0};
  for (int64_t axis = 2; axis < op.getInput().getType().getRank(); ++axis)
    others.push_back(axis);
  auto mean = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t count =
        type.getNumElements() / op.getMean().getType().getDimSize(0);
    if (!op.getRows()) {
      Value sum = e.make<ReduceOp>(Reduction::sum, value, others);
      return e.make<DivOp>(sum, e.splat(sum, static_cast<double>(count)));
    }
    auto numbers = type.clone(
        cast<RankedTensorType>(op.getRows().getType()).getElementType());
    Value isPresent = e.make<CompareOp>(
        type.clone(IntegerType::get(type.getContext(), 1)), Comparison::lt,
        e.make<IotaOp>(numbers, 0),
        e.make<BroadcastOp>(numbers, op.getRows(), ArrayRef<int64_t>()));
    Value sum = e.make<ReduceOp>(
        Reduction::sum, e.make<SelectOp>(isPresent, value, e.splat(value, 0)),
        others);
    double ofRow =
        static_cast<double>(count) / static_cast<double>(type.getDimSize(0));
    Value rows = e.make<CastOp>(type.clone(ArrayRef<int64_t>()), op.getRows());
    Value elements = e.make<MulOp>(rows, e.splat(rows, ofRow));
    return e.make<DivOp>(
        sum, e.make<BroadcastOp>(sum.getType(), elements, ArrayRef<int64_t>()));
  };
  Value centre = mean(x);
  Value centred = e.make<SubOp>(x, e.spread(centre, x));
  Value variance = mean(e.make<MulOp>(centred, centred));
  Value epsilon = e.splat(variance, op.getEpsilon().convertToDouble());
  Value deviation = e.make<SqrtOp>(e.make<AddOp>(variance, epsilon));
  Value factor = e.make<DivOp>(op.getScale(), deviation);
  Value scaled = e.make<MulOp>(centred, e.spread(factor, x));
  Value y = e.make<AddOp>(scaled, e.spread(op.getShift(), x));
  return {y, centre, variance};
}

struct ExpandDoubles : pp::nn::impl::ExpandDoublesBase<ExpandDoubles> {
  using ExpandDoublesBase::ExpandDoublesBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    for (Operation &op :
         llvm::make_early_inc_range(function->getBody().front())) {
      if (op.getNumResults() == 0 ||
          !getElementTypeOrSelf(op.getResult(0).getType()).isF64())
        continue;
      Expansion e(&op);
      SmallVector<Value> results =
          llvm::TypeSwitch<Operation *, SmallVector<Value>>(&op)
              .Case<ConvOp, ConvBackwardInputOp, MaxPoolOp, AvgPoolOp>(
                  [&](auto known) {
                    return SmallVector<Value>{expand(e, known)};
                  })
              .Case([&](BatchNormOp known) { return expand(e, known); })
              .Default(SmallVector<Value>());
      if (results.empty())
        continue;
      op.replaceAllUsesWith(results);
      op.erase();
    }
  }
};

} // namespace
