//===- ApproximateMath.cpp - Polynomials for transcendental functions -----===//

#include "pp/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace pp {
#define GEN_PASS_DEF_APPROXIMATEMATH
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;

namespace {

/// Builds arithmetic on f32, or vectors of it.
struct Arithmetic {
  PatternRewriter &b;
  Location loc;
  Type type;

  Value constant(double value) {
    Attribute number = b.getF32FloatAttr(static_cast<float>(value));
    if (auto vector = dyn_cast<VectorType>(type))
      number = DenseElementsAttr::get(vector, number);
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(number));
  }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value is(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }

  Type bits() {
    Type integer = b.getI32Type();
    auto vector = dyn_cast<VectorType>(type);
    return vector ? Type(vector.clone(integer)) : integer;
  }
  Value integer(int32_t value) {
    Attribute number = b.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(bits()))
      number = DenseElementsAttr::get(vector, number);
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(number));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, int32_t places) {
    return arith::ShLIOp::create(b, loc, x, integer(places));
  }
  Value toBits(Value x) { return arith::BitcastOp::create(b, loc, bits(), x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, loc, type, x); }

  /// coefficients[0] + x (coefficients[1] + x (...)).
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      result = fma(result, x, constant(coefficient));
    return result;
  }
};

bool isF32(Type type) { return getElementTypeOrSelf(type).isF32(); }

/// erf x = x + x p(x^2) for |x| < 1, and 1 - q(|x|)^8 beyond, where it is
/// rounded to 1 from 3.93 on: two polynomials with the least greatest error
/// (Remez), 4e-8 of the result. Within 2.1 units in the last place, with half
/// of the operations of quotients on four intervals, and no division.
struct ApproximateErf : OpRewritePattern<math::ErfOp> {
  ApproximateErf(MLIRContext *context) : OpRewritePattern(context, 2) {}

  LogicalResult matchAndRewrite(math::ErfOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op.getOperand();
    if (!isF32(x.getType()))
      return failure();
    Arithmetic a{rewriter, op.getLoc(), x.getType()};
    constexpr double inner[] = {0.12837912142276764,  -0.37612324953079224,
                                0.11280179768800735,  -0.02671131119132042,
                                0.004917551297694445, -0.0005631422391161323};
    constexpr double outer[] = {1.0008219480514526,    -0.1450100839138031,
                                -0.061507754027843475, -0.011305219493806362,
                                0.012894379906356335,  -0.0024621905758976936,
                                0.00014911615289747715};
    Value size = math::AbsFOp::create(rewriter, op.getLoc(), x);
    Value one = a.constant(1), last = a.constant(3.93);
    // A number that is none passes both.
    Value bounded =
        a.select(a.is(arith::CmpFPredicate::OGT, size, last), last, size);
    Value small = a.fma(a.polynomial(a.mul(x, x), inner), x, x);
    Value power = a.polynomial(bounded, outer);
    power = a.mul(power, power);
    power = a.mul(power, power);
    Value large = a.fma(a.neg(power), power, one);
    large = math::CopySignOp::create(rewriter, op.getLoc(), large, x);
    rewriter.replaceOp(
        op, a.select(a.is(arith::CmpFPredicate::OLT, size, one), small, large));
    return success();
  }
};

/// e^x = 2^n e^r for the n nearest to x / ln 2 and a polynomial of r with the
/// least greatest error (Remez), 2e-9 of the result. n is taken from the last
/// bits of a sum that has no others, and 2^n made of it: half of the operations
/// with a rounding and a conversion. Within 1 unit in the last place; 0 from
/// 2^-125.5 down.
struct ApproximateExp : OpRewritePattern<math::ExpOp> {
  ApproximateExp(MLIRContext *context) : OpRewritePattern(context, 2) {}

