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
// and is kept in between, is the short value.
//
//===----------------------------------------------------------------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "llvm/ADT/STLExtras.h"

namespace pp::nn {
#define GEN_PASS_DEF_MIXEDPRECISION
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;
using pipeline::Phase;

namespace {

class Converter {
public:
  /// `shortElement`: bf16 or f16; null: the factors are rounded to TF32 inside
  /// the products.
  Converter(func::FuncOp function, Type shortElement)
      : builder(function.getContext()), shortElement(shortElement) {
    for (Operation &op : function.getBody().front()) {
      if (auto origin = op.getAttrOfType<IntegerAttr>(pipeline::originAttrName))
        nextOrigin = std::max(nextOrigin, origin.getInt() + 1);
      if (isa<DotGeneralOp, ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp,
              AttentionOp, AttentionBackwardOp>(op) &&
          isShortened(&op))
        products.push_back(&op);
    }
  }

  void run() {
    if (!shortElement) {
      for (Operation *product : products)
        if (!isAttention(product))
          product->setAttr(tf32AttrName, builder.getUnitAttr());
      return;
    }
    for (Operation *product : products)
      shorten(product);
    // Later phases read the short form of any value that has one: keeping both
    // would cost more memory than keeping the long one.
    for (auto &[value, cast] : casts)
      readShortLater(value, cast);
    eraseUnread();
  }

private:
  /// Only what the library has kernels for, in f32: generated code takes
  /// products as they are.
  static bool isShortened(Operation *op) {
    auto isFloat = [](Type type) {
      return cast<RankedTensorType>(type).getElementType().isF32();
    };
    return llvm::all_of(op->getOperandTypes(), isFloat) &&
           !cast<KernelOpInterface>(op).getLibraryDescriptor().empty();
  }

  RankedTensorType shortType(Value value) {
    return cast<RankedTensorType>(
        cast<RankedTensorType>(value.getType()).clone(shortElement));
  }

  /// Has one type for all tensors but the logsumexp, which stays f32.
  static bool isAttention(Operation *op) {
    return isa<AttentionOp, AttentionBackwardOp>(op);
  }

  static bool isLogsumexp(Operation *op, Value value) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      return value == attention.getLogsumexp();
    auto backward = dyn_cast<AttentionBackwardOp>(op);
    return backward && value == backward.getLogsumexp();
  }

  void shorten(Operation *product) {
    for (OpOperand &operand : product->getOpOperands())
      if (!isLogsumexp(product, operand.get()))
        operand.set(shortened(operand.get(), product));
    for (Value result : product->getResults()) {
      bool isAccumulated = llvm::all_of(result.getUsers(), [](Operation *user) {
        return isa<AccumulateOp>(user);
      });
      if (isLogsumexp(product, result) ||
          (isAccumulated && !isAttention(product)))
        continue;
      Type longType = result.getType();
      result.setType(shortType(result));
      readShort(result, result, product, longType, [](Phase) { return true; });
    }
  }

