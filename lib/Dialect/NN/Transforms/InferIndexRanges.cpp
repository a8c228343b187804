//===- InferIndexRanges.cpp - Which indices an input may hold -------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_INFERINDEXRANGES
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// Of each element of a value, the element of an input that it is; -1 if none.
using Sources = SmallVector<int64_t, 0>;

static bool isOfIntegers(Value value) {
  return isa<IntegerType>(getElementTypeOrSelf(value));
}

/// Whether every element of the result is one of the operands' elements.
static bool movesElements(Operation *op) {
  return isa<CastOp, ReshapeOp, TransposeOp, SliceOp, BroadcastOp, ConcatOp,
             CopyOp>(op) &&
         isOfIntegers(op->getResult(0));
}

/// Where element `at` of an operation's result comes from: an operand, and an
/// element of it.
static std::pair<unsigned, SmallVector<int64_t>>
findElement(Operation *op, SmallVector<int64_t> at) {
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<int64_t> from(at.size());
    for (auto [index, axis] : llvm::zip_equal(at, transpose.getPermutation()))
      from[axis] = index;
    return {0, from};
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [index, start, stride] :
         llvm::zip_equal(at, slice.getStarts(), slice.getStrides()))
      index = start + index * stride;
    return {0, at};
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return {0, llvm::map_to_vector(broadcast.getAxes(),
                                   [&](int64_t axis) { return at[axis]; })};
  auto concat = cast<ConcatOp>(op);
  int64_t &index = at[concat.getAxis()];
  for (auto [number, input] : llvm::enumerate(concat.getInputs())) {
    int64_t size =
        cast<RankedTensorType>(input.getType()).getDimSize(concat.getAxis());
    if (index < size)
      return {number, at};
    index -= size;
  }
  llvm_unreachable("a concatenation has no other elements");
}

/// Follows the elements of an input through an operation that moves them.
static Sources follow(Operation *op, const DenseMap<Value, Sources> &known) {
  if (isa<CastOp, ReshapeOp, CopyOp>(op))
    return known.lookup(op->getOperand(0));
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  Sources result;
  SmallVector<int64_t> strides = computeStrides(shapeOf(op->getResult(0)));
  int64_t elements = computeProduct(shapeOf(op->getResult(0)));
  for (int64_t element = 0; element < elements; ++element) {
    auto [number, place] = findElement(op, delinearize(element, strides));
    Value operand = op->getOperand(number);
    auto sources = known.find(operand);
    result.push_back(
        sources == known.end()
            ? -1
            : sources
                  ->second[linearize(place, computeStrides(shapeOf(operand)))]);
  }
  return result;
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

static bool isBatched(func::FuncOp main, BlockArgument argument) {
  return main.getArgAttr(argument.getArgNumber(), step::batchedAttrName) !=
         nullptr;
}

/// For each element of a sample of an input, the size of the smallest axis that
/// it is an index into; 0 if it is none.
static SmallVector<int64_t> smallestIndexedAxes(func::FuncOp main,
                                                BlockArgument argument) {
  auto type = cast<RankedTensorType>(argument.getType());
  // Of a larger input, all elements are one.
  constexpr int64_t mostFollowed = 1 << 22;
  bool isFollowed = type.getNumElements() <= mostFollowed;
  int64_t elements = isFollowed ? type.getNumElements() : 1;
  int64_t inSample = isFollowed && isBatched(main, argument)
                         ? elements / std::max<int64_t>(type.getDimSize(0), 1)
                         : elements;
  SmallVector<int64_t> smallest(inSample, 0);
  DenseMap<Value, Sources> known;
  known[argument] = llvm::to_vector<0>(llvm::seq<int64_t>(0, elements));
  for (Operation &op : main.getBody().front()) {
    for (OpOperand &use : op.getOpOperands()) {
      auto sources = known.find(use.get());
      auto size = indexedAxis(use);
      if (!size || sources == known.end())
        continue;
      for (int64_t source : sources->second)
        if (source >= 0) {
          int64_t &least = smallest[source % inSample];
          least = least ? std::min(least, *size) : *size;
        }
    }
    bool moves = movesElements(&op) &&
                 llvm::any_of(op.getOperands(), [&](Value operand) {
                   return known.contains(operand);
                 });
    if (moves)
      known[op.getResult(0)] = isFollowed ? follow(&op, known) : Sources{0};
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
      SmallVector<int64_t> sizes = smallestIndexedAxes(*main, argument);
      if (llvm::all_of(sizes, [](int64_t size) { return size == 0; }))
        continue;
      if (llvm::all_equal(sizes))
        sizes.truncate(1);
      SmallVector<int64_t> ranges;
      for (int64_t size : sizes)
        llvm::append_values(
            ranges, size ? -size : std::numeric_limits<int64_t>::min(),
            size ? size - 1 : std::numeric_limits<int64_t>::max());
      main->setArgAttr(argument.getArgNumber(), step::rangeAttrName,
                       builder.getDenseI64ArrayAttr(ranges));
    }
  }
};

} // namespace
