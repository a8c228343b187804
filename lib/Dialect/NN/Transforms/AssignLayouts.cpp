//===- AssignLayouts.cpp - Lay channels where kernels want them -----------===//

#include "CheapOperations.h"
#include "KernelTimes.h"
#include "LayoutRules.h"
#include "MainFunction.h"
#include "StepMarks.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Planner/LayoutAssignment.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/TargetParser/Host.h"

#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// What operations and copies cost: bytes, or seconds where times are known.
class LayoutCosts {
public:
  /// In bytes.
  LayoutCosts() = default;
  /// In seconds; `layouts` are those that are compared, `rate` is in bytes per
  /// second.
  LayoutCosts(KernelTimes times, ArrayRef<Layout> layouts, double rate,
              int64_t uses)
      : times(std::move(times)), layouts(layouts), uses(uses),
        perByte(1 / rate) {}

  /// Whether the operation was measured plainly and in all layouts: only then
  /// can its times be compared over all of them.
  bool isMeasured(Operation *op) const {
    return timeIn(op, Layout::plain) &&
           llvm::all_of(layouts, [&](Layout candidate) {
             return timeIn(op, candidate).has_value();
           });
  }

  double ofBytes(double bytes) const { return perByte * bytes; }

  /// Of an operation that works plainly, and in `layout`.
  planner::LayoutProblem::Operation of(Operation *op, const LayoutRule &rule,
                                       Layout layout) const {
    if (isMeasured(op))
      return {*timeIn(op, Layout::plain), *timeIn(op, layout)};
    return {ofBytes(rule.plainBytes), ofBytes(rule.otherBytes)};
  }

private:
  std::optional<double> timeIn(Operation *op, Layout layout) const {
    if (times.isEmpty())
      return std::nullopt;
    auto algorithm = ConvolutionAlgorithm::direct;
    llvm::TypeSwitch<Operation *>(op)
        .Case<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp>(
            [&](auto conv) { algorithm = conv.getAlgorithm(); });
    return times.findFastest(getDescriptorIn(op, layout, algorithm), uses);
  }

  KernelTimes times;
  SmallVector<Layout> layouts;
  int64_t uses = 0;
  double perByte = 1;
};

/// The choice between the plain layout and one other, for a whole function.
class LayoutAssigner {
public:
  LayoutAssigner(func::FuncOp function, Layout layout, const LayoutCosts &costs)
      : block(function.getBody().front()), layout(layout), costs(costs),
        marks(function), builder(function.getContext()) {
    // What is fed, fetched and everything that knows no layouts is plain.
    problem.operations.push_back({0, infinity});
    for (Operation &op : block) {
      LayoutRule rule = getLayoutRule(&op, layout);
      if (!rule.isPossible)
        continue;
      number[&op] = problem.operations.size();
      problem.operations.push_back(costs.of(&op, rule, layout));
      rules[&op] = std::move(rule);
    }
    for (BlockArgument argument : block.getArguments())
      addValue(argument);
    for (Operation &op : block)
      for (Value result : op.getResults())
        addValue(result);
    assignment = planner::assignLayouts(problem);
  }

  double getCost() const { return assignment.cost; }

  void apply() {
    for (Operation &op : block)
      for (Value result : op.getResults())
        shapes[result] = SmallVector<int64_t>(
            cast<RankedTensorType>(result.getType()).getShape());
    for (BlockArgument argument : block.getArguments())
      shapes[argument] = SmallVector<int64_t>(
          cast<RankedTensorType>(argument.getType()).getShape());
    // Before anything changes: who wants which form of a value.
    for (Operation &op : block)
      for (OpOperand &operand : op.getOpOperands())
        if (Layout wanted = layoutOf(operand);
            wanted != layoutOf(operand.get()))
          reorders[{operand.get(), wanted}].push_back(&operand);
    SmallVector<Operation *> changed;
    for (Operation &op : block)
      if (isOther(&op))
        changed.push_back(&op);
    for (Operation *op : changed)
      change(op);
    for (auto &[form, uses] : reorders)
      reorder(form.first, form.second, uses);
    // Both sides lie alike now.
    for (Operation *op : changed)
      if (auto transpose = dyn_cast<TransposeOp>(op)) {
        transpose.replaceAllUsesWith(transpose.getInput());
        transpose.erase();
      }
  }

private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr size_t outside = 0;

  static bool contains(ArrayRef<unsigned> list, unsigned index) {
    return llvm::is_contained(list, index);
  }

