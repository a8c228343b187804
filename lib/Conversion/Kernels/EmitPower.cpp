//===- EmitPower.cpp - Logarithms and powers over their whole range -------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;
using namespace pp;

namespace {

/// Arithmetic on one floating-point type.
struct Numbers {
  OpBuilder &b;
  Location loc;
  FloatType type;
  IntegerType bits;

  Value constant(double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  }
  Value integer(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(bits, value));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value floor(Value x) { return math::FloorOp::create(b, loc, x); }
  Value is(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value is(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  Value toBits(Value x) { return arith::BitcastOp::create(b, loc, bits, x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, loc, type, x); }
  Value toFloat(Value x) { return arith::SIToFPOp::create(b, loc, type, x); }

  /// coefficients[0] + x (coefficients[1] + x (...)).
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      result = add(mul(result, x), constant(coefficient));
    return result;
  }
};

constexpr double ln2 = std::numbers::ln2;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// ln x for 0 < x < infinity in double precision: x = m 2^e with m around 1,
/// ln m = 2 artanh((m - 1) / (m + 1)). Within 1e-15 of ln x, or of 0.
Value emitLogOfNormal(Numbers &n, Value x) {
  constexpr int64_t mantissa = (int64_t{1} << 52) - 1;
  Value bits = n.toBits(x);
  Value fraction = arith::AndIOp::create(n.b, n.loc, bits, n.integer(mantissa));
  Value one = n.integer(0x3ff0000000000000);
  Value m = n.fromBits(arith::OrIOp::create(n.b, n.loc, fraction, one));
  Value e = arith::ShRUIOp::create(n.b, n.loc, bits, n.integer(52));
  Value exponent =
      n.toFloat(arith::SubIOp::create(n.b, n.loc, e, n.integer(1023)));
  Value isLarge =
      n.is(arith::CmpFPredicate::OGT, m, n.constant(std::numbers::sqrt2));
  m = n.select(isLarge, n.mul(m, n.constant(0.5)), m);
  exponent = n.select(isLarge, n.add(exponent, n.constant(1)), exponent);
  Value t = n.div(n.sub(m, n.constant(1)), n.add(m, n.constant(1)));
  Value series =
      n.polynomial(n.mul(t, t), {2, 2. / 3, 2. / 5, 2. / 7, 2. / 9, 2. / 11,
                                 2. / 13, 2. / 15, 2. / 17, 2. / 19});
  return n.add(n.mul(exponent, n.constant(ln2)), n.mul(t, series));
}

/// e^x in double precision for |x| < 700: x = k ln 2 + r, Taylor for r.
Value emitExpOfSmall(Numbers &n, Value x) {
  Value k = n.floor(n.add(n.mul(x, n.constant(1 / ln2)), n.constant(0.5)));
  // ln 2 in two parts, so that k times the first is exact.
  constexpr double high = 0.693147180369123816490,
                   low = 1.90821492927058770e-10;
  Value r =
      n.sub(n.sub(x, n.mul(k, n.constant(high))), n.mul(k, n.constant(low)));
  SmallVector<double> factors;
  double factorial = 1;
  for (int i = 0; i < 14; ++i) {
    factors.push_back(1 / factorial);
    factorial *= i + 1;
  }
  Value power = arith::FPToSIOp::create(n.b, n.loc, n.bits, k);
  power = arith::AddIOp::create(n.b, n.loc, power, n.integer(1023));
  Value scale =
      n.fromBits(arith::ShLIOp::create(n.b, n.loc, power, n.integer(52)));
  return n.mul(n.polynomial(r, factors), scale);
}

} // namespace

Value pp::emitLog(OpBuilder &b, Location loc, Value x) {
  if (!x.getType().isF32())
    return math::LogOp::create(b, loc, x);
  // A denormal number is its bits times 2^-149. Integers are used, since
  // threads that compute flush denormals.
  Numbers n{b, loc, cast<FloatType>(x.getType()), b.getI32Type()};
  Value bits = n.toBits(x);
  Value isDenormal =
      n.both(n.is(arith::CmpIPredicate::sgt, bits, n.integer(0)),
             n.is(arith::CmpIPredicate::slt, bits, n.integer(0x00800000)));
  Value scaled = n.select(isDenormal, n.toFloat(bits), x);
  Value log = math::LogOp::create(b, loc, scaled);
  return n.select(isDenormal, n.sub(log, n.constant(149 * ln2)), log);
}

/// C's pow, special cases included (C17, F.10.4.4), with double precision
/// inside: an f32 result is off by one unit in the last place at most.
Value pp::emitPower(OpBuilder &b, Location loc, Value base, Value exponent) {
  Type narrow = base.getType();
  Numbers n{b, loc, b.getF64Type(), b.getI64Type()};
  auto widen = [&](Value x) -> Value {
    return narrow.isF64() ? x : arith::ExtFOp::create(b, loc, n.type, x);
  };
  using enum arith::CmpFPredicate;
  Value x = widen(base), y = widen(exponent);
  Value zero = n.constant(0), one = n.constant(1);
  Value a = math::AbsFOp::create(b, loc, x);

  Value log = emitLogOfNormal(n, a);
  log = n.select(n.is(OEQ, a, zero), n.constant(-infinity), log);
  log = n.select(n.is(OEQ, a, n.constant(infinity)), a, log);
  log = n.select(n.is(UNO, a, a), a, log);
  Value p = n.mul(y, log);
  // 1 to the power of infinity.
  p = n.select(n.both(n.is(OEQ, a, one), n.is(ORD, y, y)), zero, p);
  Value isHuge = n.is(OGT, p, n.constant(700));
  Value isTiny = n.is(OLT, p, n.constant(-700));
  Value isNaN = n.is(UNO, p, p);
  // Where the result is known already, any number will do.
  Value known = arith::OrIOp::create(
      b, loc, isNaN, arith::OrIOp::create(b, loc, isHuge, isTiny));
  Value result = emitExpOfSmall(n, n.select(known, zero, p));
  result = n.select(isHuge, n.constant(infinity), result);
  result = n.select(isTiny, zero, result);
  result = n.select(isNaN, n.add(x, y), result);
  result = n.select(n.both(isNaN, n.is(ORD, x, y)), n.constant(std::nan("")),
                    result);

  // A negative base: the sign of an odd exponent, NaN for a broken one. Its
  // sign bit counts, for -0 too.
  Value isNegative = n.is(arith::CmpIPredicate::slt, n.toBits(x), n.integer(0));
  Value isWhole = n.is(OEQ, n.floor(y), y);
  Value half = n.mul(y, n.constant(0.5));
  Value isOdd = n.both(isWhole, n.is(ONE, n.floor(half), half));
  Value negated = arith::NegFOp::create(b, loc, result);
  result = n.select(n.both(isNegative, isOdd), negated, result);
  Value isBroken =
      n.both(n.both(n.is(OLT, x, zero), n.is(ONE, x, n.constant(-infinity))),
             n.is(ONE, n.floor(y), y));
  result = n.select(isBroken, n.constant(std::nan("")), result);

  Value isOne = n.is(OEQ, x, one), isEmpty = n.is(OEQ, y, zero);
  result = n.select(arith::OrIOp::create(b, loc, isOne, isEmpty), one, result);
  return narrow.isF64()
             ? result
             : Value(arith::TruncFOp::create(b, loc, narrow, result));
}
