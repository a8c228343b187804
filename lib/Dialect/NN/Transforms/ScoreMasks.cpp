//===- ScoreMasks.cpp -----------------------------------------------------===//

#include "ScoreMasks.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

using Hides = ScoreMask::Hides;

Value ScoreMask::getMask() const {
  if (form == Form::added)
    return op->getOperand(op->getOperand(0) == scores ? 1 : 0);
  return cast<SelectOp>(op).getCondition();
}

Value ScoreMask::getReplacement() const {
  auto select = cast<SelectOp>(op);
  return form == Form::whereTrue ? select.getWhenTrue() : select.getWhenFalse();
}

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

/// What `op` hides of `scores`, given that its result is multiplied by
/// `factor`. Masks that are repeated for each head are read once.
Hides ScoreMasks::classify(Operation *op, Value scores, ScoreMask::Form form,
                           double factor) {
  if (!(factor > 0))
    return Hides::somethingElse;
  std::vector<const void *> key;
  auto addToKey = [&](Value value) {
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    key.push_back(broadcast ? broadcast.getInput().getAsOpaquePointer()
                            : value.getAsOpaquePointer());
    key.push_back(broadcast ? broadcast.getAxesAttr().getAsOpaquePointer()
                            : nullptr);
  };
  for (Value operand : op->getOperands())
    if (operand != scores)
      addToKey(operand);
  key.push_back(scores.getType().getAsOpaquePointer());
  auto [entry, isNew] =
      known.try_emplace(Key(form, factor, key), Hides::somethingElse);
  if (isNew)
    entry->second = read(op, scores, form, factor);
  return entry->second;
}

Hides ScoreMasks::read(Operation *op, Value scores, ScoreMask::Form form,
                       double factor) {
  ArrayRef<int64_t> shape = typeOf(scores).getShape();
  if (shape.size() != 4)
    return Hides::somethingElse;
  elements.forgetParameters();
  bool hidesNothing = true, hidesAbove = shape[2] == shape[3];
  double weakest = -INFINITY;
  for (int64_t row = 0; row < shape[2]; ++row)
    for (int64_t column = 0; column < shape[3]; ++column) {
      auto added = readMask(op, scores, form, {row, column});
      // exp of it is 0 beside any score that a model has.
      if (!added || (*added != 0 && !(*added * factor <= -1e4)))
        return Hides::somethingElse;
      if (*added != 0)
        weakest = std::max(weakest, *added);
      hidesNothing &= *added == 0;
      hidesAbove &= (*added != 0) == (column > row);
      if (!hidesNothing && !hidesAbove)
        return Hides::somethingElse;
    }
  // A file may be empty until the program runs.
  if (hidesNothing)
    return elements.hasReadParameter() ? Hides::somethingElse : Hides::nothing;
  // What holds an infinity or the lowest number is never trained (see the
  // importer); other floats may come from a snapshot.
  if (elements.hasReadFloatParameter() &&
      weakest > std::numeric_limits<float>::lowest())
    return Hides::somethingElse;
  return Hides::aboveDiagonal;
}

/// What is added to a score, or put in its place; 0 where it stays as it is;
/// none where that is not certain.
std::optional<double> ScoreMasks::readMask(Operation *op, Value scores,
                                           ScoreMask::Form form,
                                           std::pair<int64_t, int64_t> at) {
  int64_t index[] = {ConstantElements::any, ConstantElements::any, at.first,
                     at.second};
  if (form == ScoreMask::Form::added)
    return elements.read(op->getOperand(0) == scores ? op->getOperand(1)
                                                     : op->getOperand(0),
                         index);
  auto select = cast<SelectOp>(op);
  auto condition = elements.read(select.getCondition(), index);
  if (!condition)
    return std::nullopt;
  if ((*condition != 0) != (form == ScoreMask::Form::whereTrue))
    return 0;
  auto value =
      elements.read(form == ScoreMask::Form::whereTrue ? select.getWhenTrue()
                                                       : select.getWhenFalse(),
                    index);
  // A score that becomes 0 does not stay as it is.
  return value == 0.0 ? std::nullopt : value;
}

//===----------------------------------------------------------------------===//
// What the program adds
//===----------------------------------------------------------------------===//

/// Whether a value is made of a product by scales and masks.
static bool isOfProduct(Value value, unsigned depth = 0) {
  constexpr unsigned deepest = 8;
  Operation *op = value.getDefiningOp();
  if (!op || depth == deepest)
    return false;
  if (isa<DotGeneralOp>(op))
    return true;
  return isa<MulOp, DivOp, AddOp, SelectOp>(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isOfProduct(operand, depth + 1);
         });
}

bool ScoreMasks::isTrained(Value value) {
  SmallVector<Value> worklist = {value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!seen.insert(next).second || !op ||
        !isa<FloatType>(getElementTypeOrSelf(next)))
      continue;
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      auto global = symbols.lookup<ml_program::GlobalOp>(parameter.getSymbol());
      if (!global || global->hasAttr(trainedAttrName))
        return true;
    }
    if (op->getNumRegions() != 0)
      return true;
    llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

