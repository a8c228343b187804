//===- NNSelectPatterns.cpp - Choices that are a part of operations -------===//
//
// PyTorch exports attention with a mask so that rows which the mask hides as a
// whole, whose weights are no numbers, get zeros:
//
//   %p = nn.softmax %x
//   %n = nn.compare ne %p, %p        ──▶   %w = nn.softmax %x zeroed
//   %w = nn.select %n, 0, %p
//
// Of the left side, the derivative is no number where the weights are none.
// PyTorch's own is 0 there, as is that of the right side.
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

struct ZeroSoftmax : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto softmax = op.getWhenFalse().getDefiningOp<SoftmaxOp>();
    auto compare = op.getCondition().getDefiningOp<CompareOp>();
    if (!softmax || !compare || compare.getComparison() != Comparison::ne ||
        compare.getLhs() != softmax.getOutput() ||
        compare.getRhs() != softmax.getOutput() ||
        !matchPattern(op.getWhenTrue(), m_AnyZeroFloat()))
      return failure();
    // What else reads the weights reads them as they are.
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, softmax.getType(),
                                           softmax.getInput(),
                                           /*zeroed=*/true);
    return success();
  }
};

} // namespace

void SelectOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<ZeroSoftmax>(context);
}
