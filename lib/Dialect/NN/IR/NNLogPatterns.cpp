//===- NNLogPatterns.cpp - Logarithms of probabilities --------------------===//
//
// PyTorch computes logsigmoid(x), and binary cross entropy of logits, without
// the probability; its exporters write them with it:
//
//   log(logistic(x))       ──▶   -softplus(-x)
//   log(1 - logistic(x))   ──▶   -softplus(x)
//
// The left sides are infinite, and their derivatives no numbers, where the
// probability rounds to 0 or 1: from x = -88 down, and from x = 17 up. Where a
// maximum reads the second, as in PyTorch's binary cross entropy of
// probabilities, that bounds what is infinite, and it stays.
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

struct LogOfLogistic : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(LogOp op,
                                PatternRewriter &rewriter) const override {
    Value probability = op.getInput();
    auto rest = probability.getDefiningOp<SubOp>();
    auto isBound = [](Operation *user) { return isa<MaximumOp>(user); };
    if (rest && matchPattern(rest.getLhs(), m_OneFloat()) &&
        llvm::none_of(op->getUsers(), isBound))
      probability = rest.getRhs();
    else
      rest = nullptr;
    auto logistic = probability.getDefiningOp<LogisticOp>();
    if (!logistic)
      return failure();
    Value x = logistic.getInput();
    if (!rest)
      x = NegOp::create(rewriter, op.getLoc(), x);
    x = SoftplusOp::create(rewriter, op.getLoc(), x);
    rewriter.replaceOpWithNewOp<NegOp>(op, x);
    return success();
  }
};

} // namespace

void LogOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                        MLIRContext *context) {
  patterns.add<LogOfLogistic>(context);
}
