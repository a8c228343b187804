//===- LinearHandlers.cpp - ONNX products, convolutions and pooling -------===//

#include "Products.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

static std::string text(ArrayRef<int64_t> shape) {
  std::string result;
  llvm::raw_string_ostream(result) << "[" << llvm::interleaved(shape) << "]";
  return result;
}

/// Adds input #2, one number per channel, where the node has it.
static LogicalResult addBias(NodeImporter &n, Value &value) {
  if (!n.hasInput(2))
    return success();
  Value bias = n.tensor(2);
  if (!bias)
    return failure();
  int64_t channels = n.shape(value)[1];
  if (n.shape(bias) != ArrayRef<int64_t>(channels))
    return n.error("has a bias of shape " + text(n.shape(bias)) + " for " +
                   llvm::Twine(channels) + " channels");
  value = n.make<AddOp>(
      value, Value(n.make<BroadcastOp>(value.getType(), bias, int64_t{1})));
  return success();
}

static LogicalResult gemm(NodeImporter &n) {
  Value a = n.tensor(0), b = n.tensor(1);
  if (!a || !b)
    return failure();
  if (n.shape(a).size() != 2 || n.shape(b).size() != 2)
    return n.error("multiplies tensors of shapes " + text(n.shape(a)) +
                   " and " + text(n.shape(b)) + "; both must be matrices");
  bool transA = n.attribute("transA", int64_t{0}) != 0;
  bool transB = n.attribute("transB", int64_t{0}) != 0;
  int64_t aK = transA ? 0 : 1, bK = transB ? 1 : 0;
  if (n.shape(a)[aK] != n.shape(b)[bK])
    return n.error("contracts " + llvm::Twine(n.shape(a)[aK]) +
                   " columns of A with " + llvm::Twine(n.shape(b)[bK]) +
                   " rows of B");
  SmallVector<int64_t> shape = {n.shape(a)[1 - aK], n.shape(b)[1 - bK]};
  ArrayRef<int64_t> none;
  Value y =
      n.make<DotGeneralOp>(n.type(a).clone(shape), a, b, none, none, aK, bK);
  n.ignoreAttribute("broadcast");
  double alpha = n.attribute("alpha", 1.0), beta = n.attribute("beta", 1.0);
  if (alpha != 1.0)
    y = n.make<MulOp>(y, n.splat(n.type(y), alpha));
  if (n.hasInput(2) && beta != 0.0) {
    Value c = n.tensor(2);
    if (!c)
      return failure();
    if (beta != 1.0)
      c = n.make<MulOp>(c, n.splat(n.type(c), beta));
    Value result = y;
    bool broadcasts = n.attribute("broadcast", int64_t{n.opset() >= 7}) != 0;
    if (!broadcasts && n.shape(c) != n.shape(y))
      return n.error("input C has another shape than A * B; before opset 7 "
                     "that needs the attribute broadcast=1");
    if (failed(n.broadcastTogether(result, c)))
      return failure();
    if (result != y)
      return n.error("input C has a larger shape than A * B");
    y = n.make<AddOp>(y, c);
  }
  n.setOutput(0, y);
  return success();
}

