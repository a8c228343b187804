//===- MixedPrecision.cpp - Products in sixteen bits ----------------------===//
//
//   %y = nn.dot_general %x, %w  : f32      %x16 = nn.cast %x     : f32 -> bf16
//   use %y                           ──▶   %w16 = nn.cast %w     : f32 -> bf16
//                                          %y16 = nn.dot_general %x16, %w16
//                                          %y   = nn.cast %y16   : bf16 -> f32
//                                          use %y
//
// A cast of an activation belongs to the phase that makes the activation, and a
// cast back to f32 to the phase that uses it: what goes from phase to phase,
// and is kept in between, is the short value. So is what is only moved.
//
//===----------------------------------------------------------------------===//

#include "MainFunction.h"
#include "MoveCasts.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace pp::nn {
#define GEN_PASS_DEF_MIXEDPRECISION
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

class Converter {
public:
  Converter(func::FuncOp function, Type shortElement, bool shortensNorms)
      : phaseCasts(function, shortElement) {
    for (Operation &op : function.getBody().front()) {
      const bool isNorm =
          isa<BatchNormOp, BatchNormBackwardOp, MaxPoolOp, MaxPoolBackwardOp>(
              op);
      if (shortensNorms && (isJoin(&op) || (isNorm && isShortened(&op))))
        between.push_back(&op);
      if (isa<DotGeneralOp, ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp,
              AttentionOp, AttentionBackwardOp>(op) &&
          isShortened(&op))
        products.push_back(&op);
    }
  }

  /// Factors are rounded to TF32 inside the products.
  void runInside() {
    for (Operation *product : products)
      if (!isAttention(product))
        product->setAttr(tf32AttrName, UnitAttr::get(product->getContext()));
  }

  void run() {
    for (Operation *product : products)
      shorten(product);
    for (Operation *op : between)
      if (isJoin(op))
        roundJoin(op);
      else
        shortenNorm(op);
    // Later phases read the short form of any value that has one: keeping both
    // would cost more memory than keeping the long one.
    for (auto &[value, cast] : shortOf)
      readShortLater(value, cast);
  }

private:
  /// Only what the library has kernels for, in f32: generated code takes
  /// products as they are. Not what must be exact.
  static bool isShortened(Operation *op) {
    if (op->hasAttr(exactAttrName))
      return false;
    auto isFloat = [](Type type) {
      return cast<RankedTensorType>(type).getElementType().isF32();
    };
    auto isNumber = [](Type type) { // of rows
      return !isa<FloatType>(cast<RankedTensorType>(type).getElementType());
    };
    return llvm::all_of(
               op->getOperandTypes(),
               [&](Type type) { return isFloat(type) || isNumber(type); }) &&
           !cast<KernelOpInterface>(op).getLibraryDescriptor().empty();
  }

  /// Has one type for all tensors but the logsumexp and the mask, which stay
  /// f32.
  static bool isAttention(Operation *op) {
    return isa<AttentionOp, AttentionBackwardOp>(op);
  }

  static bool staysLong(Operation *op, Value value) {
    auto isLong = [value](auto attention) {
      return value == attention.getLogsumexp() || value == attention.getMask();
    };
    if (auto attention = dyn_cast<AttentionOp>(op))
      return isLong(attention);
    auto backward = dyn_cast<AttentionBackwardOp>(op);
    return backward && isLong(backward);
  }

  void shorten(Operation *product) {
    for (OpOperand &operand : product->getOpOperands())
      if (!staysLong(product, operand.get()))
        operand.set(shortened(operand.get(), product));
    for (Value result : product->getResults()) {
      // The library sums up gradients of weights in f32.
      bool isGradient = isa<ConvBackwardWeightOp>(product) ||
                        (isAccumulated(result) && !isAttention(product));
      if (staysLong(product, result) || isGradient ||
          isRoundedWithBias(product))
        continue;
      Type longType = result.getType();
      result.setType(phaseCasts.getShortType(result));
      phaseCasts.widenForReaders(result, result, product, longType);
    }
  }

  /// Whether a value is nothing but a part of a parameter's gradient.
  static bool isAccumulated(Value value) {
    return llvm::all_of(value.getUsers(), [](Operation *user) {
      auto sum = dyn_cast<AddOp>(user);
      return isa<AccumulateOp>(user) || (sum && isAccumulated(sum));
    });
  }

  /// Whether all that reads `product` is a sum with a bias, which is only
  /// moved, cut off at 0 and multiplied. Then it is rounded, and not the
  /// product, too: numbers on a grid plus a constant are off the same grid by
  /// the same amount in all rows, and what adds rows up has all of that error.
  static bool isRoundedWithBias(Operation *product) {
    if (!isa<DotGeneralOp>(product) || !product->hasOneUse())
      return false;
    Value value = product->getResult(0);
    auto sum = dyn_cast<AddOp>(*product->user_begin());
    if (!sum || step::getPhase(sum) != step::getPhase(product))
      return false;
    Value other = sum.getLhs() == value ? sum.getRhs() : sum.getLhs();
    auto broadcast = other.getDefiningOp<BroadcastOp>();
    bool isBias =
        broadcast && broadcast.getInput().getDefiningOp<ParameterOp>();
    return isBias && llvm::all_of(sum->getUsers(), [](Operation *user) {
             return isa<ReluOp, ReshapeOp, TransposeOp, SliceOp, ConcatOp,
                        DotGeneralOp, AttentionOp>(user);
           });
  }

