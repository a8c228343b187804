//===- Differentiate.cpp - Append the derivative of the loss --------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "llvm/ADT/MapVector.h"

namespace pp::nn {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

bool isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// Reverse-mode differentiation of one function.
class Differentiator {
public:
  Differentiator(ModuleOp module, func::FuncOp function, bool scalesLoss,
                 bool hasParts)
      : symbols(module), function(function), scalesLoss(scalesLoss),
        hasParts(hasParts),
        builder(function.getBody().front().getTerminator()) {}

  LogicalResult run() {
    Block &body = function.getBody().front();
    auto terminator = cast<func::ReturnOp>(body.getTerminator());
    if (terminator.getNumOperands() != 1 ||
        cast<RankedTensorType>(terminator.getOperand(0).getType()).getRank() !=
            0)
      return function.emitError(
          "cannot be differentiated: its result must be one scalar, the loss "
          "(attach one with nn-attach-loss)");
    Value loss = terminator.getOperand(0);

    findDependences(body);
    deferStatistics(body);
    if (!varies.contains(loss))
      return function.emitError(
          "cannot be differentiated: no trained parameter reaches the loss");
    if (failed(checkDerivatives(body)))
      return failure();

    // Walking backwards, all uses of a value come before its definition.
    SmallVector<Operation *> forward;
    for (Operation &op : body.without_terminator())
      forward.push_back(&op);
    if (hasParts)
      findGradientParts();
    seed(loss);
    for (Operation *op : llvm::reverse(forward))
      if (failed(differentiate(op)))
        return failure();
    eraseJoined();
    accumulateGradients();
    if (!hasGradients(body))
      return function.emitError(
          "cannot be differentiated: no gradient reaches a trained parameter; "
          "between it and the loss are only operations such as rounding, whose "
          "derivative is 0");
    assignPhases(forward.empty() ? nullptr : forward.back());
    eraseStops(body);
    return success();
  }

private:
  /// Where gradients stop, their work is done.
  static void eraseStops(Block &body) {
    for (Operation &op : llvm::make_early_inc_range(body))
      if (auto stop = dyn_cast<StopGradientOp>(op)) {
        stop.getOutput().replaceAllUsesWith(stop.getInput());
        stop.erase();
      }
  }

  /// Numbers the forward operations and finds which values depend on trained
  /// parameters (`varies`) and on fed inputs (`activations`).
  void findDependences(Block &body) {
    for (Value argument : body.getArguments())
      activations.insert(argument);
    int64_t number = 0;
    for (Operation &op : body.without_terminator()) {
      op.setAttr(step::originAttrName, builder.getI64IntegerAttr(number++));
      step::setPhase(&op, isa<CommitStatisticsOp>(op) ? Phase::Update
                                                      : Phase::Forward);
      bool isActivation = llvm::any_of(op.getOperands(), [&](Value operand) {
        return activations.contains(operand);
      });
      bool isVarying = !op.hasTrait<NotDifferentiable>() &&
                       llvm::any_of(op.getOperands(), [&](Value operand) {
                         return varies.contains(operand);
                       });
      if (auto parameter = dyn_cast<ParameterOp>(op)) {
        auto global =
            symbols.lookup<ml_program::GlobalOp>(parameter.getSymbol());
        isVarying = global && global->hasAttr(trainedAttrName);
      }
      for (Value result : op.getResults()) {
        if (isActivation)
          activations.insert(result);
        if (isVarying && isFloat(result))
          varies.insert(result);
      }
    }
  }

  /// Moves what only the running statistics need to the backward phase: a
  /// forward that is recomputed must not add to them twice.
  void deferStatistics(Block &body) {
    for (Operation &op : llvm::reverse(body.without_terminator())) {
      bool isDeferred = isa<AccumulateOp>(op);
      if (!op.use_empty())
        isDeferred = llvm::all_of(op.getUsers(), [](Operation *user) {
          return step::getPhase(user) == Phase::BackwardWeight;
        });
      if (isDeferred && step::getPhase(&op) == Phase::Forward)
        step::setPhase(&op, Phase::BackwardWeight);
    }
  }

  /// Reports every operation on the way that has no derivative, at once.
  LogicalResult checkDerivatives(Block &body) {
    bool ok = true;
    for (Operation &op : body.without_terminator()) {
      bool needed = llvm::any_of(op.getOperands(), [&](Value operand) {
        return varies.contains(operand);
      });
      if (needed && !op.hasTrait<NotDifferentiable>() &&
          !isa<DifferentiableOpInterface>(op)) {
        op.emitOpError("has no derivative");
        ok = false;
      }
    }
    return success(ok);
  }

  void seed(Value loss) {
    auto type = cast<RankedTensorType>(loss.getType());
    Attribute origin = loss.getDefiningOp()->getAttr(step::originAttrName);
    if (scalesLoss) {
      cotangents[loss] = addScale(type, origin);
      return;
    }
    auto one = ConstantOp::create(
        builder, loss.getLoc(),
        DenseElementsAttr::get(type,
                               builder.getFloatAttr(type.getElementType(), 1)));
    one->setAttr(step::originAttrName, origin);
    cotangents[loss] = one;
  }

