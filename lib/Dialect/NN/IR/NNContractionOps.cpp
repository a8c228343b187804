//===- NNContractionOps.cpp - Verifiers of products, windows, norms -------===//

#include "pp/Dialect/NN/IR/Layout.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp::nn;

/// The result has the type of the factors, or f32 for sixteen bits.
static LogicalResult verifyFactors(Operation *op) {
  auto elementOf = [](Type type) {
    return cast<RankedTensorType>(type).getElementType();
  };
  Type factor = elementOf(op->getOperand(0).getType());
  Type result = elementOf(op->getResult(0).getType());
  if (result == factor ||
      (factor.getIntOrFloatBitWidth() == 16 && result.isF32()))
    return success();
  return op->emitOpError() << "turns factors of type " << factor
                           << " into a result of type " << result;
}

/// Only the right factor may be packed, for exactly this operation.
static LogicalResult verifyPacked(Operation *op) {
  if (getPacked(op->getOperand(0).getType()) ||
      getPacked(op->getResult(0).getType()))
    return op->emitOpError("has a packed tensor that is not its right factor");
  PackedAttr packed = getPacked(op->getOperand(1).getType());
  std::string own = packed ? getUnpackedDescriptor(op) : "";
  if (packed && packed.getProduct() != own)
    return op->emitOpError()
           << "is '" << own << "', but its right factor is packed for "
           << packed.getProduct();
  return success();
}

//===----------------------------------------------------------------------===//
// dot_general
//===----------------------------------------------------------------------===//

SmallVector<int64_t> DotGeneralOp::getFreeAxes(bool ofRhs) {
  ArrayRef<int64_t> batch = ofRhs ? getRhsBatch() : getLhsBatch();
  ArrayRef<int64_t> contract = ofRhs ? getRhsContract() : getLhsContract();
  int64_t rank = (ofRhs ? getRhs() : getLhs()).getType().getRank();
  SmallVector<int64_t> free;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!llvm::is_contained(batch, axis) && !llvm::is_contained(contract, axis))
      free.push_back(axis);
  return free;
}

LogicalResult DotGeneralOp::verify() {
  if (failed(verifyFactors(*this)))
    return failure();
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  auto checkAxes = [&](StringRef side, ArrayRef<int64_t> batch,
                       ArrayRef<int64_t> contract,
                       size_t rank) -> LogicalResult {
    SmallVector<bool> seen(rank, false);
    for (int64_t axis : llvm::concat<const int64_t>(batch, contract)) {
      if (axis < 0 || axis >= static_cast<int64_t>(rank))
        return emitOpError()
               << side << " axis " << axis << " is outside [0, " << rank << ")";
      if (seen[axis])
        return emitOpError()
               << "names " << side << " axis " << axis << " twice";
      seen[axis] = true;
    }
    return success();
  };
  if (failed(checkAxes("left", getLhsBatch(), getLhsContract(), lhs.size())) ||
      failed(checkAxes("right", getRhsBatch(), getRhsContract(), rhs.size())))
    return failure();
  auto checkPairs = [&](StringRef what, ArrayRef<int64_t> left,
                        ArrayRef<int64_t> right) -> LogicalResult {
    if (left.size() != right.size())
      return emitOpError() << "has " << left.size() << " " << what
                           << " axes on the left and " << right.size()
                           << " on the right";
    for (auto [l, r] : llvm::zip(left, right))
      if (lhs[l] != rhs[r])
        return emitOpError() << what << " axes " << l << " and " << r
                             << " have sizes " << lhs[l] << " and " << rhs[r];
    return success();
  };
  if (failed(checkPairs("batch", getLhsBatch(), getRhsBatch())) ||
      failed(checkPairs("contracted", getLhsContract(), getRhsContract())))
    return failure();
  SmallVector<int64_t> expected;
  for (int64_t axis : getLhsBatch())
    expected.push_back(lhs[axis]);
  for (int64_t axis : getFreeAxes(false))
    expected.push_back(lhs[axis]);
  for (int64_t axis : getFreeAxes(true))
    expected.push_back(rhs[axis]);
  if (ArrayRef<int64_t>(expected) != shapeOf(getOutput()))
    return emitOpError() << "computes a tensor of shape [" << expected
                         << "], but its type says [" << shapeOf(getOutput())
                         << "]";
  return verifyPacked(*this);
}