Value pp::importMatMul(NodeImporter &n, Value a, Value b) {
  int64_t aRank = n.shape(a).size(), bRank = n.shape(b).size();
  if (aRank < 1 || bRank < 1) {
    (void)n.error("multiplies a scalar");
    return nullptr;
  }
  int64_t aK = aRank - 1, bK = bRank == 1 ? 0 : bRank - 2;
  if (n.shape(a)[aK] != n.shape(b)[bK]) {
    (void)n.error("shapes " + text(n.shape(a)) + " and " + text(n.shape(b)) +
                  " do not contract");
    return nullptr;
  }
  if (bRank <= 2) {
    // A weight: the axes of A before the last are all rows.
    SmallVector<int64_t> shape(n.shape(a).drop_back());
    if (bRank == 2)
      shape.push_back(n.shape(b)[1]);
    ArrayRef<int64_t> none;
    return n.make<DotGeneralOp>(n.type(a).clone(shape), a, b, none, none, aK,
                                bK);
  }
  // Batch axes broadcast like numpy's.
  SmallVector<int64_t> aBatch(n.shape(a).drop_back(aRank == 1 ? 1 : 2));
  SmallVector<int64_t> bBatch(n.shape(b).drop_back(2)), batch;
  size_t rank = std::max(aBatch.size(), bBatch.size());
  aBatch.insert(aBatch.begin(), rank - aBatch.size(), 1);
  bBatch.insert(bBatch.begin(), rank - bBatch.size(), 1);
  for (auto [x, y] : llvm::zip(aBatch, bBatch)) {
    if (x != y && x != 1 && y != 1) {
      (void)n.error("batch axes of " + text(n.shape(a)) + " and " +
                    text(n.shape(b)) + " do not broadcast");
      return nullptr;
    }
    batch.push_back(std::max(x, y));
  }
  SmallVector<int64_t> aShape(batch), bShape(batch), axes, shape(batch);
  if (aRank > 1) {
    aShape.push_back(n.shape(a)[aRank - 2]);
    shape.push_back(aShape.back());
  }
  aShape.push_back(n.shape(a)[aK]);
  bShape.append({n.shape(b)[bK], n.shape(b)[bRank - 1]});
  shape.push_back(bShape.back());
  a = n.broadcastTo(a, aShape);
  b = n.broadcastTo(b, bShape);
  for (size_t axis = 0; axis < rank; ++axis)
    axes.push_back(axis);
  int64_t aContract = aShape.size() - 1, bContract = rank;
  return n.make<DotGeneralOp>(n.type(a).clone(shape), a, b, axes, axes,
                              aContract, bContract);
}

static LogicalResult matMul(NodeImporter &n) {
  Value a = n.tensor(0), b = n.tensor(1);
  Value y = a && b ? importMatMul(n, a, b) : Value();
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

//===----------------------------------------------------------------------===//
// Convolutions and pooling
//===----------------------------------------------------------------------===//

namespace {
/// Strides, dilations and padding per spatial axis.
struct Window {
  SmallVector<int64_t> kernel, strides, dilations, low, high;

  int64_t reach(size_t axis) const {
    return (kernel[axis] - 1) * dilations[axis] + 1;
  }
};
} // namespace

/// Reads the attributes that convolutions and pooling share. `input` has the
/// spatial sizes.
static FailureOr<Window> readWindow(NodeImporter &n, ArrayRef<int64_t> input,
                                    ArrayRef<int64_t> kernel) {
  size_t spatial = input.size();
  Window window;
  SmallVector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides = n.attribute("strides", ones);
  window.dilations = n.attribute("dilations", ones);
  SmallVector<int64_t> pads = n.attribute("pads", zeros);
  if (spatial < 1 || spatial > 3) {
    (void)n.error("has " + llvm::Twine(spatial) +
                  " spatial axes; one to three are supported");
    return failure();
  }
  if (window.kernel.size() != spatial || window.strides.size() != spatial ||
      window.dilations.size() != spatial || pads.size() != 2 * spatial) {
    (void)n.error("has attributes that do not fit its " + llvm::Twine(spatial) +
                  " spatial axes");
    return failure();
  }
  constexpr int64_t limit = int64_t{1} << 31;
  for (size_t axis = 0; axis < spatial; ++axis)
    for (int64_t value :
         {window.kernel[axis], window.strides[axis], window.dilations[axis]})
      if (value < 1 || value >= limit) {
        (void)n.error("has a kernel, stride or dilation of " +
                      llvm::Twine(value) + " on spatial axis " +
                      llvm::Twine(axis));
        return failure();
      }
  for (int64_t pad : pads)
    if (pad < 0 || pad >= limit) {
      (void)n.error("has a padding of " + llvm::Twine(pad));
      return failure();
    }
  window.low.assign(pads.begin(), pads.begin() + spatial);
  window.high.assign(pads.begin() + spatial, pads.end());
  std::string automatic = n.attribute("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t axis = 0; axis < spatial; ++axis) {
      int64_t positions =
          (input[axis] + window.strides[axis] - 1) / window.strides[axis];
      int64_t total =
          std::max<int64_t>(0, (positions - 1) * window.strides[axis] +
                                   window.reach(axis) - input[axis]);
      int64_t small = total / 2, large = total - small;
      window.low[axis] = automatic == "SAME_UPPER" ? small : large;
      window.high[axis] = automatic == "SAME_UPPER" ? large : small;
    }
  } else if (automatic == "VALID") {
    window.low.assign(spatial, 0);
    window.high.assign(spatial, 0);
  }
  return window;
}

