//===- NNDerivatives.cpp - Vector-Jacobian products of nn -----------------===//
//
// One function per operation; those of simple functions stand beside their
// definitions. Cotangents use results before operands where
// both would do: a result that other operations read anyway costs no memory.
//
//===----------------------------------------------------------------------===//

#include "DerivativeEmitter.h"
#include "pp/Dialect/NN/IR/NN.h"

#include "llvm/ADT/STLExtras.h"
#include <numbers>

using namespace mlir;
using namespace pp::nn;

namespace {

using Cotangents = SmallVectorImpl<Value>;

SmallVector<int64_t> lastAxis(Value x) {
  return {cast<RankedTensorType>(x.getType()).getRank() - 1};
}

} // namespace

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

LogicalResult GeluOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                               ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = cotangents[0], x = getInput();
  Value one = e.splat(x, 1), squared = e.mul(x, x), derivative;
  if (getApproximate()) {
    // y = x/2 (1 + t), t = tanh(c (x + a x^3)):
    // y' = (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 a x^2).
    const double a = 0.044715;
    const double c =
        std::numbers::sqrt2 * std::numbers::inv_sqrtpi; // sqrt(2/pi)
    Value inner = e.scale(e.mul(x, e.add(one, e.scale(squared, a))), c);
    Value t = TanhOp::create(builder, getLoc(), inner);
    Value slope = e.scale(e.add(one, e.scale(squared, 3 * a)), c);
    Value curved = e.mul(e.sub(one, e.mul(t, t)), slope);
    derivative = e.scale(e.add(e.add(one, t), e.mul(x, curved)), 0.5);
  } else {
    // y = x Phi(x): y' = Phi(x) + x phi(x).
    Value erf =
        ErfOp::create(builder, getLoc(), e.scale(x, 1 / std::numbers::sqrt2));
    Value cdf = e.scale(e.add(one, erf), 0.5);
    Value pdf = e.scale(e.make<ExpOp>(e.scale(squared, -0.5)),
                        std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    derivative = e.add(cdf, e.mul(x, pdf));
  }
  result.assign({e.mul(g, derivative)});
  return success();
}

LogicalResult PowOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                              ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = cotangents[0], x = getLhs(), z = getRhs();
  Value zero = e.splat(x, 0);
  result.assign(2, Value());
  if (needed[0]) {
    // z x^(z-1); where z is 0 the derivative is 0, also at x = 0.
    Value power = PowOp::create(builder, getLoc(), x, e.sub(z, e.splat(z, 1)));
    result[0] = e.mul(
        g, e.select(e.compare(Comparison::eq, z, zero), zero, e.mul(z, power)));
  }
  if (needed[1]) {
    Value positive = e.compare(Comparison::gt, x, zero);
    Value safe = e.select(positive, x, e.splat(x, 1));
    Value log = LogOp::create(builder, getLoc(), safe);
    result[1] = e.mul(g, e.mul(getOutput(), log));
  }
  return success();
}

/// The cotangents of a maximum or minimum: all to the operand that wins; at a
/// tie half to each, or nothing where it stops.
static void extremumVJP(Emitter e, Value g, Operation *op, bool isMax,
                        ArrayRef<bool> needed, Cotangents &result) {
  Value x = op->getOperand(0), z = op->getOperand(1);
  Value zero = e.splat(g, 0), half, tie;
  if (!op->hasAttr(stopsAtBoundAttrName)) {
    tie = e.compare(Comparison::eq, x, z);
    half = e.scale(g, 0.5);
  }
  Comparison wins = isMax ? Comparison::gt : Comparison::lt;
  auto share = [&](Value own, Value other) {
    Value won = e.select(e.compare(wins, own, other), g, zero);
    return tie ? e.select(tie, half, won) : won;
  };
  result.assign(2, Value());
  if (needed[0])
    result[0] = share(x, z);
  if (needed[1])
    result[1] = share(z, x);
}

LogicalResult MaximumOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  extremumVJP({builder, getLoc()}, cotangents[0], *this, true, needed, result);
  return success();
}

LogicalResult MinimumOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  extremumVJP({builder, getLoc()}, cotangents[0], *this, false, needed, result);
  return success();
}

LogicalResult SelectOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                                 ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = cotangents[0];
  result.assign(3, Value());
  if (needed[1])
    result[1] = e.select(getCondition(), g, e.splat(g, 0));
  if (needed[2])
    result[2] = e.select(getCondition(), e.splat(g, 0), g);
  return success();
}

