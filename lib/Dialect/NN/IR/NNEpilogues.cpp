//===- NNEpilogues.cpp ----------------------------------------------------===//

#include "pp/Dialect/NN/IR/NNEpilogues.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The only reader of `value`, if it may join; null where it is read twice.
static Operation *onlyReader(Value value,
                             llvm::function_ref<bool(Operation *)> mayJoin) {
  if (!value.hasOneUse())
    return nullptr;
  Operation *reader = *value.user_begin();
  return mayJoin(reader) ? reader : nullptr;
}

/// One matrix times one matrix whose columns are one axis of the result.
static bool isPlain(DotGeneralOp product) {
  return product.getFreeAxes(/*ofRhs=*/true).size() == 1 &&
         product.isOneProduct();
}

/// Adds the activation behind `sum`, if a library has it.
static void addActivation(Epilogue &epilogue, Value sum,
                          llvm::function_ref<bool(Operation *)> mayJoin) {
  Operation *activation = nullptr;
  for (Operation *reader : sum.getUsers())
    if (isa<ReluOp, GeluOp>(reader) && mayJoin(reader) && !activation)
      activation = reader;
  if (!activation)
    return;
  bool isKept = !sum.hasOneUse();
  auto gelu = dyn_cast<GeluOp>(activation);
  // cuBLASLt's GELU is the tanh form. Its ReLU keeps a mask, not its operand.
  if (gelu ? !gelu.getApproximate() : isKept)
    return;
  if (isKept) {
    // The kernel stands where the activation stood.
    bool isReadBefore = llvm::any_of(sum.getUsers(), [&](Operation *reader) {
      return reader->isBeforeInBlock(activation);
    });
    if (isReadBefore || typeOf(sum).getShape().back() % 8 != 0)
      return;
    epilogue.sum = sum;
  }
  epilogue.name = !gelu ? "bias_relu" : isKept ? "bias_gelu_aux" : "bias_gelu";
  epilogue.operations.push_back(activation);
  epilogue.result = activation->getResult(0);
}

std::optional<Epilogue>
pp::nn::findEpilogue(DotGeneralOp product,
                     llvm::function_ref<bool(Operation *)> mayJoin) {
  if (!isPlain(product))
    return std::nullopt;
  Epilogue epilogue;
  Value value = product.getOutput();
  Operation *reader = onlyReader(value, mayJoin);
  // The library's sums have the precision of f32, so it can give those instead.
  auto widened = dyn_cast_or_null<CastOp>(reader);
  if (widened) {
    value = widened.getOutput();
    if (!typeOf(value).getElementType().isF32())
      return std::nullopt;
    epilogue.operations.push_back(widened);
    reader = onlyReader(value, mayJoin);
  }
  auto sum = dyn_cast_or_null<AddOp>(reader);
  if (!sum)
    return std::nullopt;
  Value other = sum.getLhs() == value ? sum.getRhs() : sum.getLhs();
  auto broadcast = other.getDefiningOp<BroadcastOp>();
  int64_t columns = typeOf(value).getRank() - 1;
  if (!broadcast || broadcast.getAxes() != ArrayRef<int64_t>(columns))
    return std::nullopt;
  epilogue.broadcast = broadcast;
  epilogue.bias = broadcast.getInput();
  epilogue.operations.push_back(sum);
  epilogue.name = "bias";
  epilogue.result = sum.getOutput();
  addActivation(epilogue, sum.getOutput(), mayJoin);
  // Generated code that goes on from here reads the short product and saves
  // more memory traffic than the library.
  if (widened && llvm::any_of(epilogue.result.getUsers(), [&](Operation *next) {
        return next->hasTrait<OpTrait::Elementwise>() && mayJoin(next);
      }))
    return std::nullopt;
  return epilogue;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// The axes of the result that say the channel.
static SmallVector<int64_t> channelAxes(ConvOp conv) {
  int64_t rank = typeOf(conv.getOutput()).getRank();
  bool isBlocked = rank > static_cast<int64_t>(conv.getStrides().size()) + 2;
  if (isBlocked)
    return {1, rank - 1};
  return {conv.getLayout() == Layout::channels_last ? rank - 1 : 1};
}

/// Adds the bias to `epilogue`; returns the sum, or `value` where none follows.
static Value addBias(Epilogue &epilogue, ConvOp conv, Value value,
                     llvm::function_ref<bool(Operation *)> mayJoin) {
  auto sum = dyn_cast_or_null<AddOp>(onlyReader(value, mayJoin));
  if (!sum)
    return value;
  Value other = sum.getLhs() == value ? sum.getRhs() : sum.getLhs();
  auto broadcast = other.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getAxes() != ArrayRef(channelAxes(conv)))
    return value;
  epilogue.broadcast = broadcast;
  epilogue.bias = broadcast.getInput();
  epilogue.operations.push_back(sum);
  return sum.getOutput();
}

