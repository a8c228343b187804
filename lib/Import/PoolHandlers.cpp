//===- PoolHandlers.cpp - ONNX pools, and what undoes them ----------------===//

#include "Expressions.h"
#include "Window.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {
enum class Pool { Max, Average, Norm };
} // namespace

/// |x|^p.
static Value powerOf(NodeImporter &n, Value x, double p) {
  Value magnitude = n.make<AbsOp>(x);
  return p == 1   ? magnitude
         : p == 2 ? Value(n.make<MulOp>(x, x))
                  : Value(n.make<PowOp>(magnitude, n.splat(n.type(x), p)));
}

/// The p-th root of sums of |x|^p. Of zeros the derivative is 0, as in PyTorch.
static Value rootOf(NodeImporter &n, Value sum, double p) {
  if (p == 1)
    return sum;
  Value zero = n.splat(n.type(sum), 0), one = n.splat(n.type(sum), 1);
  Value isZero = n.make<CompareOp>(Comparison::eq, sum, zero);
  Value safe = n.make<SelectOp>(isZero, one, sum);
  Value root = p == 2 ? Value(n.make<SqrtOp>(safe))
                      : Value(n.make<PowOp>(safe, n.splat(n.type(sum), 1 / p)));
  return n.make<SelectOp>(isZero, zero, root);
}

/// The exponent of a norm; fails with an error where it is none.
static FailureOr<double> readExponent(NodeImporter &n) {
  const onnx::Attribute *given = n.findAttribute("p");
  double p = 2;
  // A float in the first opset.
  if (given)
    p = given->kind == onnx::Attribute::Kind::Float
            ? static_cast<double>(given->f)
            : static_cast<double>(given->i);
  if (p > 0)
    return p;
  return n.error("takes a norm with the exponent " +
                 llvm::Twine(std::to_string(p)));
}

/// Means over whole windows as means over what of them is inside of the input
/// and of the padding, which ends after `high` elements; null with an error.
static Value withoutOverhang(NodeImporter &n, Value y, ArrayRef<int64_t> input,
                             const Window &window, ArrayRef<int64_t> high) {
  ArrayRef<int64_t> sizes = n.shape(y).drop_front(2);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] > maxConstantElements) {
      (void)n.error("has partial windows along an axis of more than " +
                    llvm::Twine(maxConstantElements) + " elements");
      return nullptr;
    }
    SmallVector<Attribute> factors;
    auto element = cast<FloatType>(n.type(y).getElementType());
    for (int64_t place = 0; place < sizes[axis]; ++place) {
      int64_t inside = 0;
      for (int64_t tap = 0; tap < window.kernel[axis]; ++tap)
        inside += place * window.strides[axis] + tap * window.dilations[axis] <
                  window.low[axis] + input[axis] + high[axis];
      factors.push_back(
          FloatAttr::get(element, static_cast<double>(window.kernel[axis]) /
                                      static_cast<double>(inside)));
    }
    Value line = n.constant(Constant(DenseElementsAttr::get(
        RankedTensorType::get(sizes[axis], element), factors)));
    Value own =
        n.make<BroadcastOp>(n.type(y), line, static_cast<int64_t>(axis) + 2);
    y = n.make<MulOp>(y, own);
  }
  return y;
}

/// Where in the sample the maximum of each window is, in the order of
/// `storage_order`, and from there in the whole input; null with an error.
static Value placesOfMaxima(NodeImporter &n, Value x, const Window &window,
                            ArrayRef<int64_t> output) {
  constexpr int64_t maxTaps = 1024;
  SmallVector<int64_t> input(n.shape(x));
  size_t spatial = output.size();
  int64_t taps = 1;
  for (int64_t size : window.kernel)
    if (llvm::MulOverflow(taps, size, taps) || taps > maxTaps) {
      (void)n.error("tells the places of maxima in windows of more than " +
                    llvm::Twine(maxTaps) + " elements");
      return nullptr;
    }
  Expressions e{n};
  bool columnsFirst = n.attribute("storage_order", int64_t{0}) != 0;
  SmallVector<int64_t> factors(input.size(), 1), last;
  int64_t factor = 1;
  for (size_t axis = 0; axis < spatial; ++axis) {
    size_t turn = 2 + (columnsFirst ? axis : spatial - 1 - axis);
    factors[turn] = factor;
    factor *= input[turn];
  }
  factors[1] = factor;
  factors[0] = factor * input[1];
  SmallVector<int64_t> low(input.size(), 0), high(low), interior(low);
  for (size_t axis = 0; axis < spatial; ++axis) {
    low[axis + 2] = window.low[axis];
    high[axis + 2] = window.high[axis];
  }
  double nothing = -std::numeric_limits<double>::infinity();
  auto element = cast<FloatType>(n.type(x).getElementType());
  APFloat fill =
      cast<FloatAttr>(n.getBuilder().getFloatAttr(element, nothing)).getValue();
  Value padded = n.make<PadOp>(x, low, high, interior, fill);
  SmallVector<int64_t> shape = {input[0], input[1]};
  llvm::append_range(shape, output);
  // Of the first tap of each window, in its channel.
  Value origin = e.mul(e.iota(shape, 1), static_cast<double>(factors[1]));
  for (size_t axis = 0; axis < spatial; ++axis) {
    Value at = e.add(e.mul(e.iota(shape, static_cast<int64_t>(axis) + 2),
                           static_cast<double>(window.strides[axis])),
                     static_cast<double>(-window.low[axis]));
    origin = e.add(origin, e.mul(at, static_cast<double>(factors[axis + 2])));
  }
  Value best, place;
  for (int64_t tap = 0; tap < taps; ++tap) {
    SmallVector<int64_t> starts(input.size(), 0), limits(n.shape(padded));
    SmallVector<int64_t> strides(input.size(), 1);
    int64_t rest = tap, distance = 0;
    for (size_t axis = spatial; axis-- > 0;) {
      int64_t start = rest % window.kernel[axis] * window.dilations[axis];
      rest /= window.kernel[axis];
      starts[axis + 2] = start;
      strides[axis + 2] = window.strides[axis];
      limits[axis + 2] = start + (output[axis] - 1) * window.strides[axis] + 1;
      distance += start * factors[axis + 2];
    }
    Value own = n.make<SliceOp>(padded, starts, limits, strides);
    Value at = e.add(origin, static_cast<double>(distance));
    if (!best) {
      best = own;
      place = at;
      continue;
    }
    Value wins = e.compare(Comparison::gt, own, best);
    best = e.select(wins, own, best);
    place = e.select(wins, at, place);
  }
  // Samples are counted last, so that what reads the rest need not know them.
  return e.add(place, e.mul(e.iota(shape, 0), static_cast<double>(factors[0])));
}