  size_t makerOf(Value value) const {
    Operation *op = value.getDefiningOp();
    auto rule = op ? rules.find(op) : rules.end();
    if (rule == rules.end() ||
        !contains(rule->second.results,
                  cast<OpResult>(value).getResultNumber()))
      return outside;
    return number.lookup(op);
  }

  size_t readerOf(OpOperand &operand) const {
    auto rule = rules.find(operand.getOwner());
    if (rule == rules.end() ||
        !contains(rule->second.operands, operand.getOperandNumber()))
      return outside;
    return number.lookup(operand.getOwner());
  }

  void addValue(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() < 3 || value.use_empty())
      return;
    planner::LayoutProblem::Value entry{makerOf(value), {}, costOf(type)};
    for (OpOperand &use : value.getUses())
      if (size_t reader = readerOf(use);
          !llvm::is_contained(entry.readers, reader))
        entry.readers.push_back(reader);
    // The order of uses is that of the passes before.
    llvm::sort(entry.readers);
    problem.values.push_back(std::move(entry));
  }

  /// A read and a write; none where both layouts are the same in memory.
  double costOf(RankedTensorType type) const {
    return isSameInMemory(type.getShape())
               ? 0
               : costs.ofBytes(2 * static_cast<double>(getTensorBytes(type)));
  }

  static bool isSameInMemory(ArrayRef<int64_t> logical) {
    return logical[1] == 1 ||
           llvm::all_of(logical.drop_front(2),
                        [](int64_t size) { return size == 1; });
  }

  bool isOther(Operation *op) const {
    auto found = number.find(op);
    return found != number.end() && assignment.isOther[found->second];
  }
  Layout layoutOf(Value value) const {
    return assignment.isOther[makerOf(value)] ? layout : Layout::plain;
  }
  Layout layoutOf(OpOperand &use) const {
    return assignment.isOther[readerOf(use)] ? layout : Layout::plain;
  }

  void change(Operation *op) {
    SmallVector<Value> before(op->getResults());
    SmallVector<SmallVector<OpOperand *>> uses;
    for (Value result : before)
      uses.push_back(llvm::map_to_vector(result.getUses(),
                                         [](OpOperand &use) { return &use; }));
    SmallVector<Value> after = setLayout(
        op, layout, builder, [&](Operation *view) { marks.mark(view, op); });
    for (auto [was, is, readers] : llvm::zip(before, after, uses)) {
      if (was == is)
        continue;
      SmallVector<int64_t> shape = shapes[was];
      shapes[is] = std::move(shape);
      for (OpOperand *use : readers)
        use->set(is);
    }
  }

  /// Lets `uses` read `value` in another layout. The copy is made in the first
  /// phase that reads it.
  void reorder(Value value, Layout wanted, ArrayRef<OpOperand *> uses) {
    Operation *first = uses.front()->getOwner(), *like = nullptr;
    for (OpOperand *use : uses) {
      Operation *reader = use->getOwner();
      if (reader->isBeforeInBlock(first))
        first = reader;
      // What is fetched is made where it was computed.
      if (reader->hasTrait<OpTrait::IsTerminator>() && value.getDefiningOp())
        reader = value.getDefiningOp();
      if (!like || step::getPhase(reader) < step::getPhase(like))
        like = reader;
    }
    builder.setInsertionPoint(first);
    Value made = move(value, wanted == Layout::plain ? layout : Layout::plain,
                      wanted, like);
    for (OpOperand *use : uses)
      use->set(made);
  }

  Value move(Value value, Layout from, Layout to, Operation *like) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape = toPhysicalShape(shapes[value], to);
    auto add = [&](Operation *op) {
      marks.mark(op, like);
      return op->getResult(0);
    };
    if (isSameInMemory(shapes[value]))
      return add(
          ReshapeOp::create(builder, value.getLoc(), type.clone(shape), value));
    Type element = type.getElementType();
    if (element.isF32() || element.isBF16())
      return add(ReorderOp::create(builder, value.getLoc(), type.clone(shape),
                                   value, from, to));
    return transpose(value, from, to, shape, add);
  }

  /// For elements that the library cannot move.
  Value transpose(Value value, Layout from, Layout to, ArrayRef<int64_t> shape,
                  function_ref<Value(Operation *)> add) {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t rank = shapes[value].size(), block = getBlockOf(layout);
    // In the other layout, with the channels of blocks beside each other.
    SmallVector<int64_t> permutation;
    if (!block) {
      permutation.push_back(0);
      for (int64_t axis = 2; axis < rank; ++axis)
        permutation.push_back(axis);
      permutation.push_back(1);
    } else {
      permutation.append({0, 1});
      for (int64_t axis = 3; axis <= rank; ++axis)
        permutation.push_back(axis);
      permutation.push_back(2);
    }
    bool toPlain = to == Layout::plain;
    if (block && !toPlain) {
      SmallVector<int64_t> split(type.getShape());
      split[1] /= block;
      split.insert(split.begin() + 2, block);
      type = type.clone(split);
      value = add(ReshapeOp::create(builder, value.getLoc(), type, value));
    }
    if (toPlain) {
      SmallVector<int64_t> inverse(permutation.size());
      for (auto [index, axis] : llvm::enumerate(permutation))
        inverse[axis] = index;
      permutation = inverse;
    }
    value =
        add(TransposeOp::create(builder, value.getLoc(), value, permutation));
    if (cast<RankedTensorType>(value.getType()).getShape() != shape)
      value = add(
          ReshapeOp::create(builder, value.getLoc(), type.clone(shape), value));
    return value;
  }

  Block &block;
  Layout layout;
  const LayoutCosts &costs;
  StepMarks marks;
  OpBuilder builder;
  planner::LayoutProblem problem;
  planner::LayoutAssignment assignment;
  DenseMap<Operation *, size_t> number;
  DenseMap<Operation *, LayoutRule> rules;
  /// Logical ones.
  DenseMap<Value, SmallVector<int64_t>> shapes;
  llvm::MapVector<std::pair<Value, Layout>, SmallVector<OpOperand *>> reorders;
};