/// The spatial sizes that a window slides to; an error if it does not fit.
static FailureOr<SmallVector<int64_t>>
slide(NodeImporter &n, const Window &window, ArrayRef<int64_t> input) {
  SmallVector<int64_t> output;
  for (size_t axis = 0; axis < input.size(); ++axis) {
    int64_t room =
        input[axis] + window.low[axis] + window.high[axis] - window.reach(axis);
    if (room < 0) {
      (void)n.error(
          "its window of " + llvm::Twine(window.reach(axis)) +
          " does not fit into " +
          llvm::Twine(input[axis] + window.low[axis] + window.high[axis]) +
          " on spatial axis " + llvm::Twine(axis));
      return failure();
    }
    output.push_back(room / window.strides[axis] + 1);
  }
  return output;
}

Value pp::importConv(NodeImporter &n, Value x, Value w) {
  ArrayRef<int64_t> input = n.shape(x), weight = n.shape(w);
  if (input.size() < 3 || weight.size() != input.size()) {
    (void)n.error("has an input of shape " + text(input) +
                  " and a weight of shape " + text(weight));
    return nullptr;
  }
  int64_t groups = n.attribute("group", int64_t{1});
  if (groups < 1 || groups > input[1] || input[1] != weight[1] * groups ||
      weight[0] % groups) {
    (void)n.error("has " + llvm::Twine(input[1]) +
                  " input channels, which a weight of shape " + text(weight) +
                  " in " + llvm::Twine(groups) + " groups does not take");
    return nullptr;
  }
  SmallVector<int64_t> given =
      n.attribute("kernel_shape", weight.drop_front(2));
  if (ArrayRef<int64_t>(given) != weight.drop_front(2)) {
    (void)n.error("attribute kernel_shape is " + text(given) +
                  ", but the weight has " + text(weight.drop_front(2)));
    return nullptr;
  }
  auto window = readWindow(n, input.drop_front(2), given);
  if (failed(window))
    return nullptr;
  auto spatial = slide(n, *window, input.drop_front(2));
  if (failed(spatial))
    return nullptr;
  SmallVector<int64_t> shape = {input[0], weight[0]};
  llvm::append_range(shape, *spatial);
  Value y =
      n.make<ConvOp>(n.type(x).clone(shape), x, w, window->strides,
                     window->dilations, window->low, window->high, groups);
  return y;
}

static LogicalResult conv(NodeImporter &n) {
  Value x = n.tensor(0), w = n.tensor(1);
  Value y = x && w ? importConv(n, x, w) : Value();
  if (!y || failed(addBias(n, y)))
    return failure();
  n.setOutput(0, y);
  return success();
}

/// Sets the padding of a transposed convolution whose node states the size of
/// the output: what the window reaches beyond it, or less, is cut off.
static LogicalResult fitToOutput(NodeImporter &n, ArrayRef<int64_t> input,
                                 Window &window,
                                 SmallVectorImpl<int64_t> &extra) {
  std::string automatic = n.attribute("auto_pad", "NOTSET");
  bool isSame = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  const onnx::Attribute *stated = n.findAttribute("output_shape");
  if (!stated && !isSame)
    return success();
  size_t spatial = input.size();
  SmallVector<int64_t> sizes;
  if (stated)
    // Samples and channels may be stated too.
    sizes = stated->ints.size() < spatial
                ? SmallVector<int64_t>()
                : llvm::to_vector(ArrayRef(stated->ints).take_back(spatial));
  else
    for (size_t axis = 0; axis < spatial; ++axis)
      sizes.push_back(input[axis] * window.strides[axis]);
  if (sizes.size() != spatial)
    return n.error("attribute output_shape does not fit its " +
                   llvm::Twine(spatial) + " spatial axes");
  for (size_t axis = 0; axis < spatial; ++axis) {
    if (sizes[axis] < 1 || sizes[axis] > maxElements || extra[axis] < 0 ||
        extra[axis] > maxElements)
      return n.error("has an output of size " + llvm::Twine(sizes[axis]) +
                     " on spatial axis " + llvm::Twine(axis));
    int64_t total = (input[axis] - 1) * window.strides[axis] +
                    window.reach(axis) + extra[axis] - sizes[axis];
    if (total < 0)
      extra[axis] -= total;
    total = std::max<int64_t>(total, 0);
    int64_t small = total / 2, large = total - small;
    window.low[axis] = automatic == "SAME_UPPER" ? small : large;
    window.high[axis] = automatic == "SAME_UPPER" ? large : small;
  }
  return success();
}