LogicalResult CastOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                               ArrayRef<bool> needed, Cotangents &result) {
  result.assign({Value(
      CastOp::create(builder, getLoc(), getInput().getType(), cotangents[0]))});
  return success();
}

//===----------------------------------------------------------------------===//
// Moving elements
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  result.assign({Emitter{builder, getLoc()}.reshape(cotangents[0],
                                                    getInput().getType())});
  return success();
}

LogicalResult TransposeOp::buildVJP(OpBuilder &builder,
                                    ArrayRef<Value> cotangents,
                                    ArrayRef<bool> needed, Cotangents &result) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = to;
  result.assign({Emitter{builder, getLoc()}.transpose(cotangents[0], inverse)});
  return success();
}

LogicalResult BroadcastOp::buildVJP(OpBuilder &builder,
                                    ArrayRef<Value> cotangents,
                                    ArrayRef<bool> needed, Cotangents &result) {
  SmallVector<int64_t> repeated;
  for (int64_t axis = 0; axis < getOutput().getType().getRank(); ++axis)
    if (!llvm::is_contained(getAxes(), axis))
      repeated.push_back(axis);
  result.assign({Emitter{builder, getLoc()}.sum(cotangents[0], repeated)});
  return success();
}

LogicalResult SliceOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                                ArrayRef<bool> needed, Cotangents &result) {
  SmallVector<int64_t> low(getStarts()), high, interior;
  auto input = getInput().getType(), output = getOutput().getType();
  for (int64_t axis = 0; axis < input.getRank(); ++axis) {
    int64_t stride = getStrides()[axis], taken = output.getDimSize(axis);
    int64_t end = low[axis] + (taken == 0 ? 0 : (taken - 1) * stride + 1);
    high.push_back(input.getDimSize(axis) - end);
    interior.push_back(stride - 1);
  }
  result.assign({Value(PadOp::create(builder, getLoc(), cotangents[0], low,
                                     high, interior, llvm::APFloat(0.0)))});
  return success();
}

LogicalResult PadOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                              ArrayRef<bool> needed, Cotangents &result) {
  SmallVector<int64_t> starts(getLow()), limits, strides;
  auto output = getOutput().getType();
  for (int64_t axis = 0; axis < output.getRank(); ++axis) {
    limits.push_back(output.getDimSize(axis) - getHigh()[axis]);
    strides.push_back(getInterior()[axis] + 1);
  }
  result.assign({Value(SliceOp::create(builder, getLoc(), cotangents[0], starts,
                                       limits, strides))});
  return success();
}

LogicalResult ConcatOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                                 ArrayRef<bool> needed, Cotangents &result) {
  auto output = getOutput().getType();
  SmallVector<int64_t> starts(output.getRank(), 0), limits(output.getShape());
  SmallVector<int64_t> strides(output.getRank(), 1);
  result.clear();
  int64_t offset = 0;
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    starts[getAxis()] = offset;
    offset += cast<RankedTensorType>(input.getType()).getDimSize(getAxis());
    limits[getAxis()] = offset;
    if (!needed[index])
      result.push_back(Value());
    else
      result.push_back(SliceOp::create(builder, getLoc(), cotangents[0], starts,
                                       limits, strides));
  }
  return success();
}

LogicalResult GatherOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                                 ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = e.widened(cotangents[0]);
  if (auto untrained = static_cast<int64_t>(getUntrained()); untrained >= 0) {
    // Slices have axes before those of the indices, and behind them.
    auto slices = cast<RankedTensorType>(g.getType());
    auto first = static_cast<int64_t>(getShared()),
         axis = static_cast<int64_t>(getAxis());
    int64_t end = axis + getIndices().getType().getRank() - first;
    SmallVector<int64_t> others =
        llvm::to_vector(llvm::seq<int64_t>(first, axis));
    llvm::append_range(others, llvm::seq<int64_t>(end, slices.getRank()));
    RankedTensorType indexType = getIndices().getType();
    Value index = ConstantOp::create(
        builder, getLoc(),
        DenseElementsAttr::get(
            indexType,
            builder.getIntegerAttr(indexType.getElementType(), untrained)));
    Value isUntrained = e.compare(Comparison::eq, getIndices(), index);
    auto bits = slices.clone(builder.getI1Type());
    g = e.select(e.broadcastOver(isUntrained, bits, others), e.splat(g, 0), g);
  }
  RankedTensorType type = getInput().getType();
  Value sum = ScatterAddOp::create(
      builder, getLoc(), type.clone(getElementTypeOrSelf(g.getType())),
      getIndices(), g, getAxis(), getShared());
  result.assign({e.cast(sum, type.getElementType()), Value()});
  return success();
}