/// Gives each reader a copy of its own of what is part of its code anyway, so
/// that readers in different layouts need no reorder.
void copyForReaders(func::FuncOp function) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
    if (!isCheap(&op) || isa<IotaOp>(op) || op.use_empty())
      continue;
    OpBuilder builder(&op);
    SmallVector<OpOperand *> uses =
        llvm::map_to_vector(op.getUses(), [](OpOperand &use) { return &use; });
    for (OpOperand *use : llvm::drop_begin(uses))
      use->set(builder.clone(op)->getResult(0));
  }
}

/// Whether the axes of an image behind the second one are one in `flat`.
bool isFlattened(RankedTensorType image, RankedTensorType flat) {
  return image.getRank() > flat.getRank() &&
         image.getShape().take_front(2) == flat.getShape().take_front(2);
}

/// Where the pixels of an image are one axis of what a transposition makes or
/// reads, they become those of the image, so that it is seen to move channels:
///
///   N x HW x C -> N x C x HW -> N x C x H x W
///   N x HW x C -> N x H x W x C -> N x C x H x W
void splitPixels(func::FuncOp function) {
  StepMarks marks(function);
  for (TransposeOp op :
       llvm::to_vector(function.getBody().front().getOps<TransposeOp>())) {
    if (op.getPermutation() != ArrayRef<int64_t>{0, 2, 1})
      continue;
    OpBuilder builder(op);
    auto transpose = [&](Value input, bool isBack) -> Value {
      const int64_t rank = cast<RankedTensorType>(input.getType()).getRank();
      auto made = TransposeOp::create(builder, op.getLoc(), input,
                                      getChannelAxes(rank, isBack));
      marks.mark(made, op);
      return made;
    };
    auto reshape = [&](Value input, RankedTensorType type) -> Value {
      auto made = ReshapeOp::create(builder, op.getLoc(), type, input);
      marks.mark(made, op);
      return made;
    };
    auto before = op.getInput().getDefiningOp<ReshapeOp>();
    if (before && before->hasOneUse() &&
        isFlattened(before.getInput().getType(), op.getInput().getType())) {
      op.replaceAllUsesWith(
          reshape(transpose(before.getInput(), /*isBack=*/false),
                  op.getOutput().getType()));
      op.erase();
      before.erase();
      continue;
    }
    auto after =
        op->hasOneUse() ? dyn_cast<ReshapeOp>(*op->user_begin()) : ReshapeOp();
    if (!after ||
        !isFlattened(after.getOutput().getType(), op.getOutput().getType()))
      continue;
    RankedTensorType image = after.getOutput().getType();
    SmallVector<int64_t> shape =
        toPhysicalShape(image.getShape(), Layout::channels_last);
    after.replaceAllUsesWith(
        transpose(reshape(op.getInput(), image.clone(shape)), /*isBack=*/true));
    after.erase();
    op.erase();
  }
}

