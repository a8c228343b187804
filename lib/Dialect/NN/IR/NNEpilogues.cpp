//===- NNEpilogues.cpp ----------------------------------------------------===//

#include "pp/Dialect/NN/IR/NNEpilogues.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

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
