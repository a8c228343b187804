//===- ApproximateMath.cpp - Polynomials for transcendental functions -----===//

#include "pp/Conversion/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace pp {
#define GEN_PASS_DEF_APPROXIMATEMATH
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;

namespace {

struct ApproximateMath : pp::impl::ApproximateMathBase<ApproximateMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(
        patterns, MathPolynomialApproximationOptions());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