/// The blocks that the processor has vectors for.
Layout getBlockedLayout(int64_t block) {
  if (block == 0)
    block = llvm::sys::getHostCPUFeatures().lookup("avx512f") ? 16 : 8;
  return block == 8 ? Layout::blocked8 : Layout::blocked16;
}

bool isShortConvolution(Operation &op) {
  return isa<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp>(op) &&
         getElementTypeOrSelf(op.getOperand(0).getType()).isBF16();
}

/// What operations with layouts read and write.
double countLaidOutBytes(func::FuncOp function) {
  double bytes = 0;
  for (Operation &op : function.getBody().front())
    if (hasLayout(&op))
      for (TypeRange types :
           {TypeRange(op.getOperandTypes()), TypeRange(op.getResultTypes())})
        for (Type type : types)
          bytes += static_cast<double>(getTensorBytes(type));
  return bytes;
}

/// Whether no convolution has several samples.
bool isOfOneImage(func::FuncOp function) {
  return llvm::all_of(function.getBody().front(), [](Operation &op) {
    return !isa<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp>(op) ||
           cast<RankedTensorType>(op.getOperand(0).getType()).getDimSize(0) ==
               1;
  });
}

struct AssignLayouts : pp::nn::impl::AssignLayoutsBase<AssignLayouts> {
  using AssignLayoutsBase::AssignLayoutsBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    if (layouts == LayoutChoice::Plain ||
        llvm::none_of(function->getBody().front(),
                      [](Operation &op) { return hasLayout(&op); }))
      return;
    if (blockSize != 0 && blockSize != 8 && blockSize != 16) {
      function->emitError("block-size is 8 or 16, or 0 for the processor's");
      return signalPassFailure();
    }
    if (!(bandwidth > 0) || uses < 0) {
      function->emitError("bandwidth must be positive, uses not negative");
      return signalPassFailure();
    }
    if (tiles < -1 || tiles > 1) {
      function->emitError("tiles is 0 or 1, or -1 for the processor's");
      return signalPassFailure();
    }
    auto times = KernelTimes::read(getOperation(), tuningFile);
    if (failed(times))
      return signalPassFailure();
    copyForReaders(*function);
    splitPixels(*function);
    SmallVector<Layout> candidates = listLayouts(layouts);
    LayoutCosts costs(std::move(*times), candidates, bandwidth * 1e9, uses);
    // Times of other models, or of one layout alone, change nothing.
    const bool hasTimes =
        llvm::any_of(function->getBody().front(), [&](Operation &op) {
          return hasLayout(&op) && costs.isMeasured(&op);
        });
    if (!hasTimes)
      costs = LayoutCosts();
    if (layouts == LayoutChoice::Auto && !hasTimes &&
        llvm::any_of(function->getBody().front(), isShortConvolution))
      candidates = listLayouts(hasTiles() ? LayoutChoice::ChannelsLast
                                          : LayoutChoice::Blocked);
    // Without times, what is not moved does not count: the library is faster in
    // blocks (training ResNet-50 in f32 by a twentieth, on a Zen 5), but for
    // the results of a single image (ResNet-18 by a sixth). Those are the
    // first.
    if (!hasTimes && uses == 0 && isOfOneImage(*function))
      std::reverse(candidates.begin(), candidates.end());
    const double margin = hasTimes ? 0 : 0.02 * countLaidOutBytes(*function);
    std::optional<LayoutAssigner> best;
    for (Layout layout : candidates) {
      LayoutAssigner assigner(*function, layout, costs);
      if (!best || assigner.getCost() < best->getCost() - margin)
        best.emplace(std::move(assigner));
    }
    best->apply();
  }

private:
  SmallVector<Layout> listLayouts(LayoutChoice choice) const {
    SmallVector<Layout> all;
    if (choice != LayoutChoice::ChannelsLast)
      all.push_back(getBlockedLayout(blockSize));
    if (choice != LayoutChoice::Blocked)
      all.push_back(Layout::channels_last);
    return all;
  }

  bool hasTiles() const {
    return tiles >= 0 ? tiles == 1
                      : llvm::sys::getHostCPUFeatures().lookup("amx-bf16");
  }
};

} // namespace
