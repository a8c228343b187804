//===- LayoutRules.cpp - What a layout asks of operations -----------------===//
//
// Costs are bytes. What is known of the library (oneDNN 2.6, one core with
// AVX-512): a convolution copies plain tensors into a layout that it has
// kernels for, and pooling is about as slow as with such copies. Batch norm of
// plain tensors runs generic code, which takes twelve times as long as the
// other.
//
//===----------------------------------------------------------------------===//

#include "LayoutRules.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

static double bytesOf(Value value) {
  return static_cast<double>(getTensorBytes(value.getType()));
}

static bool canValueLie(Value value, Layout layout) {
  return isa<RankedTensorType>(value.getType()) &&
         canLie(shapeOf(value), layout);
}

SmallVector<int64_t> pp::nn::getChannelAxes(int64_t rank, bool isBack) {
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  auto second = axes.begin() + 1;
  std::rotate(second, isBack ? axes.end() - 1 : second + 1, axes.end());
  return axes;
}

/// Whether what a transposition reads, or with `isBack` what it makes, lies in
/// memory as the other does, if its channels are last. The library reorders
/// images of three axes at most.
static bool isView(TransposeOp transpose, bool isBack) {
  constexpr int64_t least = 4, most = 5;
  const int64_t rank = transpose.getInput().getType().getRank();
  return rank >= least && rank <= most &&
         transpose.getPermutation() ==
             ArrayRef<int64_t>(getChannelAxes(rank, isBack));
}

namespace {

/// Collects the rule of one operation.
class RuleFinder {
public:
  RuleFinder(Operation *op, Layout layout) : op(op), layout(layout) {}

  LayoutRule find() {
    llvm::TypeSwitch<Operation *>(op)
        .Case<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp>(
            [&](auto convolution) { ofConvolution(convolution); })
        .Case<MaxPoolOp, MaxPoolBackwardOp, AvgPoolOp, AvgPoolBackwardOp>(
            [&](Operation *) { all(/*plainFactor=*/2); })
        .Case<BatchNormOp, BatchNormBackwardOp>([&](Operation *norm) {
          if (shapeOf(norm->getOperand(0)).size() < 3)
            return;
          rule.isPossible = true;
          follow(/*operand=*/0, 12);
          if (isa<BatchNormBackwardOp>(norm))
            follow(1, 0);
          followResult(0, 0);
        })
        .Case([&](BroadcastOp broadcast) { ofBroadcast(broadcast); })
        .Case([&](ReduceOp reduce) { ofReduce(reduce); })
        .Case([&](ConcatOp) { all(0); })
        .Case([&](PadOp pad) {
          if (isBlocked() &&
              (at(pad.getLow()) || at(pad.getHigh()) || at(pad.getInterior())))
            return;
          all(0);
        })
        .Case([&](SliceOp slice) {
          if (isBlocked() && (at(slice.getStrides()) != 1 ||
                              at(slice.getStarts()) % getBlockOf(layout) ||
                              at(slice.getLimits()) % getBlockOf(layout)))
            return;
          all(0);
        })
        .Case([&](TransposeOp transpose) { ofTranspose(transpose); })
        .Case([&](UniformOp uniform) {
          if (!uniform.getSamples() ||
              *uniform.getSamples() != ArrayRef<int64_t>{0, 1, 1})
            return;
          rule.isPossible = true;
          followResult(0, 0);
        })
        .Case([&](ConstantOp constant) {
          if (constant.getValue().isSplat())
            all(0);
        })
        .Default([&](Operation *) {
          if (op->hasTrait<OpTrait::Elementwise>())
            all(0);
        });
    // Nothing is possible for a tensor that cannot lie so.
    for (unsigned index : rule.operands)
      rule.isPossible &= canValueLie(op->getOperand(index), layout);
    for (unsigned index : rule.results)
      rule.isPossible &= canValueLie(op->getResult(index), layout);
    rule.isPossible &= !rule.operands.empty() || !rule.results.empty();
    return std::move(rule);
  }

private:
  bool isBlocked() const { return getBlockOf(layout) != 0; }

  /// Of the channels.
  static int64_t at(ArrayRef<int64_t> axes) {
    return axes.size() > 1 ? axes[1] : 0;
  }