LogicalResult ScatterAddOp::buildVJP(OpBuilder &builder,
                                     ArrayRef<Value> cotangents,
                                     ArrayRef<bool> needed,
                                     Cotangents &result) {
  result.assign(2, Value());
  result[1] = GatherOp::create(builder, getLoc(), cotangents[0], getIndices(),
                               getAxis(), getShared());
  return success();
}

namespace {

/// Derivatives of a scatter that combines; operands of `op` have its indices.
struct CombineDerivative {
  Emitter e;
  ScatterOp op;

  Value gather(Value x) {
    return GatherOp::create(e.builder, e.loc, x, op.getIndices(), op.getAxis(),
                            op.getShared());
  }
  Value scatter(Value input, Value updates, Reduction how) {
    return ScatterOp::create(e.builder, e.loc, input.getType(), input,
                             op.getIndices(), updates, op.getAxis(),
                             op.getShared(),
                             ReductionAttr::get(e.builder.getContext(), how));
  }
  /// 1 where the condition holds, else 0.
  Value ones(Value condition) {
    auto type = cast<RankedTensorType>(condition.getType());
    return CastOp::create(e.builder, e.loc,
                          type.clone(op.getOutput().getType().getElementType()),
                          condition);
  }
  Value isZero(Value x) { return e.compare(Comparison::eq, x, e.splat(x, 0)); }

  /// Of a maximum or minimum: those that attain it share the cotangent.
  std::pair<Value, Value> ofExtremum(Value g) {
    Value y = op.getOutput();
    Value inputWins = e.compare(Comparison::eq, op.getInput(), y);
    Value updateWins = e.compare(Comparison::eq, op.getUpdates(), gather(y));
    Value count = scatter(ones(inputWins), ones(updateWins), Reduction::sum);
    // Only NaN is attained by none, and not even by itself.
    Value share = e.div(g, e.select(isZero(count), e.splat(count, 1), count));
    Value own = e.select(inputWins, share, e.splat(share, 0));
    Value gathered = gather(share);
    return {own, e.select(updateWins, gathered, e.splat(gathered, 0))};
  }

  /// Of a product: each factor gets the product of the others.
  std::pair<Value, Value> ofProduct(Value g) {
    Value x = op.getInput(), u = op.getUpdates();
    Value own = e.mul(g, scatter(e.splat(x, 1), u, Reduction::product));
    // Without zeros, and how many there are.
    Value xIsZero = isZero(x), uIsZero = isZero(u);
    Value factors = e.select(uIsZero, e.splat(u, 1), u);
    Value product = scatter(e.select(xIsZero, e.splat(x, 1), x), factors,
                            Reduction::product);
    Value zeros = scatter(ones(xIsZero), ones(uIsZero), Reduction::sum);
    Value elsewhere = e.sub(gather(zeros), ones(uIsZero));
    Value others = e.mul(gather(g), e.div(gather(product), factors));
    return {own, e.select(isZero(elsewhere), others, e.splat(others, 0))};
  }
};

} // namespace

LogicalResult ScatterOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = cotangents[0];
  result.assign(3, Value());
  if (auto how = getCombine()) {
    CombineDerivative derivative{e, *this};
    auto [ofInput, ofUpdates] =
        *how == Reduction::sum       ? std::pair(g, derivative.gather(g))
        : *how == Reduction::product ? derivative.ofProduct(g)
                                     : derivative.ofExtremum(g);
    result[0] = ofInput;
    result[2] = ofUpdates;
    return success();
  }
  if (needed[0])
    result[0] = ScatterOp::create(builder, getLoc(), g.getType(), g,
                                  getIndices(), e.splat(getUpdates(), 0),
                                  getAxis(), getShared(), ReductionAttr());
  if (needed[2])
    result[2] = GatherOp::create(builder, getLoc(), g, getIndices(), getAxis(),
                                 getShared());
  return success();
}

LogicalResult CumSumOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                                 ArrayRef<bool> needed, Cotangents &result) {
  result.assign({Value(CumSumOp::create(builder, getLoc(), getInput().getType(),
                                        cotangents[0], getAxis(),
                                        getExclusive(), !getReverse()))});
  return success();
}

