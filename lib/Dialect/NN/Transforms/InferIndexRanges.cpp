//===- InferIndexRanges.cpp - Which indices an input may hold -------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

namespace pp::nn {
#define GEN_PASS_DEF_INFERINDEXRANGES
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// Whether every element of the result is one of the operands' elements.
static bool movesElements(Operation *op) {
  if (auto cast = dyn_cast<CastOp>(op))
    return isa<IntegerType>(cast.getOutput().getType().getElementType());
  return isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, ConcatOp, CopyOp>(
      op);
}

/// The size of the axis that a use indexes; nothing if it does not.
static std::optional<int64_t> indexedAxis(OpOperand &use) {
  auto gather = dyn_cast<GatherOp>(use.getOwner());
  if (gather && use.get() == gather.getIndices())
    return gather.getInput().getType().getDimSize(gather.getAxis());
  auto scatter = dyn_cast<ScatterOp>(use.getOwner());
  if (scatter && use.get() == scatter.getIndices())
    return scatter.getInput().getType().getDimSize(scatter.getAxis());
  return std::nullopt;
}

/// The size of the smallest axis that elements of `input` are indices into;
/// nothing if they are none.
static std::optional<int64_t> smallestIndexedAxis(Value input) {
  std::optional<int64_t> smallest;
  SmallVector<Value> worklist = {input};
  SmallPtrSet<Operation *, 8> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto size = indexedAxis(use)) {
        smallest = std::min(smallest.value_or(*size), *size);
      } else if (movesElements(user) && seen.insert(user).second) {
        worklist.push_back(user->getResult(0));
      }
    }
  }
  return smallest;
}

namespace {

struct InferIndexRanges : nn::impl::InferIndexRangesBase<InferIndexRanges> {
  using InferIndexRangesBase::InferIndexRangesBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> main = findMain(getOperation());
    if (failed(main))
      return signalPassFailure();
    Builder builder(&getContext());
    for (BlockArgument argument : main->getArguments()) {
      auto type = cast<RankedTensorType>(argument.getType());
      // Shorter numbers are places of tables that have all of them.
      if (!type.getElementType().isSignlessInteger(64) &&
          !type.getElementType().isSignlessInteger(32))
        continue;
      if (auto size = smallestIndexedAxis(argument))
        main->setArgAttr(argument.getArgNumber(), step::rangeAttrName,
                         builder.getDenseI64ArrayAttr({-*size, *size - 1}));
    }
  }
};

} // namespace
