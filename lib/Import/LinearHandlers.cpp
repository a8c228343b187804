//===- LinearHandlers.cpp - ONNX products and convolutions -------===//

#include "Products.h"
#include "Window.h"

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

LogicalResult pp::addBias(NodeImporter &n, Value &value) {
  if (!n.hasInput(2))
    return success();
  Value bias = n.tensor(2);
  if (!bias)
    return failure();
  int64_t channels = n.shape(value)[1];
  // PyTorch's exporter writes zeros of shape [channels, 2] for a convolution of
  // three axes without a bias.
  Constant known = n.known(2);
  if (known && n.shape(bias).size() > 1 && known.getElements().isSplat() &&
      *known.number(0) == 0) {
    n.warnOnce("a bias of zeros has another shape than one number per channel; "
               "it is left out");
    return success();
  }
  if (n.shape(bias) != ArrayRef<int64_t>(channels))
    return n.error("has a bias of shape " + text(n.shape(bias)) + " for " +
                   llvm::Twine(channels) + " channels");
  value = n.make<AddOp>(
      value, Value(n.make<BroadcastOp>(value.getType(), bias, int64_t{1})));
  return success();
}

Value pp::importGemm(NodeImporter &n, bool broadcasts) {
  auto refuse = [&](const llvm::Twine &why) {
    (void)n.error(why);
    return Value();
  };
  Value a = n.tensor(0), b = n.tensor(1);
  if (!a || !b)
    return nullptr;
  if (n.shape(a).size() != 2 || n.shape(b).size() != 2)
    return refuse("multiplies tensors of shapes " + text(n.shape(a)) + " and " +
                  text(n.shape(b)) + "; both must be matrices");
  bool transA = n.attribute("transA", int64_t{0}) != 0;
  bool transB = n.attribute("transB", int64_t{0}) != 0;
  int64_t aK = transA ? 0 : 1, bK = transB ? 1 : 0;
  if (n.shape(a)[aK] != n.shape(b)[bK])
    return refuse("contracts " + llvm::Twine(n.shape(a)[aK]) +
                  " columns of A with " + llvm::Twine(n.shape(b)[bK]) +
                  " rows of B");
  SmallVector<int64_t> shape = {n.shape(a)[1 - aK], n.shape(b)[1 - bK]};
  ArrayRef<int64_t> none;
  Value y =
      n.make<DotGeneralOp>(n.type(a).clone(shape), a, b, none, none, aK, bK);
  double alpha = n.attribute("alpha", 1.0), beta = n.attribute("beta", 1.0);
  if (alpha != 1.0)
    y = n.make<MulOp>(y, n.splat(n.type(y), alpha));
  if (n.hasInput(2) && beta != 0.0) {
    Value c = n.tensor(2);
    if (!c)
      return nullptr;
    if (beta != 1.0)
      c = n.make<MulOp>(c, n.splat(n.type(c), beta));
    Value result = y;
    if (!broadcasts && n.shape(c) != n.shape(y))
      return refuse("input C has another shape than A * B; before opset 7 "
                    "that needs the attribute broadcast=1");
    if (failed(n.broadcastTogether(result, c)))
      return nullptr;
    if (result != y)
      return refuse("input C has a larger shape than A * B");
    y = n.make<AddOp>(y, c);
  }
  return y;
}

static LogicalResult gemm(NodeImporter &n) {
  bool broadcasts = n.attribute("broadcast", int64_t{n.opset() >= 7}) != 0;
  Value y = importGemm(n, broadcasts);
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
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

/// A product of whole numbers, in which nothing is rounded: products of all
/// pairs, added up.
static Value wholeProduct(NodeImporter &n, Value a, Value b) {
  SmallVector<int64_t> left(n.shape(a)), right(n.shape(b));
  if (left.empty() || right.empty() ||
      left.back() != right[right.size() == 1 ? 0 : right.size() - 2]) {
    (void)n.error("shapes " + text(left) + " and " + text(right) +
                  " do not contract");
    return nullptr;
  }
  // Rows x terms x columns, behind the batch axes.
  bool isRow = left.size() == 1, isColumn = right.size() == 1;
  if (isRow)
    left.insert(left.begin(), 1);
  if (isColumn)
    right.push_back(1);
  left.push_back(1);
  right.insert(right.end() - 2, 1);
  a = n.reshape(a, left);
  b = n.reshape(b, right);
  if (failed(n.broadcastTogether(a, b)))
    return nullptr;
  SmallVector<int64_t> shape(n.shape(a));
  if (isTooLarge(shape)) {
    (void)n.error("has more than " + llvm::Twine(maxElements) + " products");
    return nullptr;
  }
  int64_t terms = shape.size() - 2;
  Value y = n.reduce(Reduction::sum, n.make<MulOp>(a, b), {terms},
                     /*keepAxes=*/false);
  SmallVector<int64_t> result(n.shape(y));
  if (isColumn)
    result.pop_back();
  if (isRow)
    result.erase(result.end() - (isColumn ? 1 : 2));
  return n.reshape(y, result);
}

static LogicalResult matMul(NodeImporter &n) {
  Value a = n.tensor(0), b = n.tensor(1);
  bool isWhole = a && isa<IntegerType>(n.type(a).getElementType());
  Value y = a && b ? (isWhole ? wholeProduct(n, a, b) : importMatMul(n, a, b))
                   : Value();
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

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

ArrayRef<ImportedOperator> pp::linearOperators() {
  static const Choice padding = {
      "auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}};
  static const ImportedOperator entries[] = {
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
      {.name = "MatMul", .handler = matMul, .types = numberTypes},
  };
  return entries;
}
