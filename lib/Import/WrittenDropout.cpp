//===- WrittenDropout.cpp -------------------------------------------------===//
#include "WrittenDropout.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The number that all elements of a constant are.
static std::optional<double> splatOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!elements || !elements.isSplat() ||
          !isa<FloatType>(elements.getElementType()))
        return std::nullopt;
      return elements.getSplatValue<APFloat>().convertToDouble();
    }
    if (!isa<BroadcastOp, ReshapeOp, CastOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast->getOperand(0);
  return value;
}

/// The probability that an element of a drawn mask is 1.
static std::optional<double> probabilityOf(Value mask) {
  auto compare = withoutCasts(mask).getDefiningOp<CompareOp>();
  if (!compare ||
      !withoutCasts(compare->getOperand(0)).getDefiningOp<UniformOp>())
    return std::nullopt;
  std::optional<double> bound = splatOf(compare->getOperand(1));
  if (!bound)
    return std::nullopt;
  switch (compare.getComparison()) {
  case Comparison::lt:
  case Comparison::le:
    return bound;
  case Comparison::gt:
  case Comparison::ge:
    return 1 - *bound;
  default:
    return std::nullopt;
  }
}

/// Whether the operation gives 1 / p with probability p.
static bool isDropoutMask(DivOp division) {
  std::optional<double> kept = probabilityOf(division->getOperand(0));
  std::optional<double> divisor = splatOf(division->getOperand(1));
  // Each is rounded, perhaps to the 8 bits of a bf16.
  return kept && divisor && *kept > 0 &&
         std::abs(*kept - *divisor) <= *kept / 256;
}

void pp::removeWrittenDropout(func::FuncOp function) {
  SmallVector<DivOp> masks;
  function.walk([&](DivOp division) {
    if (isDropoutMask(division))
      masks.push_back(division);
  });
  for (DivOp mask : masks) {
    OpBuilder builder(mask);
    auto type = cast<RankedTensorType>(mask->getResult(0).getType());
    auto element = cast<FloatType>(type.getElementType());
    Value one = ConstantOp::create(
        builder, mask.getLoc(),
        DenseElementsAttr::get(RankedTensorType::get({}, element),
                               FloatAttr::get(element, 1).getValue()));
    Value ones = BroadcastOp::create(builder, mask.getLoc(), type, one,
                                     ArrayRef<int64_t>());
    mask->replaceAllUsesWith(ValueRange(ones));
    // What drew it goes with it, if it has no other use.
    Value value = mask->getOperand(0);
    mask->erase();
    while (Operation *op = value.getDefiningOp()) {
      if (!op->use_empty() || !isa<CastOp, CompareOp, UniformOp>(op))
        break;
      value = op->getOperand(0);
      op->erase();
    }
  }
  if (masks.empty())
    return;
  for (unsigned index = function.getNumArguments(); index-- > 0;) {
    auto role =
        function.getArgAttrOfType<step::RoleAttr>(index, step::roleAttrName);
    if (role && role.getValue() == step::Role::RandomCounter &&
        function.getArgument(index).use_empty())
      (void)function.eraseArgument(index);
  }
}