LogicalResult PackOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getOutput().getType());
  if (!getPacked(to) || from.getEncoding())
    return emitOpError("needs a row-major operand and a packed result");
  if (from.getShape() == to.getShape() &&
      from.getElementType() == to.getElementType())
    return success();
  return emitOpError() << "packs a " << from << " as a " << to;
}

/// Of the panels of an `nn.integer_product`.
static constexpr int64_t panelColumns = 64, panelTerms = 4;

LogicalResult IntegerProductOp::verify() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), panels = shapeOf(getPanels()),
                    result = shapeOf(getOutput());
  if (lhs.empty() || result.size() != lhs.size() ||
      lhs.drop_back() != result.drop_back())
    return emitOpError() << "computes a row for each row of [" << lhs
                         << "], but its type says [" << result << "]";
  auto cut = [](int64_t size, int64_t width) {
    return (size + width - 1) / width;
  };
  const int64_t expected[] = {cut(result.back(), panelColumns),
                              cut(lhs.back(), panelTerms), panelColumns,
                              panelTerms};
  if (panels == ArrayRef(expected))
    return success();
  return emitOpError() << "needs panels of shape [" << ArrayRef(expected)
                       << "], not [" << panels << "]";
}

uint64_t IntegerProductOp::getFlops() {
  return 2 * uint64_t(getOutput().getType().getNumElements()) *
         shapeOf(getLhs()).back();
}

LogicalResult BlockProductOp::verify() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), blocks = shapeOf(getBlocks()),
                    result = shapeOf(getOutput());
  if (lhs.empty() || result.size() != lhs.size() ||
      lhs.drop_back() != result.drop_back())
    return emitOpError() << "computes a row for each row of [" << lhs
                         << "], but its type says [" << result << "]";
  constexpr int64_t unit = 16; // bytes
  if (blocks.size() != 3 || blocks[0] != result.back() || blocks[2] == 0 ||
      blocks[2] % unit != 0 ||
      blocks[1] != (lhs.back() + 2 * blocks[2] - 1) / (2 * blocks[2]))
    return emitOpError() << "takes no blocks of shape [" << blocks << "] for "
                         << result.back() << " columns of " << lhs.back()
                         << " numbers";
  const int64_t scales[] = {blocks[0], blocks[1]},
                zeros[] = {blocks[0], (blocks[1] + 1) / 2};
  if (shapeOf(getScales()) != ArrayRef(scales))
    return emitOpError() << "needs scales of shape [" << ArrayRef(scales)
                         << "]";
  if (getZeros() && shapeOf(getZeros()) != ArrayRef(zeros))
    return emitOpError() << "needs zero points of shape [" << ArrayRef(zeros)
                         << "]";
  return success();
}

uint64_t BlockProductOp::getFlops() {
  return 2 * uint64_t(getOutput().getType().getNumElements()) *
         shapeOf(getLhs()).back();
}

namespace {
/// Reads through a transpose of an operand: the axes of a dot_general can be
/// named in any order. Only where the free axes keep their order, because that
/// is the order of the result's.
struct FoldTransposedOperand : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DotGeneralOp op,
                                PatternRewriter &rewriter) const override {
    return success(succeeded(fold(op, false, rewriter)) ||
                   succeeded(fold(op, true, rewriter)));
  }

  static LogicalResult fold(DotGeneralOp op, bool ofRhs,
                            PatternRewriter &rewriter) {
    Value operand = ofRhs ? op.getRhs() : op.getLhs();
    auto transpose = operand.getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    auto renamed = [&](ArrayRef<int64_t> axes) {
      SmallVector<int64_t> result;
      for (int64_t axis : axes)
        result.push_back(transpose.getPermutation()[axis]);
      return result;
    };
    if (!llvm::is_sorted(renamed(op.getFreeAxes(ofRhs))))
      return failure();
    SmallVector<int64_t> batch =
        renamed(ofRhs ? op.getRhsBatch() : op.getLhsBatch());
    SmallVector<int64_t> contract =
        renamed(ofRhs ? op.getRhsContract() : op.getLhsContract());
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperand(ofRhs ? 1 : 0, transpose.getInput());
      if (ofRhs) {
        op.setRhsBatch(batch);
        op.setRhsContract(contract);
      } else {
        op.setLhsBatch(batch);
        op.setLhsContract(contract);
      }
    });
    return success();
  }
};
} // namespace

void DotGeneralOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                               MLIRContext *context) {
  patterns.add<FoldTransposedOperand>(context);
}

//===----------------------------------------------------------------------===//
// Convolutions and windows
//===----------------------------------------------------------------------===//

/// Checks one spatial axis of a window: `input` elements, padded, seen through
/// a kernel, give `output` positions.
static LogicalResult verifySpatial(Operation *op, int64_t axis, int64_t input,
                                   int64_t kernel, int64_t stride,
                                   int64_t dilation, int64_t low, int64_t high,
                                   int64_t output) {
  constexpr int64_t limit = int64_t{1} << 31;
  if (stride < 1 || dilation < 1 || low < 0 || high < 0 || kernel < 1 ||
      std::max({stride, dilation, low, high, kernel}) >= limit)
    return op->emitOpError() << "needs a positive stride, dilation and kernel "
                                "and padding that is "
                                "not negative, all below 2^31, on spatial axis "
                             << axis;
  int64_t reach = (kernel - 1) * dilation + 1;
  int64_t positions = (input + low + high - reach) / stride + 1;
  if (input + low + high < reach || positions != output)
    return op->emitOpError()
           << "has " << (input + low + high < reach ? 0 : positions)
           << " windows on spatial axis " << axis << ", but its types say "
           << output;
  return success();
}

/// The logical shapes of an input and an output in the operation's layout.
template <typename WindowOp>
static LogicalResult readShapes(WindowOp op, Value input, Value output,
                                SmallVectorImpl<int64_t> &in,
                                SmallVectorImpl<int64_t> &out) {
  size_t spatial = op.getStrides().size();
  auto logicalIn = toLogicalShape(shapeOf(input), op.getLayout(), spatial);
  auto logicalOut = toLogicalShape(shapeOf(output), op.getLayout(), spatial);
  if (!logicalIn || !logicalOut)
    return op.emitOpError() << "has tensors that do not lie in the layout "
                            << stringifyLayout(op.getLayout());
  in = *logicalIn;
  out = *logicalOut;
  return success();
}

template <typename WindowOp>
static LogicalResult verifyGeometry(WindowOp op, ArrayRef<int64_t> input,
                                    ArrayRef<int64_t> kernel,
                                    ArrayRef<int64_t> output) {
  size_t spatial = input.size() < 2 ? 0 : input.size() - 2;
  if (spatial < 1 || spatial > 3 || output.size() != input.size())
    return op.emitOpError() << "needs tensors of rank 3, 4 or 5, got "
                            << input.size() << " and " << output.size();
  for (ArrayRef<int64_t> entries : {kernel, op.getStrides(), op.getDilations(),
                                    op.getPadLow(), op.getPadHigh()})
    if (entries.size() != spatial)
      return op.emitOpError() << "has an attribute with " << entries.size()
                              << " entries for " << spatial << " spatial axes";
  for (size_t axis = 0; axis < spatial; ++axis)
    if (failed(verifySpatial(op, axis, input[axis + 2], kernel[axis],
                             op.getStrides()[axis], op.getDilations()[axis],
                             op.getPadLow()[axis], op.getPadHigh()[axis],
                             output[axis + 2])))
      return failure();
  if (input[0] != output[0])
    return op.emitOpError()
           << "turns " << input[0] << " samples into " << output[0];
  return success();
}