  void follow(unsigned operand, double plainFactor) {
    rule.operands.push_back(operand);
    rule.plainBytes += plainFactor * bytesOf(op->getOperand(operand));
  }
  void followResult(unsigned result, double plainFactor) {
    rule.results.push_back(result);
    rule.plainBytes += plainFactor * bytesOf(op->getResult(result));
  }

  /// All operands and results have channels.
  void all(double plainFactor) {
    rule.isPossible = true;
    for (unsigned index = 0; index < op->getNumOperands(); ++index)
      follow(index, plainFactor);
    for (unsigned index = 0; index < op->getNumResults(); ++index)
      followResult(index, plainFactor);
  }

  template <typename ConvolutionOp> void ofConvolution(ConvolutionOp op) {
    rule.isPossible = true;
    // The library has Winograd's algorithm for blocks only.
    bool isCopied =
        op.getAlgorithm() == ConvolutionAlgorithm::winograd && !isBlocked();
    auto add = [&](Value value, auto follow) {
      // A read and a write where it must be copied.
      double copied = 2 * bytesOf(value);
      if (canValueLie(value, layout)) {
        follow();
        rule.plainBytes += copied;
        rule.otherBytes += isCopied ? copied : 0;
      } else {
        rule.plainBytes += copied;
        rule.otherBytes += copied;
      }
    };
    constexpr bool isWeight =
        std::is_same_v<ConvolutionOp, ConvBackwardWeightOp>;
    add(op->getOperand(0), [&] { follow(0, 0); });
    if (isWeight)
      add(op->getOperand(1), [&] { follow(1, 0); });
    else
      add(op->getResult(0), [&] { followResult(0, 0); });
  }

  /// The operand stays plain, seen under another shape: so its channels must be
  /// its last axis, or no axis at all.
  void ofBroadcast(BroadcastOp broadcast) {
    ArrayRef<int64_t> axes = broadcast.getAxes();
    bool hasChannels = llvm::is_contained(axes, 1);
    if (hasChannels && axes.back() != 1)
      return;
    rule.isPossible = true;
    followResult(0, 0);
  }

  /// One side is seen as the other one lies, which stays plain.
  void ofTranspose(TransposeOp transpose) {
    if (layout != Layout::channels_last)
      return;
    rule.isPossible = true;
    if (isView(transpose, /*isBack=*/true))
      followResult(0, 2);
    else if (isView(transpose, /*isBack=*/false))
      follow(0, 2);
  }

  /// The result stays plain, so it may have no spatial axis.
  void ofReduce(ReduceOp reduce) {
    int64_t rank = reduce.getInput().getType().getRank();
    for (int64_t axis = 2; axis < rank; ++axis)
      if (!llvm::is_contained(reduce.getAxes(), axis))
        return;
    rule.isPossible = true;
    follow(0, 0);
  }

  Operation *op;
  Layout layout;
  LayoutRule rule;
};

} // namespace

LayoutRule pp::nn::getLayoutRule(Operation *op, Layout layout) {
  return RuleFinder(op, layout).find();
}

bool pp::nn::hasLayout(Operation *op) {
  return isa<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp, MaxPoolOp,
             MaxPoolBackwardOp, AvgPoolOp, AvgPoolBackwardOp, BatchNormOp,
             BatchNormBackwardOp>(op);
}

//===----------------------------------------------------------------------===//
// The change
//===----------------------------------------------------------------------===//

static RankedTensorType physicalType(Type type, Layout layout) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(toPhysicalShape(tensor.getShape(), layout),
                               tensor.getElementType());
}

/// A number for each logical axis, for each axis in the layout; `channel` for
/// the axis within a block.
static SmallVector<int64_t> permuted(ArrayRef<int64_t> numbers, Layout layout,
                                     int64_t channel) {
  SmallVector<int64_t> result(numbers);
  if (layout == Layout::channels_last) {
    result.erase(result.begin() + 1);
    result.push_back(numbers[1]);
  } else {
    result.push_back(channel);
  }
  return result;
}

namespace {

class LayoutSetter {
public:
  LayoutSetter(Layout layout, OpBuilder &builder,
               function_ref<void(Operation *)> mark)
      : layout(layout), block(getBlockOf(layout)), builder(builder),
        mark(mark) {}

