//===- NNDescriptors.cpp - nn operations as library kernels ---------------===//
//
// Writes the descriptors that docs/plan-format.md defines, and the cost of the
// operations that a library implements.
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/Layout.h"
#include "pp/Dialect/NN/IR/NNEpilogues.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// `2x3x4`.
static std::string dims(ArrayRef<int64_t> sizes) {
  return llvm::join(
      llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }),
      "x");
}

/// Whether a product has factors of a type that the library has kernels for.
static bool hasFactorType(Operation *op) {
  Type element =
      cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

/// `bf16`, `f16` or `f32`.
static StringRef nameOfElement(Type tensor) {
  Type type = getElementTypeOrSelf(tensor);
  return type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32";
}

/// ` types=bf16xbf16xf32` for the tensors in the order of the descriptor's
/// shapes; nothing where all are f32.
static std::string types(ArrayRef<Type> tensors) {
  SmallVector<StringRef> names(llvm::map_range(tensors, nameOfElement));
  if (llvm::all_of(names, [](StringRef name) { return name == "f32"; }))
    return "";
  return " types=" + llvm::join(names, "x");
}

/// ` compute=tf32` where the products may be taken so.
static StringRef compute(Operation *op) {
  return op->hasAttr(tf32AttrName) ? " compute=tf32" : "";
}

/// The other kernels of the library have single precision only.
static bool hasLibraryType(Operation *op) {
  return llvm::all_of(op->getOperandTypes(), [](Type type) {
    return cast<RankedTensorType>(type).getElementType().isF32();
  });
}

//===----------------------------------------------------------------------===//
// dot_general as a batched matrix product with strides
//===----------------------------------------------------------------------===//

namespace {
/// Consecutive axes of an operand that act as one: a size and a stride.
struct Fused {
  int64_t size = 1;
  int64_t stride = 1;
};
} // namespace

/// Fuses `axes` into one, which works where each is as long as the stride of
/// the one before it says.
static std::optional<Fused> fuseAxes(ArrayRef<int64_t> axes,
                                     ArrayRef<int64_t> shape,
                                     ArrayRef<int64_t> strides) {
  Fused fused;
  bool first = true;
  for (int64_t axis : llvm::reverse(axes)) {
    if (shape[axis] == 1)
      continue;
    if (first)
      fused.stride = strides[axis];
    else if (strides[axis] != fused.stride * fused.size)
      return std::nullopt;
    first = false;
    fused.size *= shape[axis];
  }
  return fused;
}

/// ` packed=32768`: b is in the layout of the library.
static std::string packed(Type factor) {
  PackedAttr layout = getPacked(factor);
  return layout ? " packed=" + std::to_string(layout.getBytes()) : "";
}

OpOperand *pp::nn::getPackableFactor(Operation *op) {
  return isa<DotGeneralOp, ConvOp, ConvBackwardInputOp>(op)
             ? &op->getOpOperand(1)
             : nullptr;
}

/// The descriptor of an operation with a factor that may be packed.
static std::string withPacked(Operation *op) {
  std::string text = getUnpackedDescriptor(op);
  return text.empty() ? text : text + packed(op->getOperand(1).getType());
}

std::string DotGeneralOp::getLibraryDescriptor() { return withPacked(*this); }

std::string ScatterAddOp::describeSum() {
  auto updates = getUpdates().getType(), output = getOutput().getType();
  if (getAxis() != 0 || getShared() != 0 || output.getNumElements() == 0 ||
      updates.getNumElements() == 0 || !output.getElementType().isF32() ||
      !getIndices().getType().getElementType().isInteger(64))
    return "";
  int64_t rows = output.getDimSize(0);
  int64_t count = getIndices().getType().getNumElements();
  if (std::max(rows, count) > std::numeric_limits<int32_t>::max())
    return "";
  return llvm::formatv("scatter_add rows={0} count={1} width={2}", rows, count,
                       output.getNumElements() / rows);
}

std::string IntegerProductOp::getLibraryDescriptor() {
  const int64_t columns = shapeOf(getOutput()).back();
  return llvm::formatv("integer_product rows={0} terms={1} columns={2}",
                       getOutput().getType().getNumElements() /
                           std::max<int64_t>(columns, 1),
                       shapeOf(getLhs()).back(), columns);
}

std::string BlockProductOp::getLibraryDescriptor() {
  const int64_t columns = shapeOf(getOutput()).back();
  return llvm::formatv(
      "block_product rows={0} terms={1} columns={2} block={3} zeros={4}",
      getOutput().getType().getNumElements() / std::max<int64_t>(columns, 1),
      shapeOf(getLhs()).back(), columns, 2 * shapeOf(getBlocks())[2],
      getZeros() ? 1 : 0);
}

std::string PackOp::getLibraryDescriptor() {
  PackedAttr layout = getPacked(getOutput().getType());
  return "pack_" + layout.getProduct().str() + packed(getOutput().getType());
}

bool DotGeneralOp::isOneProduct() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs());
  return !getLibraryDescriptor().empty() && getLhsBatch().empty() &&
         fuseAxes(getFreeAxes(false), lhs, computeSuffixProduct(lhs));
}

