//===- ExpandNorms.cpp - Batch norms by sums and elementwise code ---------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/Layout.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <type_traits>

namespace pp::nn {
#define GEN_PASS_DEF_EXPANDNORMS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Builds what a batch norm, forward or backward, stands for, in front of it.
template <typename NormOp> class NormExpansion {
public:
  explicit NormExpansion(NormOp norm)
      : norm(norm), builder(norm),
        image(cast<RankedTensorType>(norm.getInput().getType())),
        channels(cast<RankedTensorType>(norm.getScale().getType())) {}

  /// In its phase, with its hint about the stage.
  template <typename Op, typename... Args> Op make(Args &&...args) {
    auto op = Op::create(builder, norm.getLoc(), std::forward<Args>(args)...);
    op->setDiscardableAttrs(norm->getDiscardableAttrDictionary());
    // What belongs to the norm, its derivative and its parameters, goes to the
    // stage of the first of its kernels: values do not flow backwards.
    if (!std::is_same_v<Op, ChannelMomentsOp> &&
        std::is_same_v<NormOp, BatchNormOp>)
      op->removeAttr(step::originAttrName);
    return op;
  }
  template <typename Op> Value of(Value x, Value y) { return make<Op>(x, y); }

  /// A number for each channel.
  Value splat(double value) {
    return make<ConstantOp>(DenseElementsAttr::get(
        channels, builder.getFloatAttr(channels.getElementType(), value)));
  }
  /// The numbers of channels at all elements.
  Value spread(Value numbers) {
    int64_t block = getBlockOf(norm.getLayout()), last = image.getRank() - 1;
    auto type = image.clone(channels.getElementType());
    if (norm.getLayout() == Layout::channels_last)
      return make<BroadcastOp>(type, numbers, last);
    if (!block)
      return make<BroadcastOp>(type, numbers, int64_t{1});
    Value blocks = make<ReshapeOp>(
        channels.clone({channels.getNumElements() / block, block}), numbers);
    return make<BroadcastOp>(type, blocks, ArrayRef<int64_t>{1, last});
  }
  /// An image as it is computed with, and as it is kept.
  Value widened(Value value) {
    auto type = image.clone(channels.getElementType());
    return value.getType() == type ? value : Value(make<CastOp>(type, value));
  }
  Value kept(Value value) {
    return value.getType() == image ? value : Value(make<CastOp>(image, value));
  }
  Value deviation(Value variance) {
    Value epsilon = splat(norm.getEpsilon().convertToDouble());
    return make<SqrtOp>(of<AddOp>(variance, epsilon));
  }
  /// 1 / elements of a channel.
  Value share() {
    double count = static_cast<double>(image.getNumElements()) /
                   static_cast<double>(channels.getNumElements());
    if (!norm.getRows())
      return splat(1 / count);
    auto scalar = channels.clone(ArrayRef<int64_t>());
    double ofRow = count / static_cast<double>(image.getDimSize(0));
    Value one = make<ConstantOp>(DenseElementsAttr::get(
        scalar, builder.getFloatAttr(scalar.getElementType(), 1 / ofRow)));
    Value rows = make<CastOp>(scalar, norm.getRows());
    return make<BroadcastOp>(channels, of<DivOp>(one, rows),
                             ArrayRef<int64_t>());
  }
  /// Zero in rows that do not count.
  Value present(Value value) {
    if (!norm.getRows())
      return value;
    auto type = cast<RankedTensorType>(value.getType());
    auto numbers = type.clone(builder.getI32Type());
    Value isPresent = make<CompareOp>(
        type.clone(builder.getI1Type()), Comparison::lt,
        make<IotaOp>(numbers, 0),
        make<BroadcastOp>(numbers, norm.getRows(), ArrayRef<int64_t>()));
    Value zero = make<ConstantOp>(DenseElementsAttr::get(
        type, builder.getFloatAttr(type.getElementType(), 0)));
    return make<SelectOp>(isPresent, value, zero);
  }

private:
  NormOp norm;
  OpBuilder builder;
  RankedTensorType image, channels;
};

} // namespace

static void expandNorm(BatchNormOp op) {
  NormExpansion e(op);
  auto moments = e.make<ChannelMomentsOp>(
      op.getMean().getType(), op.getVariance().getType(), op.getInput(),
      op.getRows(), op.getLayout());
  Value factor = e.of<DivOp>(op.getScale(), e.deviation(moments.getVariance()));
  Value x = e.of<SubOp>(e.widened(op.getInput()), e.spread(moments.getMean()));
  x = e.of<AddOp>(e.of<MulOp>(x, e.spread(factor)), e.spread(op.getShift()));
  op->replaceAllUsesWith(
      ValueRange{e.kept(x), moments.getMean(), moments.getVariance()});
  op.erase();
}

/// With the deviation d, n = (x - mean) / d and averages over a channel:
/// scale / d * (g - average(g) - n * average(g * n)), and 0 in rows that do not
/// count.
static void expandNorm(BatchNormBackwardOp op) {
  NormExpansion e(op);
  Type numbers = op.getScale().getType();
  auto sums = e.make<ChannelSumsOp>(numbers, numbers, op.getOutputGradient(),
                                    op.getInput(), op.getMean(), op.getRows(),
                                    op.getLayout());
  Value inverse = e.of<DivOp>(e.splat(1), e.deviation(op.getVariance()));
  Value share = e.share();
  Value scaleGradient = e.of<MulOp>(sums.getWeighted(), inverse);
  Value average = e.of<MulOp>(sums.getSum(), share);
  Value slope = e.of<MulOp>(e.of<MulOp>(scaleGradient, inverse), share);
  Value factor = e.of<MulOp>(op.getScale(), inverse);
  Value x = e.of<SubOp>(e.widened(op.getInput()), e.spread(op.getMean()));
  Value g = e.of<SubOp>(e.widened(op.getOutputGradient()), e.spread(average));
  g = e.of<SubOp>(g, e.of<MulOp>(x, e.spread(slope)));
  g = e.present(e.of<MulOp>(g, e.spread(factor)));
  op->replaceAllUsesWith(ValueRange{e.kept(g), scaleGradient, sums.getSum()});
  op.erase();
}

namespace {

struct ExpandNorms : pp::nn::impl::ExpandNormsBase<ExpandNorms> {
  using ExpandNormsBase::ExpandNormsBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    for (Operation &op :
         llvm::make_early_inc_range(function->getBody().front())) {
      if (auto norm = dyn_cast<BatchNormOp>(op))
        expandNorm(norm);
      else if (auto norm = dyn_cast<BatchNormBackwardOp>(op))
        expandNorm(norm);
    }
  }
};

} // namespace
