//===- FuseAttention.cpp - Find attention in products and a softmax -------===//
//
//   %s = nn.dot_general %q, %k              %o, %lse = nn.attention %q, %k, %v
//   %t = nn.div %s, %root            ──▶                scale 0.25 causal
//   %m = nn.add %t, %mask
//   %p = nn.softmax %m
//   %o = nn.dot_general %p, %v
//
// Found from the second product upwards.
//
//===----------------------------------------------------------------------===//

#include "MainFunction.h"
#include "ScoreMasks.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace pp::nn {
#define GEN_PASS_DEF_FUSEATTENTION
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A factor, with its axes in the order batch, head, row, column.
struct Factor {
  Value value;
  /// What the value is reshaped to, where it has another type.
  RankedTensorType type;
  SmallVector<int64_t> axes;
};

struct Match {
  Factor query, key, value;
  double scale = 1;
  bool isCausal = false;
  /// What the program adds to the scores, from the last one to the first.
  SmallVector<ScoreMask> masks;
  /// Whether a row that masks hide as a whole has weights of 0.
  bool zeroesHidden = false;
  /// What it is made of, in reverse program order, without views.
  SmallVector<Operation *> operations;
};

bool isMatrixOfHeads(Value value) {
  return typeOf(value).getRank() == 4 && typeOf(value).getElementType().isF32();
}

/// The operand of an operation that multiplies by a constant, or divides by
/// one: `factor` becomes that constant, or its inverse. Null for others.
Value getScaled(Operation *op, double &factor) {
  if (!isa<MulOp, DivOp>(op))
    return nullptr;
  for (unsigned index : {1u, 0u}) {
    DenseElementsAttr constant;
    if (!matchPattern(op->getOperand(index), m_Constant(&constant)) ||
        !constant.isSplat() || (isa<DivOp>(op) && index == 0))
      continue;
    double number = constant.getSplatValue<APFloat>().convertToDouble();
    factor = isa<DivOp>(op) ? 1 / number : number;
    return op->getOperand(1 - index);
  }
  return nullptr;
}

void readThrough(Factor &factor, TransposeOp transpose) {
  for (int64_t &axis : factor.axes)
    axis = transpose.getPermutation()[axis];
  factor.value = transpose.getInput();
  factor.type = typeOf(factor.value);
}

/// Reads through an exchange of the last two axes that is made while batch and
/// heads are one axis, as exporters transpose a key. False for other reshapes.
bool readThroughMerged(Factor &factor, ReshapeOp split) {
  auto transpose = split.getInput().getDefiningOp<TransposeOp>();
  RankedTensorType type = typeOf(split);
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1} ||
      type.getRank() != 4 ||
      typeOf(transpose).getShape().drop_front() != type.getShape().take_back(2))
    return false;
  ArrayRef<int64_t> shape = type.getShape();
  for (int64_t &axis : factor.axes)
    axis = axis < 2 ? axis : 5 - axis;
  factor.type = type.clone({shape[0], shape[1], shape[3], shape[2]});
  factor.value = transpose.getInput();
  auto merge = factor.value.getDefiningOp<ReshapeOp>();
  if (merge && merge.getInput().getType() == factor.type)
    factor.value = merge.getInput();
  return true;
}

/// Reads through transposes of the query or the key, and moves what it is
/// multiplied with to the scale.
void takeScale(Factor &factor, Match &match) {
  while (Operation *op = factor.value.getDefiningOp()) {
    double scale;
    auto reshape = dyn_cast<ReshapeOp>(op);
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      readThrough(factor, transpose);
    } else if (reshape && readThroughMerged(factor, reshape)) {
      if (factor.value.getType() != factor.type)
        return;
    } else if (Value scaled = getScaled(op, scale)) {
      match.scale *= scale;
      match.operations.push_back(op);
      factor.value = scaled;
    } else {
      return;
    }
  }
}