std::string DotGeneralOp::describe(Type result, StringRef epilogue) {
  if (!hasFactorType(*this))
    return "";
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  SmallVector<int64_t> lhsStrides = computeSuffixProduct(lhs);
  SmallVector<int64_t> rhsStrides = computeSuffixProduct(rhs);
  SmallVector<int64_t> lhsFree = getFreeAxes(false),
                       rhsFree = getFreeAxes(true);

  // Leading free axes of the left side that cannot be fused run as batch axes
  // with a repeated right side.
  SmallVector<int64_t> repeated;
  std::optional<Fused> m;
  while (!(m = fuseAxes(lhsFree, lhs, lhsStrides))) {
    repeated.push_back(lhsFree.front());
    lhsFree.erase(lhsFree.begin());
  }
  auto n = fuseAxes(rhsFree, rhs, rhsStrides);
  auto lhsK = fuseAxes(getLhsContract(), lhs, lhsStrides);
  auto rhsK = fuseAxes(getRhsContract(), rhs, rhsStrides);
  if (!n || !lhsK || !rhsK)
    return "";

  SmallVector<int64_t> a, b, c, as, bs;
  for (auto [left, right] : llvm::zip(getLhsBatch(), getRhsBatch())) {
    a.push_back(lhs[left]);
    as.push_back(lhsStrides[left]);
    b.push_back(rhs[right]);
    bs.push_back(rhsStrides[right]);
    c.push_back(lhs[left]);
  }
  for (int64_t axis : repeated) {
    a.push_back(lhs[axis]);
    as.push_back(lhsStrides[axis]);
    b.push_back(1);
    bs.push_back(rhsStrides.empty() ? 1 : rhs.front() * rhsStrides.front());
    c.push_back(lhs[axis]);
  }
  a.append({m->size, lhsK->size});
  as.append({m->stride, lhsK->stride});
  b.append({rhsK->size, n->size});
  bs.append({rhsK->stride, n->stride});
  c.append({m->size, n->size});
  // A stride along an axis of size one has no meaning; the library wants it to
  // be that of a dense tensor.
  auto normalise = [](ArrayRef<int64_t> sizes,
                      SmallVectorImpl<int64_t> &strides) {
    int64_t rows = sizes.size() - 2, columns = sizes.size() - 1;
    if (sizes[columns] == 1 && sizes[rows] != 1 && strides[rows] != 1)
      strides[columns] = 1;
    else if (sizes[columns] == 1)
      strides[columns] = std::max<int64_t>(1, sizes[rows] * strides[rows]);
    if (sizes[rows] == 1)
      strides[rows] = strides[columns] == 1 ? sizes[columns] : 1;
    if (sizes[rows] == 1 && sizes[columns] == 1)
      strides[rows] = strides[columns] = 1;
  };
  normalise(a, as);
  normalise(b, bs);
  return "matmul a=" + dims(a) + " b=" + dims(b) + " c=" + dims(c) +
         " as=" + dims(as) + " bs=" + dims(bs) +
         " cs=" + dims(computeSuffixProduct(c)) +
         types({getLhs().getType(), getRhs().getType(), result}) +
         compute(*this).str() +
         (epilogue.empty() ? "" : (" epilogue=" + epilogue).str());
}