  /// Lets the uses of `value` in the chosen phases read `from`, its short form,
  /// through one cast for each phase, before its first use there. What leaves
  /// the function has the phase of `producer`.
  void readShort(Value value, Value from, Operation *producer, Type longType,
                 function_ref<bool(Phase)> isChosen) {
    llvm::SmallMapVector<int, SmallVector<OpOperand *>, 4> byPhase;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user == from.getDefiningOp() && value != from)
        continue;
      bool isReturned = user->hasTrait<OpTrait::IsTerminator>();
      Phase phase = pipeline::getPhase(isReturned ? producer : user);
      if (isChosen(phase))
        byPhase[static_cast<int>(phase)].push_back(&use);
    }
    for (auto &[phase, uses] : byPhase) {
      Operation *first = uses.front()->getOwner();
      for (OpOperand *use : uses)
        if (use->getOwner()->isBeforeInBlock(first))
          first = use->getOwner();
      bool isReturned = first->hasTrait<OpTrait::IsTerminator>();
      builder.setInsertionPoint(first);
      Value cast = makeCast(longType, from, isReturned ? producer : first);
      shortOf[cast] = from;
      for (OpOperand *use : uses)
        use->set(cast);
    }
  }

  void readShortLater(Value value, Value from) {
    Operation *producer = value.getDefiningOp();
    // Inputs are fed to every phase.
    if (!producer)
      return;
    Phase own = pipeline::getPhase(producer);
    readShort(value, from, producer, value.getType(),
              [&](Phase phase) { return phase != own; });
  }

  /// Erases casts back to f32 whose readers all took the short value.
  void eraseUnread() {
    for (Operation *product : products)
      for (Value result : product->getResults())
        for (Operation *user : llvm::make_early_inc_range(result.getUsers()))
          if (isa<CastOp>(user) && user->use_empty())
            user->erase();
  }

  /// A cast in the phase of `like`, and placed where that is.
  Value makeCast(Type type, Value value, Operation *like) {
    Operation *op = CastOp::create(builder, like->getLoc(), type, value);
    for (StringRef name : {StringRef(pipeline::phaseAttrName),
                           StringRef(pipeline::originAttrName),
                           StringRef(pipeline::stageHintAttrName)})
      if (Attribute attribute = like->getAttr(name))
        op->setAttr(name, attribute);
    // Forward operations of a training step are numbered.
    if (pipeline::getPhase(op) == Phase::forward &&
        op->hasAttr(pipeline::originAttrName))
      op->setAttr(pipeline::originAttrName,
                  builder.getI64IntegerAttr(nextOrigin++));
    return op->getResult(0);
  }

  /// The short form of a factor.
  Value shortened(Value value, Operation *product) {
    if (Value known = shortOf.lookup(value))
      return known;
    Operation *producer = value.getDefiningOp();
    Phase phase = pipeline::getPhase(product);
    if (isConstant(value)) {
      Value &known = constants[{value, static_cast<int>(phase)}];
      if (!known) {
        builder.setInsertionPoint(product);
        known = makeCast(shortType(value), value, product);
      }
      return known;
    }
    Operation *like = producer ? producer : product;
    if (producer)
      builder.setInsertionPointAfter(producer);
    else
      builder.setInsertionPointToStart(product->getBlock());
    Value cast = makeCast(shortType(value), value, like);
    shortOf[value] = cast;
    casts.push_back({value, cast});
    return cast;
  }

  /// Whether a value is made of parameters and constants alone.
  bool isConstant(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    auto [known, isNew] = constantOps.try_emplace(op, false);
    if (!isNew)
      return known->second;
    bool result = llvm::all_of(
        op->getOperands(), [&](Value operand) { return isConstant(operand); });
    constantOps[op] = result;
    return result;
  }

  OpBuilder builder;
  Type shortElement;
  SmallVector<Operation *> products;
  int64_t nextOrigin = 0;
  /// f32 value to its short form.
  DenseMap<Value, Value> shortOf;
  /// The values among them that are not made of a short one, with the cast.
  SmallVector<std::pair<Value, Value>> casts;
  /// Parameters and constants by phase.
  DenseMap<std::pair<Value, int>, Value> constants;
  DenseMap<Operation *, bool> constantOps;
};

struct MixedPrecision : pp::nn::impl::MixedPrecisionBase<MixedPrecision> {
  using MixedPrecisionBase::MixedPrecisionBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    Type element;
    if (type == "bf16") {
      element = BFloat16Type::get(&getContext());
    } else if (type == "f16") {
      element = Float16Type::get(&getContext());
    } else if (type != "tf32") {
      function->emitError() << "unknown type '" << type
                            << "' of products; known: bf16, f16, tf32";
      return signalPassFailure();
    }
    Converter(*function, element).run();
  }
};

} // namespace