/// Places in the whole of a tensor as places in each sample, which has `size`
/// elements.
static Value placesInSample(Expressions &e, Value places, int64_t size) {
  auto sum = places.getDefiningOp<AddOp>();
  auto product = sum ? sum.getRhs().getDefiningOp<MulOp>() : MulOp();
  auto count = product ? product.getLhs().getDefiningOp<IotaOp>() : IotaOp();
  if (count && count.getAxis() == 0)
    return sum.getLhs();
  return e.binary<RemOp>(places, e.number(places, static_cast<double>(size)));
}

static LogicalResult maxUnpool(NodeImporter &n) {
  Value x = n.tensor(0), places = n.tensor(1);
  if (!x || !places)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  if (shape.size() < 3 || n.shape(places) != ArrayRef<int64_t>(shape))
    return n.error("has places of another shape than its input");
  ArrayRef<int64_t> input = ArrayRef(shape).drop_front(2);
  auto window =
      readWindow(n, input, n.attribute("kernel_shape", ArrayRef<int64_t>()));
  if (failed(window))
    return failure();
  SmallVector<int64_t> whole = {shape[0], shape[1]};
  for (size_t axis = 0; axis < input.size(); ++axis)
    whole.push_back((input[axis] - 1) * window->strides[axis] +
                    window->kernel[axis] - window->low[axis] -
                    window->high[axis]);
  if (isTooLarge(whole) || *llvm::min_element(whole) < 1)
    return n.error("makes a tensor without or with too many elements");
  SmallVector<int64_t> wanted(whole);
  if (n.hasInput(2)) {
    auto given = n.integers("", 2);
    if (failed(given))
      return failure();
    wanted = *given;
    bool fits = wanted.size() == whole.size() && !isTooLarge(wanted);
    for (size_t axis = 0; fits && axis < whole.size(); ++axis)
      fits =
          axis < 2 ? wanted[axis] == whole[axis] : wanted[axis] >= whole[axis];
    if (!fits)
      return n.error("has an output_shape that is smaller than what it makes");
  }
  Expressions e{n};
  int64_t elements = 1, size = 1;
  for (size_t axis = 1; axis < whole.size(); ++axis) {
    elements *= shape[axis];
    size *= whole[axis];
  }
  places = n.reshape(placesInSample(e, places, size), {shape[0], elements});
  Value zeros = n.splat(n.type(x).clone({shape[0], size}), 0);
  Value y = n.make<ScatterOp>(zeros, places, n.reshape(x, {shape[0], elements}),
                              int64_t{1}, int64_t{1}, ReductionAttr());
  y = n.reshape(y, whole);
  SmallVector<int64_t> none(whole.size(), 0), high;
  for (auto [own, asked] : llvm::zip(whole, wanted))
    high.push_back(asked - own);
  if (wanted != whole)
    y = n.make<PadOp>(y, none, high, none,
                      cast<FloatAttr>(n.getBuilder().getFloatAttr(
                                          n.type(y).getElementType(), 0.0))
                          .getValue());
  n.setOutput(0, y);
  return success();
}