static LogicalResult convTranspose(NodeImporter &n) {
  Value x = n.tensor(0), w = n.tensor(1);
  if (!x || !w)
    return failure();
  ArrayRef<int64_t> input = n.shape(x), weight = n.shape(w);
  if (input.size() < 3 || weight.size() != input.size())
    return n.error("has an input of shape " + text(input) +
                   " and a weight of shape " + text(weight));
  int64_t groups = n.attribute("group", int64_t{1});
  if (groups < 1 || groups > input[1] || input[1] != weight[0] ||
      weight[0] % groups)
    return n.error("has " + llvm::Twine(input[1]) +
                   " input channels, which a weight of shape " + text(weight) +
                   " in " + llvm::Twine(groups) + " groups does not take");
  SmallVector<int64_t> given =
      n.attribute("kernel_shape", weight.drop_front(2));
  if (ArrayRef<int64_t>(given) != weight.drop_front(2))
    return n.error("attribute kernel_shape is " + text(given) +
                   ", but the weight has " + text(weight.drop_front(2)));
  auto window = readWindow(n, input.drop_front(2), given);
  if (failed(window))
    return failure();
  SmallVector<int64_t> zeros(input.size() - 2, 0);
  SmallVector<int64_t> extra = n.attribute("output_padding", zeros);
  if (extra.size() != zeros.size())
    return n.error("attribute output_padding has the wrong length");
  if (failed(fitToOutput(n, input.drop_front(2), *window, extra)))
    return failure();
  SmallVector<int64_t> shape = {input[0], weight[1] * groups};
  for (size_t axis = 0; axis < zeros.size(); ++axis) {
    int64_t size = (input[axis + 2] - 1) * window->strides[axis] +
                   window->reach(axis) - window->low[axis] -
                   window->high[axis] + extra[axis];
    if (size < 1 || extra[axis] < 0 ||
        extra[axis] >= std::max(window->strides[axis], window->dilations[axis]))
      return n.error("has an output of size " + llvm::Twine(size) +
                     " on spatial axis " + llvm::Twine(axis));
    shape.push_back(size);
  }
  Value y = n.make<ConvBackwardInputOp>(n.type(x).clone(shape), x, w,
                                        window->strides, window->dilations,
                                        window->low, window->high, groups);
  if (failed(addBias(n, y)))
    return failure();
  n.setOutput(0, y);
  return success();
}

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

template <Pool kind> static LogicalResult pool(NodeImporter &n) {
  constexpr bool isMax = kind == Pool::Max;
  Value x = n.tensor(0);
  if (!x)
    return failure();
  ArrayRef<int64_t> input = n.shape(x);
  if (input.size() < 3)
    return n.error("has an input of rank " + llvm::Twine(input.size()));
  // The order of those indices.
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

ArrayRef<ImportedOperator> pp::linearOperators() {
  static const Choice padding = {
      "auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}};
  static const ImportedOperator entries[] = {
      {.name = "AveragePool",
       .handler = pool<Pool::Average>,
       .types = floatTypes,
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "Conv",
       .handler = conv,
       .types = floatTypes,
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "ConvTranspose",
       .handler = convTranspose,
       .types = floatTypes,
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "Gemm", .handler = gemm, .types = floatTypes},
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
      {.name = "MatMul", .handler = matMul, .types = floatTypes},
      {.name = "MaxPool",
       .handler = pool<Pool::Max>,
       .types = floatTypes | 1 << static_cast<int>(onnx::DataType::Int32),
       .choices = {padding},
       .outputs = 1,
       .note = "one to three spatial axes"},
  };
  return entries;
}