/// Adds a residual to `epilogue`; returns the sum, or `value` without one.
static Value addResidual(Epilogue &epilogue, Value value,
                         llvm::function_ref<bool(Operation *)> mayJoin,
                         llvm::function_ref<bool(Value)> mayBeRead) {
  auto sum = dyn_cast_or_null<AddOp>(onlyReader(value, mayJoin));
  if (!sum)
    return value;
  Value other = sum.getLhs() == value ? sum.getRhs() : sum.getLhs();
  if (!mayBeRead(other))
    return value;
  epilogue.residual = other;
  epilogue.operations.push_back(sum);
  return sum.getOutput();
}

/// The bound that a maximum or minimum of `value` has.
static std::optional<float> findBound(Operation *op, Value value) {
  Value other = op->getOperand(op->getOperand(0) == value ? 1 : 0);
  auto constant = other.getDefiningOp<ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                        : SplatElementsAttr();
  if (!splat)
    return std::nullopt;
  auto bound = splat.getSplatValue<APFloat>();
  return bound.isFinite() ? std::optional(bound.convertToFloat())
                          : std::nullopt;
}

/// Adds a ReLU, or a maximum and a minimum in any order.
static void addBounds(Epilogue &epilogue, Value value,
                      llvm::function_ref<bool(Operation *)> mayJoin) {
  Operation *first = onlyReader(value, mayJoin);
  if (auto relu = dyn_cast_or_null<ReluOp>(first)) {
    epilogue.operations.push_back(relu);
    epilogue.name = "activation=relu";
    epilogue.result = relu.getOutput();
    return;
  }
  if (!isa_and_nonnull<MaximumOp, MinimumOp>(first))
    return;
  Value between = first->getResult(0);
  Operation *second = onlyReader(between, mayJoin);
  if (!isa_and_nonnull<MaximumOp, MinimumOp>(second) ||
      first->getName() == second->getName())
    return;
  auto low = findBound(first, value), high = findBound(second, between);
  if (isa<MinimumOp>(first))
    std::swap(low, high);
  if (!low || !high || *low > *high)
    return;
  epilogue.operations.append({first, second});
  llvm::raw_string_ostream(epilogue.name)
      << llvm::format("activation=clip low=%.9g high=%.9g", *low, *high);
  epilogue.result = second->getResult(0);
}

std::optional<Epilogue>
pp::nn::findEpilogue(ConvOp conv, llvm::function_ref<bool(Operation *)> mayJoin,
                     llvm::function_ref<bool(Value)> mayBeRead) {
  for (Value value : {conv.getInput(), conv.getWeight(), conv.getOutput()})
    if (!typeOf(value).getElementType().isF32())
      return std::nullopt;
  Epilogue epilogue;
  Value withBias = addBias(epilogue, conv, conv.getOutput(), mayJoin);
  epilogue.result = addResidual(epilogue, withBias, mayJoin, mayBeRead);
  addBounds(epilogue, epilogue.result, mayJoin);
  bool isBiasAlone = !epilogue.residual && epilogue.name.empty();
  if (epilogue.operations.empty() ||
      (isBiasAlone &&
       llvm::any_of(epilogue.result.getUsers(), [&](Operation *next) {
         return next->hasTrait<OpTrait::Elementwise>() && mayJoin(next);
       })))
    return std::nullopt;
  return epilogue;
}