  LogicalResult matchAndRewrite(math::ExpOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op.getOperand();
    if (!isF32(x.getType()))
      return failure();
    Arithmetic a{rewriter, op.getLoc(), x.getType()};
    constexpr double ln2 = std::numbers::ln2,
                     high = static_cast<float>(std::numbers::ln2);
    // Of 2 e^r, since 2^n alone may be too large.
    constexpr double twice[] = {2,
                                2,
                                2 * 0.49999991059303284,
                                2 * 0.16666419804096222,
                                2 * 0.04166822507977486,
                                2 * 0.008374824188649654,
                                2 * 0.0013836835278198123};
    // A number that is none passes both.
    Value least = a.constant(-87.5), most = a.constant(89);
    x = a.select(a.is(arith::CmpFPredicate::OLT, x, least), least, x);
    x = a.select(a.is(arith::CmpFPredicate::OGT, x, most), most, x);
    Value whole = a.constant(0x1.8p23);
    Value sum = a.fma(x, a.constant(1 / ln2), whole);
    Value n = a.sub(sum, whole);
    Value rest = a.fma(n, a.constant(-high), x);
    rest = a.fma(n, a.constant(high - ln2), rest);
    Value power = a.shiftLeft(a.toBits(sum), 23);
    power = a.fromBits(a.add(power, a.integer(126 << 23)));
    rewriter.replaceOp(op, a.mul(a.polynomial(rest, twice), power));
    return success();
  }
};

/// x / c for a constant c, with its reciprocal y, rounded: q = x y, and then
/// q + (x - q c) y, rounded as the quotient is (P. Markstein, "Computation of
/// Elementary Functions on the IBM RISC System/6000 Processor", 1990). A
/// division takes as long as eight to sixteen products.
struct DivideByConstant : OpRewritePattern<arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whether that is the rounded quotient for all x, but where some of these
  /// numbers are too small. Let c be an odd number C times a power of two, with
  /// d = |1 - c y|. In units of the last place of the quotient, q is e = 2^24 d
  /// + 1/2 from it at most. If e C is at most 2^24, then x - q c is a number of
  /// 24 bits, and the sum before it is rounded is e d from the quotient at
  /// most. That is at least 1 / (2 C) from where its rounding changes.
  static bool isExact(float divisor) {
    const double size = std::abs(static_cast<double>(divisor));
    if (!(size > 0x1p-60 && size < 0x1p60))
      return false;
    int exponent = 0;
    auto odd =
        static_cast<uint32_t>(std::ldexp(std::frexp(size, &exponent), 24));
    odd >>= std::countr_zero(odd);
    const double reciprocal = static_cast<float>(1 / size);
    const double difference = std::abs(1 - size * reciprocal);
    const double distance = 0x1p24 * difference + 0.5;
    return distance * odd <= 0x1p24 && distance * difference * 2 * odd < 1;
  }

  LogicalResult matchAndRewrite(arith::DivFOp op,
                                PatternRewriter &rewriter) const override {
    FloatAttr number;
    DenseElementsAttr numbers;
    if (!isF32(op.getType()))
      return failure();
    if (matchPattern(op.getRhs(), m_Constant(&numbers)) && numbers.isSplat())
      number = numbers.getSplatValue<FloatAttr>();
    else if (!matchPattern(op.getRhs(), m_Constant(&number)))
      return failure();
    const float divisor = number.getValue().convertToFloat();
    int exponent = 0;
    // LLVM multiplies by the reciprocal of a power of two.
    if (std::abs(std::frexp(divisor, &exponent)) == 0.5f || !isExact(divisor))
      return failure();
    Arithmetic a{rewriter, op.getLoc(), op.getType()};
    Value x = op.getLhs(), reciprocal = a.constant(1 / double(divisor));
    Value quotient = a.mul(x, reciprocal);
    Value rest = a.fma(a.neg(quotient), op.getRhs(), x);
    Value rounded = a.fma(rest, reciprocal, quotient);
    // The rest of an infinite quotient is no number, and that of -0 is 0.
    rewriter.replaceOp(
        op, a.select(a.is(arith::CmpFPredicate::ONE, rest, a.constant(0)),
                     rounded, quotient));
    return success();
  }
};

struct ApproximateMath : pp::impl::ApproximateMathBase<ApproximateMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ApproximateErf, ApproximateExp, DivideByConstant>(
        &getContext());
    populateMathPolynomialApproximationPatterns(
        patterns, MathPolynomialApproximationOptions());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