template <typename ConvolutionOp>
static LogicalResult verifyConvolution(ConvolutionOp op, Value input,
                                       Value weight, Value output) {
  if (failed(verifyFactors(op)))
    return failure();
  SmallVector<int64_t> in, out;
  if (failed(readShapes(op, input, output, in, out)))
    return failure();
  ArrayRef<int64_t> w = shapeOf(weight);
  if (w.size() != in.size())
    return op.emitOpError() << "has a weight of rank " << w.size()
                            << " for an input of rank " << in.size();
  int64_t groups = op.getGroups();
  if (w.size() < 3 || out.size() != in.size())
    return op.emitOpError() << "needs tensors of rank 3, 4 or 5, got "
                            << in.size() << " and " << out.size();
  if (groups < 1 || groups > in[1] || in[1] != w[1] * groups ||
      out[1] != w[0] || w[0] % groups != 0)
    return op.emitOpError()
           << "has " << in[1] << " input and " << out[1]
           << " output channels, which a weight of shape [" << w << "] in "
           << groups << " groups does not connect";
  return verifyGeometry(op, in, w.drop_front(2), out);
}

LogicalResult ConvOp::verify() {
  return success(succeeded(verifyConvolution(*this, getInput(), getWeight(),
                                             getOutput())) &&
                 succeeded(verifyPacked(*this)));
}
LogicalResult ConvBackwardInputOp::verify() {
  return success(succeeded(verifyConvolution(*this, getOutput(), getWeight(),
                                             getOutputGradient())) &&
                 succeeded(verifyPacked(*this)));
}
LogicalResult ConvBackwardWeightOp::verify() {
  return verifyConvolution(*this, getInput(), getOutput(), getOutputGradient());
}

template <typename WindowOp>
static LogicalResult verifyWindow(WindowOp op, Value input, Value output) {
  SmallVector<int64_t> in, out;
  if (failed(readShapes(op, input, output, in, out)))
    return failure();
  if (in.size() > 1 && out.size() > 1 && in[1] != out[1])
    return op.emitOpError() << "turns " << in[1] << " channels into " << out[1];
  for (auto [axis, kernel] : llvm::enumerate(op.getKernel()))
    if (axis < op.getPadLow().size() && axis < op.getPadHigh().size() &&
        axis < op.getDilations().size() &&
        std::max(op.getPadLow()[axis], op.getPadHigh()[axis]) >=
            (kernel - 1) * op.getDilations()[axis] + 1)
      return op.emitOpError()
             << "pads spatial axis " << axis << " by a whole window";
  return verifyGeometry(op, in, op.getKernel(), out);
}

LogicalResult MaxPoolOp::verify() {
  return verifyWindow(*this, getInput(), getOutput());
}
LogicalResult AvgPoolOp::verify() {
  return verifyWindow(*this, getInput(), getOutput());
}
LogicalResult AvgPoolBackwardOp::verify() {
  return verifyWindow(*this, getOutput(), getOutputGradient());
}
LogicalResult MaxPoolBackwardOp::verify() {
  return verifyWindow(*this, getOutput(), getOutputGradient());
}

//===----------------------------------------------------------------------===//
// Normalisation and losses
//===----------------------------------------------------------------------===//

static LogicalResult verifyHasRows(Operation *op) {
  if (shapeOf(op->getOperand(0)).empty())
    return op->emitOpError("needs a tensor of rank 1 or more");
  return success();
}

LogicalResult SoftmaxOp::verify() { return verifyHasRows(*this); }
LogicalResult LogSoftmaxOp::verify() { return verifyHasRows(*this); }

/// Checks that `value` has the given shape; `what` names it in the error.
static LogicalResult verifyShapeOf(Operation *op, StringRef what, Value value,
                                   ArrayRef<int64_t> shape) {
  if (shapeOf(value) != shape)
    return op->emitOpError() << "needs a " << what << " of shape [" << shape
                             << "], got [" << shapeOf(value) << "]";
  return success();
}

LogicalResult LayerNormOp::verify() {
  int64_t width = shapeOf(getInput()).back();
  return success(succeeded(verifyShapeOf(*this, "scale", getScale(), width)) &&
                 succeeded(verifyShapeOf(*this, "shift", getShift(), width)));
}

LogicalResult LayerNormBackwardOp::verify() {
  if (failed(verifyHasRows(*this)))
    return failure();
  ArrayRef<int64_t> input = shapeOf(getInput());
  return success(
      succeeded(verifyShapeOf(*this, "scale", getScale(), input.back())) &&
      succeeded(verifyShapeOf(*this, "mean", getMean(), input.drop_back())) &&
      succeeded(verifyShapeOf(*this, "rstd", getRstd(), input.drop_back())));
}