/// Operations of f32 that take as long as `flops` with such a factor:
/// processors that multiply sixteen bits do twice as many, or more.
static uint64_t inF32(uint64_t flops, Value factor) {
  return typeOf(factor).getElementTypeBitWidth() == 16 ? flops / 2 : flops;
}

uint64_t DotGeneralOp::getFlops() {
  uint64_t contracted = 1;
  for (int64_t axis : getLhsContract())
    contracted *= getLhs().getType().getDimSize(axis);
  return 2 * contracted * getOutput().getType().getNumElements();
}
uint64_t DotGeneralOp::getEffectiveFlops() {
  return inF32(getFlops(), getLhs());
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// ` qs=64x16x4x1`: the strides of a tensor along its batch, heads, rows and
/// columns; nothing where they are those of a dense tensor in that order.
static std::string strides(StringRef key, Value value, ArrayRef<int64_t> axes) {
  if (llvm::is_sorted(axes))
    return "";
  SmallVector<int64_t> ofTensor = computeSuffixProduct(shapeOf(value)), strides;
  for (int64_t axis : axes)
    strides.push_back(ofTensor[axis]);
  return (" " + key + "=" + dims(strides)).str();
}

template <typename Op>
static std::string attention(Op op, StringRef kind, Value output) {
  std::string text;
  llvm::raw_string_ostream(text)
      << kind << " q=" << dims(op.getQueryShape())
      << " k=" << dims(op.getKeyShape()) << " v=" << dims(op.getValueShape())
      << " scale=" << llvm::format("%.9g", op.getScale().convertToDouble())
      << " causal=" << (op.getCausal() ? 1 : 0)
      << " types=" << nameOfElement(op.getQuery().getType())
      << (op.getMask() ? " mask=" + dims(shapeOf(op.getMask())) : "")
      << (op.getZeroed() ? " zeroed=1" : "")
      << strides("qs", op.getQuery(), op.getQueryAxes())
      << strides("ks", op.getKey(), op.getKeyAxes())
      << strides("vs", op.getValue(), op.getValueAxes())
      << strides("os", output, op.getOutputAxes());
  return text;
}

std::string AttentionOp::getLibraryDescriptor() {
  return attention(*this, "attention_forward", getOutput());
}

std::string AttentionBackwardOp::getLibraryDescriptor() {
  return attention(*this, "attention_backward", getOutput()) +
         strides("dos", getOutputGradient(), getOutputAxes()) +
         strides("dqs", getQueryGradient(), getQueryAxes()) +
         strides("dks", getKeyGradient(), getKeyAxes()) +
         strides("dvs", getValueGradient(), getValueAxes());
}

/// Rows of the query times rows of the key that it sees, over all heads.
template <typename Op> static uint64_t countPairs(Op op) {
  SmallVector<int64_t> query = op.getQueryShape();
  uint64_t rows = query[2], columns = op.getKeyShape()[2];
  return query[0] * query[1] *
         (op.getCausal() ? rows * (rows + 1) / 2 : rows * columns);
}

uint64_t AttentionOp::getFlops() {
  // Two products, and what a softmax takes.
  return countPairs(*this) *
         (2 * getQueryShape()[3] + 2 * getValueShape()[3] + 5);
}
uint64_t AttentionBackwardOp::getFlops() {
  // Five products: the scores again, and the cotangents of the weights, of the
  // query, of the key and of the value.
  return countPairs(*this) *
         (6 * getQueryShape()[3] + 4 * getValueShape()[3] + 5);
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// ` layout=blocked16`; nothing for the plain one. Shapes in descriptors are
/// logical.
static std::string layout(Layout layout) {
  return layout == Layout::plain ? ""
                                 : (" layout=" + stringifyLayout(layout)).str();
}

namespace {
/// How an operation works, which need not be how it says it does.
struct Manner {
  Layout layout;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::direct;
};
} // namespace

/// The logical shape of an operand or result of `op`.
template <typename WindowOp>
static SmallVector<int64_t> logicalShapeOf(WindowOp op, Value value) {
  // The verifier has seen that it lies so.
  return *toLogicalShape(shapeOf(value), op.getLayout(),
                         op.getStrides().size());
}

template <typename ConvolutionOp>
static std::string convolution(ConvolutionOp op, StringRef kind, Value input,
                               Value weight, Value output, Manner manner,
                               bool hasBias = false) {
  if (!hasFactorType(op))
    return "";
  std::string text =
      (kind + " src=" + dims(logicalShapeOf(op, input)) + " weights=" +
       dims(shapeOf(weight)) + " dst=" + dims(logicalShapeOf(op, output)) +
       " strides=" + dims(op.getStrides()) +
       " dilations=" + dims(op.getDilations()) +
       " pad_lo=" + dims(op.getPadLow()) + " pad_hi=" + dims(op.getPadHigh()) +
       " groups=" + std::to_string(op.getGroups()))
          .str();
  if (kind == "conv_forward")
    text += hasBias ? " bias=1" : " bias=0";
  return text + types({input.getType(), weight.getType(), output.getType()}) +
         layout(manner.layout) +
         (manner.algorithm == ConvolutionAlgorithm::direct
              ? ""
              : " algorithm=" + stringifyEnum(manner.algorithm).str()) +
         compute(op).str();
}

static std::string describe(ConvOp op, Manner manner, bool hasBias = false) {
  return convolution(op, "conv_forward", op.getInput(), op.getWeight(),
                     op.getOutput(), manner, hasBias);
}
static std::string describe(ConvBackwardInputOp op, Manner manner) {
  return convolution(op, "conv_backward_data", op.getOutput(), op.getWeight(),
                     op.getOutputGradient(), manner);
}
static std::string describe(ConvBackwardWeightOp op, Manner manner) {
  return convolution(op, "conv_backward_weights", op.getInput(), op.getOutput(),
                     op.getOutputGradient(), manner);
}

std::string pp::nn::getUnpackedDescriptor(Operation *op) {
  if (auto product = dyn_cast<DotGeneralOp>(op))
    return product.describe(product.getOutput().getType(), "");
  if (auto conv = dyn_cast<ConvOp>(op))
    return describe(conv, {conv.getLayout(), conv.getAlgorithm()});
  auto conv = cast<ConvBackwardInputOp>(op);
  return describe(conv, {conv.getLayout(), conv.getAlgorithm()});
}

std::string ConvOp::getLibraryDescriptor() { return withPacked(*this); }
std::string pp::nn::describeWithEpilogue(ConvOp conv,
                                         const Epilogue &epilogue) {
  std::string text = ::describe(conv, {conv.getLayout(), conv.getAlgorithm()},
                                bool(epilogue.bias));
  if (epilogue.residual)
    text += " residual=1";
  return text + (epilogue.name.empty() ? "" : " " + epilogue.name) +
         packed(conv.getWeight().getType());
}
std::string ConvBackwardInputOp::getLibraryDescriptor() {
  return withPacked(*this);
}
std::string ConvBackwardWeightOp::getLibraryDescriptor() {
  return describe(*this, {getLayout(), getAlgorithm()});
}

/// 2 x the elements of the convolution's result x the weights that reach each.
static uint64_t convolutionFlops(Value weight, Value output) {
  uint64_t perElement = 2;
  for (int64_t size : shapeOf(weight).drop_front())
    perElement *= size;
  return perElement * cast<RankedTensorType>(output.getType()).getNumElements();
}

uint64_t ConvOp::getFlops() {
  return convolutionFlops(getWeight(), getOutput());
}
uint64_t ConvBackwardInputOp::getFlops() {
  return convolutionFlops(getWeight(), getOutputGradient());
}
uint64_t ConvBackwardWeightOp::getFlops() {
  return convolutionFlops(getOutput(), getOutputGradient());
}

/// F(4x4, 3x3) multiplies 36 numbers for each tile and pair of channels, and
/// F(2x2, 3x3) 16. With their transforms they take 1.3 and 1.2 times as long,
/// and reading the weights takes as long as 2500 and 250 operations for each
/// pair: from 10 % below to 20 % above what the convolutions of a ResNet take
/// on Zen 4, with 1 to 8 samples. They are computed in f32, whatever the type
/// of the tensors, or in bf16 at twice that rate; tiles of few channels take
/// up to twice as long then. `result` is what is in tiles.
template <typename ConvOp>
static uint64_t effectiveFlops(ConvOp op, Value result) {
  uint64_t flops = op.getFlops();
  if (op.getAlgorithm() == ConvolutionAlgorithm::direct)
    return inF32(flops, op->getOperand(0));
  bool isShort = op.getAlgorithm() == ConvolutionAlgorithm::winograd2_bf16;
  bool isLarge =
      !isShort && op.getAlgorithm() != ConvolutionAlgorithm::winograd2;
  uint64_t edge = isLarge ? 4 : 2;
  SmallVector<int64_t> shape = logicalShapeOf(op, result);
  uint64_t pixels = shape[0] * shape[2] * shape[3];
  double pairs = double(flops) / double(18 * pixels);
  double tiles = double(shape[0]) *
                 double(llvm::divideCeil(uint64_t(shape[2]), edge)) *
                 double(llvm::divideCeil(uint64_t(shape[3]), edge));
  double ofTile = 2 * double((edge + 2) * (edge + 2)) * (isLarge ? 1.3 : 1.2);
  double work = pairs * (ofTile * tiles + (isLarge ? 2500 : 250));
  return uint64_t(isShort ? work / 2 : work);
}

uint64_t ConvOp::getEffectiveFlops() {
  return effectiveFlops(*this, getOutput());
}
uint64_t ConvBackwardInputOp::getEffectiveFlops() {
  return effectiveFlops(*this, getOutput());
}
uint64_t ConvBackwardWeightOp::getEffectiveFlops() {
  uint64_t flops = effectiveFlops(*this, getOutputGradient());
  if (typeOf(getInput()).getElementTypeBitWidth() != 16 ||
      getAlgorithm() != ConvolutionAlgorithm::direct)
    return flops;
  // The library adds over long rows of pixels: with 49, 196 and 784 of them at
  // 35, 73 and 85 % of its rate (Zen 4).
  SmallVector<int64_t> shape = logicalShapeOf(*this, getOutputGradient());
  uint64_t pixels = shape[0];
  for (int64_t size : ArrayRef(shape).drop_front(2))
    pixels *= size;
  return flops + 75 * flops / pixels;
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

std::string ReorderOp::getLibraryDescriptor() {
  if (!hasFactorType(*this))
    return "";
  return "reorder src=" +
         dims(*toLogicalShape(shapeOf(getInput()), getFrom())) +
         " from=" + stringifyLayout(getFrom()).str() +
         " to=" + stringifyLayout(getTo()).str() +
         types({getInput().getType()});
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Whether the library has it: maxima of bf16, too, where all tensors are.
static bool hasWindowType(Operation *op) {
  auto isShort = [](Type type) { return getElementTypeOrSelf(type).isBF16(); };
  return hasLibraryType(op) || (isa<MaxPoolOp, MaxPoolBackwardOp>(op) &&
                                llvm::all_of(op->getOperandTypes(), isShort));
}

template <typename WindowOp>
static std::string window(WindowOp op, const Twine &kind, Value input,
                          Value output, Layout worksIn) {
  if (!hasWindowType(op))
    return "";
  return (kind + " src=" + dims(logicalShapeOf(op, input)) + " dst=" +
          dims(logicalShapeOf(op, output)) + " kernel=" + dims(op.getKernel()) +
          " strides=" + dims(op.getStrides()) + " dilations=" +
          dims(op.getDilations()) + " pad_lo=" + dims(op.getPadLow()) +
          " pad_hi=" + dims(op.getPadHigh()) + types(input.getType()) +
          layout(worksIn))
      .str();
}

static uint64_t windowFlops(ArrayRef<int64_t> kernel, Value output) {
  uint64_t perElement = 1;
  for (int64_t size : kernel)
    perElement *= size;
  return perElement * cast<RankedTensorType>(output.getType()).getNumElements();
}

template <typename PoolOp>
static std::string withPadding(PoolOp op, const std::string &text) {
  return text.empty()
             ? text
             : text + " include_pad=" + (op.getIncludePad() ? "1" : "0");
}

static std::string describe(MaxPoolOp op, Layout layout) {
  return window(op, "max_pool_forward", op.getInput(), op.getOutput(), layout);
}
static std::string describe(MaxPoolBackwardOp op, Layout layout) {
  return window(op, "max_pool_backward", op.getInput(), op.getOutputGradient(),
                layout);
}
static std::string describe(AvgPoolOp op, Layout layout) {
  return withPadding(op, window(op, "avg_pool_forward", op.getInput(),
                                op.getOutput(), layout));
}
static std::string describe(AvgPoolBackwardOp op, Layout layout) {
  return withPadding(op, window(op, "avg_pool_backward", op.getOutput(),
                                op.getOutputGradient(), layout));
}

std::string MaxPoolOp::getLibraryDescriptor() {
  return describe(*this, getLayout());
}
std::string MaxPoolBackwardOp::getLibraryDescriptor() {
  return describe(*this, getLayout());
}
std::string AvgPoolOp::getLibraryDescriptor() {
  return describe(*this, getLayout());
}
std::string AvgPoolBackwardOp::getLibraryDescriptor() {
  return describe(*this, getLayout());
}

std::string pp::nn::getDescriptorIn(Operation *op, Layout layout,
                                    ConvolutionAlgorithm algorithm) {
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp>(
          [&](auto conv) { return describe(conv, {layout, algorithm}); })
      .Case<MaxPoolOp, MaxPoolBackwardOp, AvgPoolOp, AvgPoolBackwardOp>(
          [&](auto pool) { return describe(pool, layout); })
      .Default([](Operation *) { return std::string(); });
}

uint64_t MaxPoolOp::getFlops() { return windowFlops(getKernel(), getOutput()); }
uint64_t AvgPoolOp::getFlops() { return windowFlops(getKernel(), getOutput()); }
uint64_t MaxPoolBackwardOp::getFlops() {
  // The library finds the maxima again.
  return 2 * windowFlops(getKernel(), getOutputGradient());
}
uint64_t AvgPoolBackwardOp::getFlops() {
  return windowFlops(getKernel(), getOutputGradient());
}

//===----------------------------------------------------------------------===//
// Batch normalisation
//===----------------------------------------------------------------------===//

template <typename NormOp>
static std::string batchNorm(NormOp op, StringRef kind) {
  Type image = getElementTypeOrSelf(op.getInput().getType());
  if (!getElementTypeOrSelf(op.getScale().getType()).isF32() ||
      !(image.isF32() || image.isBF16()))
    return "";
  std::string text;
  llvm::raw_string_ostream(text)
      << kind << " src="
      << dims(*toLogicalShape(shapeOf(op.getInput()), op.getLayout()))
      << " epsilon=" << llvm::format("%.9g", op.getEpsilon().convertToDouble())
      << types({op.getInput().getType()}) << layout(op.getLayout());
  return text;
}

std::string BatchNormOp::getLibraryDescriptor() {
  return batchNorm(*this, "batch_norm_forward");
}
std::string BatchNormBackwardOp::getLibraryDescriptor() {
  return batchNorm(*this, "batch_norm_backward");
}

uint64_t BatchNormOp::getFlops() {
  return 7 * getInput().getType().getNumElements();
}
uint64_t BatchNormBackwardOp::getFlops() {
  return 11 * getInput().getType().getNumElements();
}

//===----------------------------------------------------------------------===//
// Generated operations whose work is not one per result element
//===----------------------------------------------------------------------===//

uint64_t ReduceOp::getFlops() { return getInput().getType().getNumElements(); }
uint64_t SoftmaxOp::getFlops() {
  return 5 * getInput().getType().getNumElements();
}
uint64_t LogSoftmaxOp::getFlops() {
  return 5 * getInput().getType().getNumElements();
}
uint64_t LayerNormOp::getFlops() {
  return 8 * getInput().getType().getNumElements();
}
uint64_t LayerNormBackwardOp::getFlops() {
  return 11 * getInput().getType().getNumElements();
}
uint64_t ChannelMomentsOp::getFlops() {
  return 4 * getInput().getType().getNumElements();
}
uint64_t ChannelSumsOp::getFlops() {
  return 4 * getInput().getType().getNumElements();
}
uint64_t SoftmaxCrossEntropyOp::getFlops() {
  return 5 * getLogits().getType().getNumElements();
}
uint64_t SoftmaxCrossEntropyBackwardOp::getFlops() {
  return 4 * getLogits().getType().getNumElements();
}
uint64_t CtcLossOp::getFlops() {
  return 11 * getAlphas().getType().getNumElements();
}
uint64_t CtcLossBackwardOp::getFlops() {
  return 16 * getAlphas().getType().getNumElements();
}