/// The cotangent of the factors of products: of each the product of the others.
/// With one zero among them, only that factor has one; with two, none.
static Value factorCotangent(Emitter e, ReduceOp op, Value g) {
  auto type = op.getInput().getType();
  ArrayRef<int64_t> axes = op.getAxes();
  Value x = op.getInput(), ones = e.splat(x, 1);
  Value isZero = e.compare(Comparison::eq, x, e.splat(x, 0));
  Value zeros = CastOp::create(e.builder, e.loc, type, isZero);
  Value count = e.broadcastOver(e.sum(zeros, axes), type, axes);
  Value factors = e.select(isZero, ones, x);
  Value product =
      ReduceOp::create(e.builder, e.loc, Reduction::product, factors, axes);
  Value others = e.div(e.broadcastOver(product, type, axes), factors);
  // Zeros besides the factor itself.
  Value elsewhere =
      e.compare(Comparison::gt, e.sub(count, zeros), e.splat(x, 0));
  return e.select(elsewhere, e.splat(x, 0), e.mul(g, others));
}

LogicalResult ReduceOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                                 ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  auto type = getInput().getType();
  Value g = e.broadcastOver(cotangents[0], type, getAxes());
  if (getReduction() == Reduction::product) {
    g = factorCotangent(e, *this, g);
  } else if (getReduction() != Reduction::sum) {
    Value y = e.broadcastOver(getOutput(), type, getAxes());
    Value wins = e.compare(Comparison::eq, getInput(), y);
    Value ones = CastOp::create(builder, getLoc(), type, wins);
    Value count = e.broadcastOver(e.sum(ones, getAxes()), type, getAxes());
    g = e.select(wins, e.div(g, count), e.splat(g, 0));
  }
  result.assign({g});
  return success();
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// The cotangent of one operand of a dot_general: the other operand (`other`)
/// contracted with `g` over the other's free axes. `mine*` describe the operand
/// asked for. In `g`, the batch axes come first, my free axes start at
/// `myFreeInG` and the other's at `otherFreeInG`.
static Value
dotOperandCotangent(Emitter e, Value g, Value other, RankedTensorType mineType,
                    ArrayRef<int64_t> mineBatch, ArrayRef<int64_t> mineFree,
                    ArrayRef<int64_t> mineContract,
                    ArrayRef<int64_t> otherBatch, ArrayRef<int64_t> otherFree,
                    ArrayRef<int64_t> otherContract, int64_t myFreeInG,
                    int64_t otherFreeInG) {
  int64_t batches = mineBatch.size();
  SmallVector<int64_t> gBatch, gContract;
  for (int64_t axis = 0; axis < batches; ++axis)
    gBatch.push_back(axis);
  for (size_t i = 0; i < otherFree.size(); ++i)
    gContract.push_back(otherFreeInG + i);
  (void)myFreeInG;

  // The product has my contracted axes in the order of the other operand's.
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (auto [theirs, ours] : llvm::zip(otherContract, mineContract))
    pairs.push_back({theirs, ours});
  llvm::sort(pairs);
  SmallVector<int64_t> contractInProduct;
  for (auto [theirs, ours] : pairs)
    contractInProduct.push_back(ours);

  // Put first what comes first in my layout, so that no transpose is needed for
  // either of the usual weight layouts.
  bool contractFirst = !mineFree.empty() && !mineContract.empty() &&
                       mineContract.front() < mineFree.front();
  SmallVector<int64_t> axesOfProduct(mineBatch);
  auto append = [&](ArrayRef<int64_t> axes) {
    axesOfProduct.append(axes.begin(), axes.end());
  };
  if (contractFirst) {
    append(contractInProduct);
    append(mineFree);
  } else {
    append(mineFree);
    append(contractInProduct);
  }
  SmallVector<int64_t> shape;
  for (int64_t axis : axesOfProduct)
    shape.push_back(mineType.getDimSize(axis));
  auto type = mineType.clone(shape);
  Value product =
      contractFirst
          ? DotGeneralOp::create(e.builder, e.loc, type, other, g, otherBatch,
                                 gBatch, otherFree, gContract)
          : DotGeneralOp::create(e.builder, e.loc, type, g, other, gBatch,
                                 otherBatch, gContract, otherFree);
  SmallVector<int64_t> permutation(axesOfProduct.size());
  for (auto [position, axis] : llvm::enumerate(axesOfProduct))
    permutation[axis] = position;
  return e.transpose(product, permutation);
}