  /// A norm, or the maxima, of a value that is short anyway: only the result is
  /// rounded.
  void shortenNorm(Operation *norm) {
    Value input = phaseCasts.getExactShort(norm->getOperand(0));
    if (!input)
      return;
    norm->setOperand(0, input);
    if (isa<BatchNormBackwardOp, MaxPoolBackwardOp>(norm))
      norm->setOperand(1, shortened(norm->getOperand(1), norm));
    Value result = norm->getResult(0);
    Type longType = result.getType();
    result.setType(phaseCasts.getShortType(result));
    phaseCasts.widenForReaders(result, result, norm, longType);
  }

  /// What leaves the numbers of its operands as they are, and sums of two:
  /// PyTorch's autocast gives them the type of their operands.
  static bool isJoin(Operation *op) {
    return isa<AddOp, ReluOp, SelectOp>(op) &&
           cast<RankedTensorType>(op->getResult(0).getType())
               .getElementType()
               .isF32();
  }

  bool isJoinOfShort(Operation *op) const {
    auto isFloat = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getElementType().isF32();
    };
    auto isShort = [&](Value value) {
      return joined.contains(value) || phaseCasts.getExactShort(value);
    };
    auto numbers = llvm::make_filter_range(op->getOperands(), isFloat);
    return llvm::any_of(numbers, isShort) &&
           llvm::all_of(numbers, [&](Value value) {
             return isShort(value) || matchPattern(value, m_AnyZeroFloat());
           });
  }

  /// Whether one kernel can have both: backward, those of one operation.
  static bool areTogether(Operation *op, Operation *user) {
    return step::getPhase(op) == step::getPhase(user) &&
           (step::getPhase(op) == Phase::Forward ||
            op->getAttr(step::originAttrName) ==
                user->getAttr(step::originAttrName));
  }

  /// Rounds what joins short values, where it is more than a part of another
  /// join, and no result of the function.
  void roundJoin(Operation *op) {
    Value value = op->getResult(0);
    auto isTerminator = [](Operation *user) {
      return user->hasTrait<OpTrait::IsTerminator>();
    };
    if (!isJoinOfShort(op) || llvm::any_of(value.getUsers(), isTerminator))
      return;
    if (value.hasOneUse()) {
      Operation *user = *value.getUsers().begin();
      if (isJoin(user) && areTogether(op, user)) {
        joined.insert(value);
        return;
      }
    }
    phaseCasts.widenForReaders(value, shortened(value, op), op,
                               value.getType());
  }

  void readShortLater(Value value, Value from) {
    Operation *producer = value.getDefiningOp();
    // Inputs are fed to every phase.
    if (!producer)
      return;
    Phase own = step::getPhase(producer);
    phaseCasts.widenForReaders(value, from, producer, value.getType(),
                               [&](Phase phase) { return phase != own; });
  }

  /// The short form of a factor.
  Value shortened(Value value, Operation *product) {
    if (Value known = phaseCasts.getExactShort(value))
      return known;
    if (phaseCasts.isConstant(value)) {
      auto phase = static_cast<int>(step::getPhase(product));
      Value &known = constants[{value, phase}];
      if (!known)
        known = phaseCasts.narrowBefore(value, product);
      return known;
    }
    Value &known = shortOf[value];
    if (!known) {
      Operation *producer = value.getDefiningOp();
      known = phaseCasts.narrowBehind(value, producer ? producer : product);
    }
    return known;
  }

  PhaseCasts phaseCasts;
  /// And what is between products: norms and joins, in program order.
  SmallVector<Operation *> products, between;
  /// Joins of short values that only another join reads, in the same phase.
  DenseSet<Value> joined;
  /// f32 value to the cast that makes it short.
  llvm::MapVector<Value, Value> shortOf;
  /// Parameters and constants by phase.
  DenseMap<std::pair<Value, int>, Value> constants;
};

struct MixedPrecision : pp::nn::impl::MixedPrecisionBase<MixedPrecision> {
  using MixedPrecisionBase::MixedPrecisionBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    Type element;
    switch (type.getValue()) {
    case Precision::F32:
      return;
    case Precision::TF32:
      break;
    case Precision::BF16:
      element = BFloat16Type::get(&getContext());
      break;
    case Precision::F16:
      element = Float16Type::get(&getContext());
      break;
    }
    Converter converter(*function, element, norms && type == Precision::BF16);
    if (!element)
      return converter.runInside();
    converter.run();
    moveCasts(*function, element);
  }
};

} // namespace