/// The number that all elements have; none if there is none.
static std::optional<double> getSplat(Value value) {
  DenseElementsAttr constant;
  if (!matchPattern(value, m_Constant(&constant)) || !constant.isSplat() ||
      !isa<FloatType>(constant.getElementType()))
    return std::nullopt;
  return constant.getSplatValue<APFloat>().convertToDouble();
}

bool ScoreMasks::isOperand(const ScoreMask &mask, double factor) {
  RankedTensorType type = typeOf(mask.scores);
  if (type.getRank() != 4 || !type.getElementType().isF32())
    return false;
  if (mask.form == ScoreMask::Form::added)
    return factor == 1 && !isTrained(mask.getMask());
  // A score beside it is lost: this is the sum, too. Beside a finite number it
  // is as well, but would have a derivative where a row is hidden as a whole.
  auto replacement = getSplat(mask.getReplacement());
  return replacement && *replacement == -INFINITY && factor > 0;
}

/// A mask without what it is repeated along, of rank 4.
static Value withoutRepetition(OpBuilder &builder, Location location,
                               Value mask) {
  auto broadcast = mask.getDefiningOp<BroadcastOp>();
  if (!broadcast || !llvm::is_sorted(broadcast.getAxes()) ||
      !llvm::is_contained(broadcast.getAxes(), 3))
    return mask;
  Value input = broadcast.getInput();
  SmallVector<int64_t> shape(4, 1);
  for (auto [axis, size] :
       llvm::zip_equal(broadcast.getAxes(), typeOf(input).getShape()))
    shape[axis] = size;
  RankedTensorType type = typeOf(input).clone(shape);
  return input.getType() == type
             ? input
             : ReshapeOp::create(builder, location, type, input);
}

/// A mask as what is added to scores.
static Value makeAdded(OpBuilder &builder, Location location,
                       const ScoreMask &mask) {
  Value value = withoutRepetition(builder, location, mask.getMask());
  if (mask.form == ScoreMask::Form::added)
    return value;
  RankedTensorType type = typeOf(value).clone(builder.getF32Type());
  auto constant = [&](double number) -> Value {
    return ConstantOp::create(
        builder, location, type,
        DenseElementsAttr::get(type, static_cast<float>(number)));
  };
  Value hidden = constant(*getSplat(mask.getReplacement())), seen = constant(0);
  if (mask.form == ScoreMask::Form::whereFalse)
    std::swap(hidden, seen);
  return SelectOp::create(builder, location, type, value, hidden, seen);
}

/// Repeats a value along axes where it has 1.
static Value repeat(OpBuilder &builder, Location location, Value value,
                    ArrayRef<int64_t> shape) {
  RankedTensorType type = typeOf(value);
  if (type.getShape() == shape)
    return value;
  SmallVector<int64_t> axes, kept;
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    if (size == shape[axis]) {
      axes.push_back(static_cast<int64_t>(axis));
      kept.push_back(size);
    }
  Value input = ReshapeOp::create(builder, location, type.clone(kept), value);
  return BroadcastOp::create(builder, location, type.clone(shape), input, axes);
}

Value ScoreMasks::add(OpBuilder &builder, Location location,
                      ArrayRef<ScoreMask> masks) {
  Value sum;
  for (const ScoreMask &mask : masks) {
    Value next = makeAdded(builder, location, mask);
    if (!sum) {
      sum = next;
      continue;
    }
    SmallVector<int64_t> shape;
    for (auto [a, b] :
         llvm::zip_equal(typeOf(sum).getShape(), typeOf(next).getShape()))
      shape.push_back(std::max(a, b));
    sum =
        AddOp::create(builder, location, repeat(builder, location, sum, shape),
                      repeat(builder, location, next, shape));
  }
  return sum;
}

std::optional<ScoreMask> ScoreMasks::find(Operation *op, double factor) {
  using Form = ScoreMask::Form;
  SmallVector<std::pair<Value, Form>> places;
  if (auto sum = dyn_cast<AddOp>(op))
    places = {{sum.getLhs(), Form::added}, {sum.getRhs(), Form::added}};
  else if (auto select = dyn_cast<SelectOp>(op))
    places = {{select.getWhenTrue(), Form::whereFalse},
              {select.getWhenFalse(), Form::whereTrue}};
  std::optional<ScoreMask> result;
  for (auto [scores, form] : places) {
    if (!isOfProduct(scores))
      continue;
    ScoreMask mask{op, form, scores, classify(op, scores, form, factor), false};
    mask.isOperand = isOperand(mask, factor);
    if (mask.hides != Hides::somethingElse)
      return mask;
    if (mask.isOperand && !result)
      result = mask;
  }
  return result;
}