LogicalResult DotGeneralOp::buildVJP(OpBuilder &builder,
                                     ArrayRef<Value> cotangents,
                                     ArrayRef<bool> needed,
                                     Cotangents &result) {
  Emitter e{builder, getLoc()};
  SmallVector<int64_t> lhsFree = getFreeAxes(false),
                       rhsFree = getFreeAxes(true);
  int64_t batches = getLhsBatch().size();
  int64_t lhsInG = batches, rhsInG = batches + lhsFree.size();
  result.assign(2, Value());
  if (needed[0])
    result[0] = dotOperandCotangent(e, cotangents[0], getRhs(),
                                    getLhs().getType(), getLhsBatch(), lhsFree,
                                    getLhsContract(), getRhsBatch(), rhsFree,
                                    getRhsContract(), lhsInG, rhsInG);
  if (needed[1])
    result[1] = dotOperandCotangent(e, cotangents[0], getLhs(),
                                    getRhs().getType(), getRhsBatch(), rhsFree,
                                    getRhsContract(), getLhsBatch(), lhsFree,
                                    getLhsContract(), rhsInG, lhsInG);
  return success();
}

LogicalResult AttentionOp::buildVJP(OpBuilder &builder,
                                    ArrayRef<Value> cotangents,
                                    ArrayRef<bool> needed, Cotangents &result) {
  if (cotangents[1])
    return emitOpError("has no derivative of its logsumexp result");
  if (getMask() && needed[3])
    return emitOpError("has no derivative with respect to its mask");
  auto backward = AttentionBackwardOp::create(
      builder, getLoc(), getQuery().getType(), getKey().getType(),
      getValue().getType(), getQuery(), getKey(), getValue(), getOutput(),
      getLogsumexp(), cotangents[0], getMask(), getQueryAxes(), getKeyAxes(),
      getValueAxes(), getOutputAxes(), getScale(), getCausal(), getZeroed());
  result.assign(backward->result_begin(), backward->result_end());
  if (getMask())
    result.push_back(Value());
  return success();
}

/// Builds a convolution op with the geometry of `like`.
template <typename To, typename From>
static Value convolutionLike(OpBuilder &builder, From like, Type type,
                             Value first, Value second) {
  return To::create(builder, like.getLoc(), type, first, second,
                    like.getStrides(), like.getDilations(), like.getPadLow(),
                    like.getPadHigh(), like.getGroups(), like.getLayout(),
                    like.getAlgorithm());
}

LogicalResult ConvOp::buildVJP(OpBuilder &builder, ArrayRef<Value> cotangents,
                               ArrayRef<bool> needed, Cotangents &result) {
  result.assign(2, Value());
  if (needed[0])
    result[0] = convolutionLike<ConvBackwardInputOp>(
        builder, *this, getInput().getType(), cotangents[0], getWeight());
  if (needed[1])
    result[1] = convolutionLike<ConvBackwardWeightOp>(
        builder, *this, getWeight().getType(), getInput(), cotangents[0]);
  return success();
}

LogicalResult ConvBackwardInputOp::buildVJP(OpBuilder &builder,
                                            ArrayRef<Value> cotangents,
                                            ArrayRef<bool> needed,
                                            Cotangents &result) {
  result.assign(2, Value());
  if (needed[0])
    result[0] =
        convolutionLike<ConvOp>(builder, *this, getOutputGradient().getType(),
                                cotangents[0], getWeight());
  if (needed[1])
    result[1] = convolutionLike<ConvBackwardWeightOp>(
        builder, *this, getWeight().getType(), cotangents[0],
        getOutputGradient());
  return success();
}

