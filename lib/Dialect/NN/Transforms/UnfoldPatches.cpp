//===- UnfoldPatches.cpp - Windows beside each other are a product --------===//

#include "MainFunction.h"
#include "StepMarks.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace pp::nn {
#define GEN_PASS_DEF_UNFOLDPATCHES
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

using Sizes = SmallVector<int64_t>;

class Unfolder {
public:
  Unfolder(func::FuncOp function, int64_t least)
      : marks(function), builder(function.getContext()), least(least) {}

  void unfold(ConvOp conv) {
    if (!isOfPatches(conv))
      return;
    builder.setInsertionPoint(conv);
    like = conv;
    ArrayRef<int64_t> x = shapeOf(conv.getInput()),
                      w = shapeOf(conv.getWeight()),
                      y = shapeOf(conv.getOutput());
    const int64_t outputs = w[0], spatial = std::ssize(w) - 2;
    int64_t window = 1, patches = y[0];
    for (int64_t axis = 0; axis < spatial; ++axis) {
      window *= w[axis + 2];
      patches *= y[axis + 2];
    }
    // N x C x H x KH x W x KW, of which N x H x W x C x KH x KW.
    Sizes split(x.take_front(2)), rows{0}, places{1};
    for (int64_t axis = 0; axis < spatial; ++axis) {
      rows.push_back(std::ssize(split));
      places.push_back(std::ssize(split) + 1);
      split.append({y[axis + 2], w[axis + 2]});
    }
    llvm::append_range(rows, places);
    Value matrix = reshape(transpose(reshape(conv.getInput(), split), rows),
                           {patches, w[1] * window});
    Value weights = reshape(conv.getWeight(), {outputs, w[1] * window});
    auto element = cast<RankedTensorType>(conv.getOutput().getType());
    Value product = marked(DotGeneralOp::create(
        builder, conv.getLoc(), element.clone({patches, outputs}), matrix,
        weights, ArrayRef<int64_t>{}, ArrayRef<int64_t>{}, ArrayRef<int64_t>{1},
        ArrayRef<int64_t>{1}));
    if (Attribute exact = conv->getAttr(exactAttrName))
      product.getDefiningOp()->setAttr(exactAttrName, exact);
    Sizes last(y), permutation{0, std::ssize(y) - 1};
    last.erase(last.begin() + 1);
    last.push_back(outputs);
    for (int64_t axis = 0; axis < spatial; ++axis)
      permutation.push_back(axis + 1);
    conv.getOutput().replaceAllUsesWith(
        transpose(reshape(product, last), permutation));
    conv.erase();
  }

private:
  /// Whether each number of the input is in one window, and windows are large.
  bool isOfPatches(ConvOp conv) const {
    ArrayRef<int64_t> x = shapeOf(conv.getInput()),
                      window = shapeOf(conv.getWeight()).drop_front(2),
                      result = shapeOf(conv.getOutput()).drop_front(2);
    auto isAll = [](ArrayRef<int64_t> numbers, int64_t value) {
      return llvm::all_of(numbers, [&](int64_t n) { return n == value; });
    };
    if (conv.getGroups() != 1 || conv.getLayout() != Layout::plain ||
        conv.getStrides() != window || !isAll(conv.getPadLow(), 0) ||
        !isAll(conv.getPadHigh(), 0) ||
        llvm::none_of(window, [&](int64_t size) { return size >= least; }))
      return false;
    for (auto [size, count, of] :
         llvm::zip_equal(x.drop_front(2), result, window))
      if (size != count * of)
        return false;
    // Of a single number nothing is dilated.
    return llvm::all_of(
        llvm::zip_equal(conv.getDilations(), window), [](auto pair) {
          return std::get<0>(pair) == 1 || std::get<1>(pair) == 1;
        });
  }

  template <typename Op> Value marked(Op op) {
    marks.mark(op, like);
    return op.getResult();
  }
  Value reshape(Value from, ArrayRef<int64_t> sizes) {
    auto type = cast<RankedTensorType>(from.getType()).clone(sizes);
    return marked(ReshapeOp::create(builder, like->getLoc(), type, from));
  }
  Value transpose(Value from, ArrayRef<int64_t> permutation) {
    return marked(
        TransposeOp::create(builder, like->getLoc(), from, permutation));
  }

  StepMarks marks;
  OpBuilder builder;
  int64_t least;
  Operation *like = nullptr;
};

struct UnfoldPatches : nn::impl::UnfoldPatchesBase<UnfoldPatches> {
  using UnfoldPatchesBase::UnfoldPatchesBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    Unfolder unfolder(*function, least);
    for (auto conv : llvm::make_early_inc_range(
             function->getBody().front().getOps<ConvOp>()))
      unfolder.unfold(conv);
  }
};

} // namespace