/// The factors of a product of heads: two batch axes, one free and one
/// contracted axis on each side.
std::optional<std::pair<Factor, Factor>> getFactors(DotGeneralOp product) {
  if (!isMatrixOfHeads(product.getLhs()) || !isMatrixOfHeads(product.getRhs()))
    return std::nullopt;
  auto factor = [&](Value value, bool isRight) {
    ArrayRef<int64_t> batch =
        isRight ? product.getRhsBatch() : product.getLhsBatch();
    ArrayRef<int64_t> contracted =
        isRight ? product.getRhsContract() : product.getLhsContract();
    Factor result{value, typeOf(value), llvm::to_vector(batch)};
    llvm::append_range(result.axes, product.getFreeAxes(isRight));
    llvm::append_range(result.axes, contracted);
    return result;
  };
  if (product.getLhsBatch().size() != 2 || product.getLhsContract().size() != 1)
    return std::nullopt;
  return std::pair(factor(product.getLhs(), false),
                   factor(product.getRhs(), true));
}

class Fuser {
public:
  Fuser(ModuleOp module, func::FuncOp function, bool isGpu,
        int64_t leastMaskedColumns)
      : function(function), isGpu(isGpu),
        leastMaskedColumns(leastMaskedColumns), masks(module) {}

  void run() {
    SmallVector<DotGeneralOp> products(function.getOps<DotGeneralOp>());
    for (DotGeneralOp product : products)
      if (auto match = find(product))
        replace(product, *match);
    // Not earlier: what is known of masks is filed under their values.
    for (Operation *op : replaced)
      eraseDead(op);
  }

private:
  //===--------------------------------------------------------------------===//
  // Finding
  //===--------------------------------------------------------------------===//

  std::optional<Match> find(DotGeneralOp product) {
    auto factors = getFactors(product);
    Match match;
    match.operations = {product};
    SoftmaxOp softmax = findSoftmax(product.getLhs(), match);
    if (!factors || !softmax ||
        product.getLhsContract() != ArrayRef<int64_t>(3) ||
        product.getFreeAxes(/*ofRhs=*/false) != SmallVector<int64_t>{2})
      return std::nullopt;
    // The weights have their batch and heads first, in any order.
    auto &[weights, value] = *factors;
    match.value = value;
    match.value.axes = {value.axes[weights.axes[0] == 0 ? 0 : 1],
                        value.axes[weights.axes[0] == 0 ? 1 : 0], value.axes[3],
                        value.axes[2]};
    if (!findScores(softmax.getInput(), match) ||
        (!match.masks.empty() && weights.axes[0] != 0))
      return std::nullopt;
    while (auto transpose = match.value.value.getDefiningOp<TransposeOp>())
      readThrough(match.value, transpose);
    if (!std::isfinite(match.scale) || !agreeOnStage(match) ||
        !isSupported(match))
      return std::nullopt;
    return match;
  }

  /// The softmax that the weights are, if nothing else reads it. Where it has
  /// zeros for what is no number, that is for rows which a mask hides as a
  /// whole. What is no number for another reason stays so, as it does in
  /// PyTorch.
  static SoftmaxOp findSoftmax(Value weights, Match &match) {
    auto softmax = weights.getDefiningOp<SoftmaxOp>();
    if (!softmax || !softmax.getOutput().hasOneUse())
      return nullptr;
    match.zeroesHidden = softmax.getZeroed();
    match.operations.push_back(softmax);
    return softmax;
  }

  /// Goes from the operand of the softmax up to the first product.
  bool findScores(Value scores, Match &match) {
    while (scores.hasOneUse()) {
      Operation *op = scores.getDefiningOp();
      if (!op)
        return false;
      match.operations.push_back(op);
      if (auto product = dyn_cast<DotGeneralOp>(op)) {
        auto factors = getFactors(product);
        if (!factors)
          return false;
        std::tie(match.query, match.key) = *factors;
        takeScale(match.query, match);
        takeScale(match.key, match);
        return decideMasks(match);
      }
      double factor;
      if (Value scaled = getScaled(op, factor)) {
        match.scale *= factor;
        scores = scaled;
        continue;
      }
      // The scale so far is what the mask is multiplied with.
      auto mask = masks.find(op, match.scale);
      if (!mask)
        return false;
      scores = mask->scores;
      match.masks.push_back(*mask);
    }
    return false;
  }

  /// One mask that is known may be causal; others are added as they are, so
  /// that rows which they hide together stay what they are.
  bool decideMasks(Match &match) {
    llvm::erase_if(match.masks, [](const ScoreMask &mask) {
      return mask.hides == ScoreMask::Hides::nothing;
    });
    if (match.masks.size() == 1 &&
        match.masks.front().hides == ScoreMask::Hides::aboveDiagonal) {
      match.isCausal = true;
      match.masks.clear();
    }
    return match.masks.empty() ||
           (!isGpu && llvm::all_of(match.masks, [&](const ScoreMask &mask) {
             return mask.isOperand &&
                    typeOf(mask.scores).getShape().back() >= leastMaskedColumns;
           }));
  }