LogicalResult ConvBackwardWeightOp::buildVJP(OpBuilder &builder,
                                             ArrayRef<Value> cotangents,
                                             ArrayRef<bool> needed,
                                             Cotangents &result) {
  result.assign(2, Value());
  if (needed[0])
    result[0] = convolutionLike<ConvBackwardInputOp>(
        builder, *this, getInput().getType(), getOutputGradient(),
        cotangents[0]);
  if (needed[1])
    result[1] =
        convolutionLike<ConvOp>(builder, *this, getOutputGradient().getType(),
                                getInput(), cotangents[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

LogicalResult MaxPoolOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  result.assign({Value(MaxPoolBackwardOp::create(
      builder, getLoc(), getInput().getType(), getInput(), cotangents[0],
      getKernel(), getStrides(), getDilations(), getPadLow(), getPadHigh(),
      getLayout()))});
  return success();
}

LogicalResult AvgPoolOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  result.assign({Value(AvgPoolBackwardOp::create(
      builder, getLoc(), getInput().getType(), cotangents[0], getKernel(),
      getStrides(), getDilations(), getPadLow(), getPadHigh(), getIncludePad(),
      getLayout()))});
  return success();
}

LogicalResult AvgPoolBackwardOp::buildVJP(OpBuilder &builder,
                                          ArrayRef<Value> cotangents,
                                          ArrayRef<bool> needed,
                                          Cotangents &result) {
  result.assign({Value(AvgPoolOp::create(
      builder, getLoc(), getOutputGradient().getType(), cotangents[0],
      getKernel(), getStrides(), getDilations(), getPadLow(), getPadHigh(),
      getIncludePad()))});
  return success();
}

//===----------------------------------------------------------------------===//
// Normalisation and losses
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = cotangents[0], y = getOutput();
  SmallVector<int64_t> row = lastAxis(y);
  Value sum = e.sum(e.mul(g, y), row);
  Value spread = e.broadcastOver(sum, getOutput().getType(), row);
  result.assign({e.mul(y, e.sub(g, spread))});
  return success();
}

LogicalResult LogSoftmaxOp::buildVJP(OpBuilder &builder,
                                     ArrayRef<Value> cotangents,
                                     ArrayRef<bool> needed,
                                     Cotangents &result) {
  Emitter e{builder, getLoc()};
  Value g = cotangents[0], y = getOutput();
  SmallVector<int64_t> row = lastAxis(y);
  Value spread = e.broadcastOver(e.sum(g, row), getOutput().getType(), row);
  result.assign({e.sub(g, e.mul(e.make<ExpOp>(y), spread))});
  return success();
}

LogicalResult LayerNormOp::buildVJP(OpBuilder &builder,
                                    ArrayRef<Value> cotangents,
                                    ArrayRef<bool> needed, Cotangents &result) {
  Emitter e{builder, getLoc()};
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no derivative of its mean and rstd results");
  Value g = cotangents[0];
  auto type = getInput().getType();
  SmallVector<int64_t> row = lastAxis(getInput()), rows;
  for (int64_t axis = 0; axis + 1 < type.getRank(); ++axis)
    rows.push_back(axis);
  result.assign(3, Value());
  if (needed[0])
    result[0] = LayerNormBackwardOp::create(builder, getLoc(), g, getInput(),
                                            getScale(), getMean(), getRstd());
  if (needed[1]) {
    Value mean = e.broadcastOver(getMean(), type, row);
    Value rstd = e.broadcastOver(getRstd(), type, row);
    Value normal = e.mul(e.sub(getInput(), mean), rstd);
    result[1] = e.sum(e.mul(g, normal), rows);
  }
  if (needed[2])
    result[2] = e.sum(g, rows);
  return success();
}

LogicalResult BatchNormOp::buildVJP(OpBuilder &builder,
                                    ArrayRef<Value> cotangents,
                                    ArrayRef<bool> needed, Cotangents &result) {
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no derivative of its mean and variance results");
  auto backward = BatchNormBackwardOp::create(
      builder, getLoc(), getInput(), cotangents[0], getMean(), getVariance(),
      getScale(), getRows(), getEpsilonAttr(), getLayoutAttr());
  result.assign(backward->result_begin(), backward->result_end());
  result.resize(getNumOperands());
  return success();
}

LogicalResult CtcLossOp::buildVJP(OpBuilder &builder,
                                  ArrayRef<Value> cotangents,
                                  ArrayRef<bool> needed, Cotangents &result) {
  if (cotangents[1])
    return emitOpError("has no derivative of its forward variables");
  result.assign(getNumOperands(), Value());
  result[0] = CtcLossBackwardOp::create(
      builder, getLoc(), getLogProbabilities(), getLabels(), getLosses(),
      getAlphas(), cotangents[0], getFrames(), getBlankAttr());
  return success();
}

LogicalResult SoftmaxCrossEntropyOp::buildVJP(OpBuilder &builder,
                                              ArrayRef<Value> cotangents,
                                              ArrayRef<bool> needed,
                                              Cotangents &result) {
  if (cotangents[1])
    return emitOpError("has no derivative of its normalizer result");
  result.assign(2, Value());
  result[0] = SoftmaxCrossEntropyBackwardOp::create(
      builder, getLoc(), getLogits(), getLabels(), getLogNormalizer(),
      cotangents[0], getIgnoreIndexAttr());
  return success();
}