template <Pool kind> static LogicalResult pool(NodeImporter &n) {
  constexpr bool isMax = kind == Pool::Max;
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> input = n.shape(x);
  if (input.size() < 3)
    return n.error("has an input of rank " + llvm::Twine(input.size()));
  // The order of indices.
  if (!n.wantsOutput(1))
    n.ignoreAttribute("storage_order");
  auto window = readWindow(n, input.drop_front(2),
                           n.attribute("kernel_shape", ArrayRef<int64_t>()));
  if (failed(window))
    return failure();
  for (size_t axis = 0; axis < window->kernel.size(); ++axis)
    if (std::max(window->low[axis], window->high[axis]) >= window->reach(axis))
      return n.error("pads spatial axis " + llvm::Twine(axis) +
                     " by a whole window");
  SmallVector<int64_t> high(window->high);
  if (n.attribute("ceil_mode", int64_t{0}) != 0) {
    // The last, partial window counts where it begins inside.
    for (size_t axis = 0; axis < window->kernel.size(); ++axis) {
      int64_t padded = input[axis + 2] + window->low[axis] + window->high[axis];
      int64_t room = padded - window->reach(axis);
      int64_t stride = window->strides[axis];
      int64_t last = (room + stride - 1) / stride * stride;
      if (room % stride != 0 && last < input[axis + 2] + window->low[axis])
        window->high[axis] += last - room;
    }
  }
  auto spatial = slide(n, *window, input.drop_front(2));
  if (failed(spatial))
    return failure();
  SmallVector<int64_t> shape = {input[0], input[1]};
  llvm::append_range(shape, *spatial);
  auto type = n.type(x).clone(shape);
  if (isMax) {
    // Integers of 8 bits, which floating-point numbers hold.
    Type own = type.getElementType(), real = own;
    if (!isa<FloatType>(own))
      real = n.getBuilder().getF32Type();
    Value y = n.make<MaxPoolOp>(type.clone(real), n.cast(x, real),
                                window->kernel, window->strides,
                                window->dilations, window->low, window->high);
    n.setOutput(0, n.cast(y, own));
    if (n.wantsOutput(1)) {
      Value places = placesOfMaxima(n, n.cast(x, real), *window, *spatial);
      if (!places)
        return failure();
      n.setOutput(1, places);
    }
  }
  if (kind == Pool::Average) {
    bool includePad = n.attribute("count_include_pad", int64_t{0}) != 0;
    Value y = n.make<AvgPoolOp>(type, x, window->kernel, window->strides,
                                window->dilations, window->low, window->high,
                                includePad);
    // What a partial window has outside of the padding is no padding.
    if (includePad && high != window->high)
      y = withoutOverhang(n, y, input.drop_front(2), *window, high);
    if (!y)
      return failure();
    n.setOutput(0, y);
  }
  if (kind != Pool::Norm)
    return success();
  auto p = readExponent(n);
  if (failed(p))
    return failure();
  double count = 1;
  for (int64_t size : window->kernel)
    count *= static_cast<double>(size);
  Value average = n.make<AvgPoolOp>(
      type, powerOf(n, x, *p), window->kernel, window->strides,
      window->dilations, window->low, window->high, /*countIncludePad=*/true);
  Value sum = n.make<MulOp>(average, n.splat(type, count));
  n.setOutput(0, rootOf(n, sum, *p));
  return success();
}

static LogicalResult globalNormPool(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  if (n.shape(x).size() < 3)
    return n.error("has an input of rank " + llvm::Twine(n.shape(x).size()));
  auto p = readExponent(n);
  if (failed(p))
    return failure();
  SmallVector<int64_t> axes;
  for (size_t axis = 2; axis < n.shape(x).size(); ++axis)
    axes.push_back(axis);
  Value sum = n.reduce(Reduction::sum, powerOf(n, x, *p), axes, true);
  n.setOutput(0, rootOf(n, sum, *p));
  return success();
}

template <bool isMax> static LogicalResult globalPool(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  if (n.shape(x).size() < 3)
    return n.error("has an input of rank " + llvm::Twine(n.shape(x).size()));
  SmallVector<int64_t> axes;
  for (size_t axis = 2; axis < n.shape(x).size(); ++axis)
    axes.push_back(axis);
  n.setOutput(0, isMax ? n.reduce(Reduction::max, x, axes, true)
                       : n.mean(x, axes, true));
  return success();
}

ArrayRef<ImportedOperator> pp::poolOperators() {
  static const Choice padding = {
      "auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}};
  static const ImportedOperator entries[] = {
      {.name = "AveragePool",
       .handler = pool<Pool::Average>,
       .types = floatTypes,
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "GlobalAveragePool",
       .handler = globalPool<false>,
       .types = floatTypes},
      {.name = "GlobalLpPool", .handler = globalNormPool, .types = floatTypes},
      {.name = "GlobalMaxPool",
       .handler = globalPool<true>,
       .types = floatTypes},
      {.name = "LpPool",
       .handler = pool<Pool::Norm>,
       .types = floatTypes,
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "MaxPool",
       .handler = pool<Pool::Max>,
       .types = floatTypes | 1 << static_cast<int>(onnx::DataType::Int32),
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "MaxUnpool",
       .handler = maxUnpool,
       .types = floatTypes,
       .known = {{"output_shape"}},
       .note = "one to three spatial axes"},
  };
  return entries;
}