  /// Whether the model wants all of it in one stage.
  static bool agreeOnStage(const Match &match) {
    Attribute hint = stageOf(match);
    return llvm::all_of(match.operations, [&](Operation *op) {
      Attribute own = op->getAttr(step::stageHintAttrName);
      return !own || own == hint;
    });
  }

  static Attribute stageOf(const Match &match) {
    for (Operation *op : match.operations)
      if (Attribute hint = op->getAttr(step::stageHintAttrName))
        return hint;
    return nullptr;
  }

  bool isSupported(const Match &match) {
    return !isGpu ||
           llvm::all_of(ArrayRef{&match.query, &match.key, &match.value},
                        [](const Factor *factor) {
                          int64_t columns = factor->axes[3];
                          int64_t size = factor->type.getDimSize(columns);
                          return columns == 3 && size % 8 == 0 && size <= 128;
                        });
  }

  //===--------------------------------------------------------------------===//
  // Replacing
  //===--------------------------------------------------------------------===//

  void replace(DotGeneralOp product, Match &match) {
    // The result has its batch axes in the order of the weights.
    bool isSwapped = product.getLhsBatch().front() != 0;
    SmallVector<int64_t> axes = {isSwapped ? 1 : 0, isSwapped ? 0 : 1, 2, 3};
    Value result = product.getOutput();
    if (TransposeOp transpose = getLayout(result)) {
      for (int64_t &axis : axes)
        axis = llvm::find(transpose.getPermutation(), axis) -
               transpose.getPermutation().begin();
      result = transpose.getOutput();
    }
    SmallVector<Location> locations;
    for (Operation *op : llvm::reverse(match.operations))
      if (!llvm::is_contained(locations, op->getLoc()))
        locations.push_back(op->getLoc());
    OpBuilder builder(product);
    Location location = builder.getFusedLoc(locations);
    ArrayRef<int64_t> rows = match.query.type.getShape();
    auto sums = RankedTensorType::get({rows[match.query.axes[0]],
                                       rows[match.query.axes[1]],
                                       rows[match.query.axes[2]]},
                                      builder.getF32Type());
    auto valueOf = [&](const Factor &factor) -> Value {
      if (factor.value.getType() == factor.type)
        return factor.value;
      return ReshapeOp::create(builder, location, factor.type, factor.value);
    };
    Value query = valueOf(match.query), key = valueOf(match.key),
          value = valueOf(match.value);
    auto attention = AttentionOp::create(
        builder, location, result.getType(), sums, query, key, value,
        ScoreMasks::add(builder, location, match.masks), match.query.axes,
        match.key.axes, match.value.axes, axes, APFloat(match.scale),
        match.isCausal, !match.masks.empty() && match.zeroesHidden);
    if (Attribute hint = stageOf(match))
      attention->setAttr(step::stageHintAttrName, hint);
    result.replaceAllUsesWith(attention.getOutput());
    replaced.push_back(result.getDefiningOp());
  }

  /// The transpose that is all that reads a value and leaves columns side by
  /// side; null if there is none.
  static TransposeOp getLayout(Value value) {
    auto transpose = value.hasOneUse()
                         ? dyn_cast<TransposeOp>(*value.user_begin())
                         : TransposeOp();
    return transpose && transpose.getPermutation().back() == 3 ? transpose
                                                               : TransposeOp();
  }

  static void eraseDead(Operation *op) {
    llvm::SetVector<Operation *> worklist;
    worklist.insert(op);
    while (!worklist.empty()) {
      Operation *next = worklist.pop_back_val();
      if (!isOpTriviallyDead(next))
        continue;
      for (Value operand : next->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          worklist.insert(producer);
      next->erase();
    }
  }

  func::FuncOp function;
  bool isGpu;
  int64_t leastMaskedColumns;
  ScoreMasks masks;
  SmallVector<Operation *> replaced;
};

struct FuseAttention : nn::impl::FuseAttentionBase<FuseAttention> {
  using FuseAttentionBase::FuseAttentionBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    Fuser(getOperation(), *function, gpu, leastMaskedColumns).run();
  }
};

} // namespace