/// The channels of a batch norm's input in its layout.
template <typename NormOp> static FailureOr<int64_t> readChannels(NormOp op) {
  auto logical = toLogicalShape(shapeOf(op.getInput()), op.getLayout());
  if (!logical || logical->size() < 2)
    return op.emitOpError() << "needs a tensor of rank 2 or more in the layout "
                            << stringifyLayout(op.getLayout());
  return (*logical)[1];
}

/// How many rows count is one number.
template <typename Op> static LogicalResult verifyRows(Op op) {
  return op.getRows() ? verifyShapeOf(op, "number of rows", op.getRows(), {})
                      : success();
}

/// Checks a batch norm, forward or backward; images may be bf16 where all that
/// has a number for each channel is f32.
template <typename NormOp> static LogicalResult verifyBatchNorm(NormOp op) {
  FailureOr<int64_t> channels = readChannels(op);
  if (failed(channels))
    return failure();
  Type image = op.getInput().getType().getElementType();
  Type channel = op.getScale().getType().getElementType();
  if (image != channel && !(image.isBF16() && channel.isF32()))
    return op.emitOpError() << "needs one type for all its tensors, or bf16 "
                               "for images and f32 for channels";
  return success(
      succeeded(verifyShapeOf(op, "scale", op.getScale(), *channels)) &&
      succeeded(verifyRows(op)));
}

LogicalResult BatchNormOp::verify() { return verifyBatchNorm(*this); }
LogicalResult BatchNormBackwardOp::verify() { return verifyBatchNorm(*this); }

LogicalResult ChannelMomentsOp::verify() {
  FailureOr<int64_t> channels = readChannels(*this);
  return success(
      succeeded(channels) &&
      succeeded(verifyShapeOf(*this, "mean", getMean(), *channels)) &&
      succeeded(verifyRows(*this)));
}
LogicalResult ChannelSumsOp::verify() {
  FailureOr<int64_t> channels = readChannels(*this);
  return success(
      succeeded(channels) &&
      succeeded(verifyShapeOf(*this, "mean", getMean(), *channels)) &&
      succeeded(verifyRows(*this)));
}

/// Checks a loss of sequences, forward or backward.
template <typename Op> static LogicalResult verifySequences(Op op) {
  ArrayRef<int64_t> all = shapeOf(op.getLogProbabilities());
  ArrayRef<int64_t> labels = shapeOf(op.getLabels());
  if (all.size() != 3 || labels.size() != 2 || labels[0] != all[0] ||
      labels[1] == 0)
    return op.emitOpError() << "needs samples x frames x classes and samples x "
                               "labels, got ["
                            << all << "] and [" << labels << "]";
  if (int64_t blank = op.getBlank(); blank < 0 || blank >= all[2])
    return op.emitOpError() << "has " << all[2] << " classes, and " << blank
                            << " as the blank one";
  return success(
      succeeded(
          verifyShapeOf(op, "tensor of losses", op.getLosses(), all[0])) &&
      succeeded(verifyShapeOf(op, "tensor of alphas", op.getAlphas(),
                              {all[0], all[1], 2 * labels[1] + 1})) &&
      (!op.getFrames() || succeeded(verifyShapeOf(op, "number of frames",
                                                  op.getFrames(), all[0]))));
}

LogicalResult CtcLossOp::verify() { return verifySequences(*this); }
LogicalResult CtcLossBackwardOp::verify() { return verifySequences(*this); }

LogicalResult SoftmaxCrossEntropyOp::verify() {
  return verifyShapeOf(*this, "label tensor", getLabels(),
                       shapeOf(getLogits()).drop_back());
}

LogicalResult SoftmaxCrossEntropyBackwardOp::verify() {
  if (failed(verifyHasRows(*this)))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getLogits()).drop_back();
  return success(
      succeeded(verifyShapeOf(*this, "label tensor", getLabels(), rows)) &&
      succeeded(verifyShapeOf(*this, "normalizer", getLogNormalizer(), rows)) &&
      succeeded(verifyShapeOf(*this, "loss gradient", getLossGradient(), {})));
}