  Value set(BroadcastOp op) {
    auto type = op.getOutput().getType();
    SmallVector<int64_t> axes = mapped(op.getAxes(), type.getRank());
    if (block && llvm::is_contained(op.getAxes(), 1)) {
      SmallVector<int64_t> shape(op.getInput().getType().getShape());
      shape.back() /= block;
      shape.push_back(block);
      axes.push_back(type.getRank());
      op.getInputMutable().set(reshape(op.getInput(), shape));
    }
    op.setAxes(axes);
    op.getOutput().setType(physicalType(type, layout));
    return op.getOutput();
  }

  Value set(ReduceOp op, int64_t rank) {
    auto plain = op.getOutput().getType();
    SmallVector<int64_t> axes = mapped(op.getAxes(), rank);
    bool hasChannels = !llvm::is_contained(op.getAxes(), 1);
    if (block && !hasChannels)
      axes.push_back(rank);
    llvm::sort(axes);
    op.setAxes(axes);
    if (!block || !hasChannels)
      return op.getOutput();
    SmallVector<int64_t> shape(plain.getShape());
    shape.back() /= block;
    shape.push_back(block);
    op.getOutput().setType(
        RankedTensorType::get(shape, plain.getElementType()));
    builder.setInsertionPointAfter(op);
    return reshape(op.getOutput(), plain.getShape());
  }

  void set(PadOp op) {
    op.setLow(permuted(op.getLow(), layout, 0));
    op.setHigh(permuted(op.getHigh(), layout, 0));
    op.setInterior(permuted(op.getInterior(), layout, 0));
  }

  void set(SliceOp op) {
    auto scaled = [&](ArrayRef<int64_t> numbers, int64_t within) {
      SmallVector<int64_t> result = permuted(numbers, layout, within);
      if (block)
        result[1] /= block;
      return result;
    };
    op.setStarts(scaled(op.getStarts(), 0));
    op.setLimits(scaled(op.getLimits(), block));
    op.setStrides(permuted(op.getStrides(), layout, 1));
  }

private:
  SmallVector<int64_t> mapped(ArrayRef<int64_t> axes, int64_t rank) {
    return llvm::map_to_vector(
        axes, [&](int64_t axis) { return toPhysicalAxis(axis, rank, layout); });
  }

  Value reshape(Value value, ArrayRef<int64_t> shape) {
    auto type = cast<RankedTensorType>(value.getType()).clone(shape);
    auto view = ReshapeOp::create(builder, value.getLoc(), type, value);
    mark(view);
    return view;
  }

  Layout layout;
  int64_t block;
  OpBuilder &builder;
  function_ref<void(Operation *)> mark;
};

} // namespace

SmallVector<Value> pp::nn::setLayout(Operation *op, Layout layout,
                                     OpBuilder &builder,
                                     function_ref<void(Operation *)> mark) {
  builder.setInsertionPoint(op);
  LayoutSetter setter(layout, builder, mark);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return {setter.set(broadcast)};
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    auto logical = toLogicalShape(shapeOf(reduce.getInput()), layout);
    return {setter.set(reduce, logical->size())};
  }
  SmallVector<Value> results(op->getResults());
  auto follows = [&](Value result) {
    // Of convolutions and norms, results that are no images.
    bool isImage = !isa<ConvBackwardWeightOp>(op) &&
                   (!isa<BatchNormOp, BatchNormBackwardOp>(op) ||
                    result == op->getResult(0));
    if (auto transpose = dyn_cast<TransposeOp>(op))
      isImage = isView(transpose, /*isBack=*/true);
    return isImage && canValueLie(result, layout);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](PadOp pad) { setter.set(pad); })
      .Case([&](SliceOp slice) { setter.set(slice); })
      .Case([&](UniformOp uniform) { uniform.setLayout(layout); })
      .Case([&](ConcatOp concat) {
        concat.setAxis(toPhysicalAxis(
            concat.getAxis(), concat.getOutput().getType().getRank(), layout));
      })
      .Case([&](ConstantOp constant) {
        auto value = cast<DenseElementsAttr>(constant.getValue());
        constant.setValueAttr(value.resizeSplat(
            physicalType(constant.getOutput().getType(), layout)));
      })
      .Case<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp, MaxPoolOp,
            MaxPoolBackwardOp, AvgPoolOp, AvgPoolBackwardOp, BatchNormOp,
            BatchNormBackwardOp>(
          [&](auto library) { library.setLayout(layout); });
  for (Value result : results)
    if (follows(result))
      result.setType(physicalType(result.getType(), layout));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    const int64_t rank = transpose.getOutput().getType().getRank();
    transpose.setPermutation(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  }
  return results;
}