  /// The scale is of f32 whatever the loss is of.
  Value addScale(RankedTensorType loss, Attribute origin) {
    RankedTensorType type = loss.clone(builder.getF32Type());
    unsigned index = function.getNumArguments();
    auto role =
        step::RoleAttr::get(builder.getContext(), step::Role::LossScale);
    auto attributes = builder.getDictionaryAttr(
        {builder.getNamedAttr(
             step::feedAttrName,
             builder.getStringAttr(stringifyRole(role.getValue()))),
         builder.getNamedAttr(step::roleAttrName, role)});
    (void)function.insertArgument(index, type, attributes, function.getLoc());
    Value scale = function.getArgument(index);
    if (type == loss)
      return scale;
    auto wide = CastOp::create(builder, function.getLoc(), loss, scale);
    wide->setAttr(step::originAttrName, origin);
    return wide;
  }

  LogicalResult differentiate(Operation *op) {
    SmallVector<Value> incoming;
    for (Value result : op->getResults())
      incoming.push_back(cotangents.lookup(result));
    if (llvm::none_of(incoming, [](Value value) { return bool(value); }))
      return success();
    SmallVector<bool> needed;
    for (Value operand : op->getOperands())
      needed.push_back(varies.contains(operand));
    if (llvm::none_of(needed, [](bool need) { return need; }) ||
        op->hasTrait<NotDifferentiable>())
      return success();

    Operation *before = builder.getInsertionPoint()->getPrevNode();
    SmallVector<Value> outgoing;
    if (failed(cast<DifferentiableOpInterface>(op).buildVJP(builder, incoming,
                                                            needed, outgoing)))
      return failure();
    assert(outgoing.size() == op->getNumOperands());
    for (auto [operand, cotangent, need] :
         llvm::zip(op->getOperands(), outgoing, needed)) {
      if (!need || !cotangent)
        continue;
      Value &sum = cotangents[operand];
      if (auto parts = gradientParts.find(operand);
          parts != gradientParts.end()) {
        parts->second.push_back(cotangent);
        sum = cotangent;
        continue;
      }
      sum = sum ? add(op->getLoc(), sum, cotangent) : cotangent;
    }
    // The sum belongs to the operation that adds its part: gradients of a value
    // that several stages read then flow from the last of them to the first.
    for (Operation *made = before ? before->getNextNode()
                                  : &*builder.getBlock()->begin();
         made != &*builder.getInsertionPoint(); made = made->getNextNode())
      made->setAttr(step::originAttrName, op->getAttr(step::originAttrName));
    return success();
  }

  /// A sum; where slices make up a value, the concatenation of their
  /// cotangents.
  Value add(Location loc, Value sum, Value cotangent) {
    llvm::SetVector<Operation *> adds;
    SmallVector<PadOp> parts = findParts(sum, adds);
    auto last = cotangent.getDefiningOp<PadOp>();
    parts.push_back(last);
    std::optional<int64_t> axis =
        last ? findJoinedAxis(parts) : std::optional<int64_t>();
    if (!axis)
      return addWide(loc, sum, cotangent);
    llvm::stable_sort(parts, [&](PadOp a, PadOp b) {
      return a.getLow()[*axis] < b.getLow()[*axis];
    });
    joined.insert_range(adds);
    joined.insert_range(parts);
    SmallVector<Value> inputs;
    for (PadOp part : parts)
      inputs.push_back(part.getInput());
    return ConcatOp::create(builder, loc, inputs, *axis);
  }

  /// Elements of 16 bits are for storage: their sum is taken in f32.
  Value addWide(Location loc, Value sum, Value cotangent) {
    auto type = cast<RankedTensorType>(sum.getType());
    if (!type.getElementType().isBF16() && !type.getElementType().isF16())
      return AddOp::create(builder, loc, sum, cotangent);
    RankedTensorType wide = type.clone(builder.getF32Type());
    return CastOp::create(
        builder, loc, type,
        AddOp::create(builder, loc, CastOp::create(builder, loc, wide, sum),
                      CastOp::create(builder, loc, wide, cotangent)));
  }

  /// The summands of `sum` if all are padded, with the sums in between; else
  /// none.
  static SmallVector<PadOp> findParts(Value sum,
                                      llvm::SetVector<Operation *> &adds) {
    SmallVector<PadOp> parts;
    SmallVector<Value> values = {sum};
    while (!values.empty()) {
      Operation *op = values.pop_back_val().getDefiningOp();
      if (auto part = dyn_cast_or_null<PadOp>(op)) {
        parts.push_back(part);
      } else if (isa_and_nonnull<AddOp>(op)) {
        adds.insert(op);
        llvm::append_range(values, op->getOperands());
      } else {
        return {};
      }
    }
    return parts;
  }

  /// The axis that the parts make up, with zeros around them and each element
  /// in one of them.
  static std::optional<int64_t> findJoinedAxis(ArrayRef<PadOp> parts) {
    if (parts.size() < 2)
      return std::nullopt;
    auto type = cast<RankedTensorType>(PadOp(parts.front()).getType());
    std::optional<int64_t> axis;
    SmallVector<std::pair<int64_t, int64_t>> ranges;
    for (PadOp part : parts) {
      if (!part.getValue().isZero())
        return std::nullopt;
      for (int64_t i = 0; i < type.getRank(); ++i) {
        bool isPadded = part.getLow()[i] > 0 || part.getHigh()[i] > 0;
        if (part.getInterior()[i] > 0 || (isPadded && axis.value_or(i) != i))
          return std::nullopt;
        if (isPadded)
          axis = i;
      }
    }
    if (!axis)
      return std::nullopt;
    for (PadOp part : parts)
      ranges.emplace_back(part.getLow()[*axis],
                          type.getDimSize(*axis) - part.getHigh()[*axis]);
    llvm::sort(ranges);
    int64_t end = 0;
    for (auto [from, to] : ranges) {
      if (from != end)
        return std::nullopt;
      end = to;
    }
    return end == type.getDimSize(*axis) ? axis : std::nullopt;
  }

  /// Erases parts and their sums that nothing reads.
  void eraseJoined() {
    DenseSet<Value> kept;
    for (auto [value, cotangent] : cotangents)
      kept.insert(cotangent);
    for (Operation *op : joined)
      if (op->use_empty() && !kept.contains(op->getResult(0)))
        op->erase();
  }

  /// Finds the tied parameters whose readers get a part of the gradient each.
  void findGradientParts() {
    constexpr unsigned most = 4;
    function.walk([&](ParameterOp parameter) {
      Value value = parameter.getOutput();
      unsigned readers = std::distance(value.use_begin(), value.use_end());
      bool isSliced = llvm::any_of(
          value.getUsers(), [](Operation *user) { return isa<SliceOp>(user); });
      if (readers > 1 && readers <= most && !isSliced)
        gradientParts[value] = {};
    });
  }

  static bool hasGradients(Block &body) {
    return llvm::any_of(body.getOps<AccumulateOp>(), [](AccumulateOp op) {
      return op.getState() == State::gradient;
    });
  }

  void accumulateGradients() {
    function.walk([&](ParameterOp parameter) {
      Value value = parameter.getOutput();
      auto parts = gradientParts.find(value);
      if (parts == gradientParts.end()) {
        accumulate(parameter, cotangents.lookup(value), /*part=*/0);
        return;
      }
      // That of the last reader came first.
      for (auto [part, gradient] :
           llvm::enumerate(llvm::reverse(parts->second)))
        accumulate(parameter, gradient, static_cast<int64_t>(part));
    });
  }

  void accumulate(ParameterOp parameter, Value gradient, int64_t part) {
    if (!gradient)
      return;
    // Right behind the gradient, so that it need not be kept any longer.
    Operation *definition = gradient.getDefiningOp();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(definition);
    auto accumulate =
        AccumulateOp::create(builder, parameter.getLoc(), State::gradient,
                             parameter.getSymbol(), gradient, part);
    accumulate->setAttr(step::originAttrName,
                        definition->getAttr(step::originAttrName));
  }

  /// B is what the cotangents of activations need; the rest is W.
  void assignPhases(Operation *lastForward) {
    SmallVector<Operation *> worklist;
    DenseSet<Operation *> input;
    auto visit = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (op && op->getBlock() == builder.getBlock() &&
          lastForward->isBeforeInBlock(op) && input.insert(op).second)
        worklist.push_back(op);
    };
    for (auto [value, cotangent] : cotangents)
      if (cotangent && activations.contains(value))
        visit(cotangent);
    while (!worklist.empty())
      for (Value operand : worklist.pop_back_val()->getOperands())
        visit(operand);
    for (Operation *op = lastForward->getNextNode();
         op != &*builder.getInsertionPoint(); op = op->getNextNode()) {
      bool isInput = input.contains(op);
      // A gradient is added where it was computed: no reason to keep it.
      if (auto accumulate = dyn_cast<AccumulateOp>(op))
        isInput = accumulate.getValue().getDefiningOp() &&
                  input.contains(accumulate.getValue().getDefiningOp());
      step::setPhase(op,
                     isInput ? Phase::BackwardInput : Phase::BackwardWeight);
    }
  }

  SymbolTable symbols;
  func::FuncOp function;
  bool scalesLoss, hasParts;
  OpBuilder builder;
  DenseSet<Value> varies;
  DenseSet<Value> activations;
  llvm::MapVector<Value, Value> cotangents;
  /// Of tied parameters: the cotangent of each reader, the last one first.
  llvm::MapVector<Value, SmallVector<Value>> gradientParts;
  /// Sums that became concatenations, and their parts, each behind its readers.
  llvm::SetVector<Operation *> joined;
};

struct Differentiate : nn::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function) ||
        failed(
            Differentiator(getOperation(), *function, lossScale, parts).run()))
      signalPassFailure();
  }
};

} // namespace
