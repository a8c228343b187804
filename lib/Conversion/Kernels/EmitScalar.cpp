//===- EmitScalar.cpp - One element of an elementwise operation -----------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numbers>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

struct Scalars {
  OpBuilder &b;
  Location loc;
  /// Of the operands, in the operation; what computes has no such types.
  bool isUnsigned;

  Value constant(Type type, double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }

  Value gelu(Value x, bool approximate) {
    Type type = x.getType();
    Value half = constant(type, 0.5), one = constant(type, 1), inner;
    if (approximate) {
      Value cube = mul(mul(x, x), x);
      Value sum = add(x, mul(constant(type, 0.044715), cube));
      Value argument = mul(
          constant(type, std::numbers::sqrt2 * std::numbers::inv_sqrtpi), sum);
      inner = math::TanhOp::create(b, loc, argument);
    } else {
      inner = math::ErfOp::create(
          b, loc, mul(x, constant(type, 1 / std::numbers::sqrt2)));
    }
    return mul(mul(half, x), add(one, inner));
  }

  Value sign(Value x) {
    Value zero = constant(x.getType(), 0);
    Value positive = compare(arith::CmpFPredicate::OGT, x, zero);
    Value negative = compare(arith::CmpFPredicate::OLT, x, zero);
    return select(positive, constant(x.getType(), 1),
                  select(negative, constant(x.getType(), -1), x));
  }

  /// A NaN passes, as it does in PyTorch.
  Value relu(Value x) {
    Value zero = constant(x.getType(), 0);
    return select(compare(arith::CmpFPredicate::OLE, x, zero), zero, x);
  }

  Value compareNumbers(Comparison comparison, Value x, Value y) {
    if (isa<FloatType>(x.getType())) {
      constexpr arith::CmpFPredicate predicates[] = {
          arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE,
          arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
          arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
      return compare(predicates[static_cast<int>(comparison)], x, y);
    }
    constexpr arith::CmpIPredicate predicates[][6] = {
        {arith::CmpIPredicate::eq, arith::CmpIPredicate::ne,
         arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
         arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge},
        {arith::CmpIPredicate::eq, arith::CmpIPredicate::ne,
         arith::CmpIPredicate::ult, arith::CmpIPredicate::ule,
         arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge}};
    return arith::CmpIOp::create(
        b, loc, predicates[isUnsigned][static_cast<int>(comparison)], x, y);
  }

  /// `target` with its sign.
  Value cast(Value x, Type target) {
    Type from = x.getType(), to = getScalarType(target);
    if (from == to)
      return x;
    unsigned width = from.getIntOrFloatBitWidth();
    unsigned newWidth = to.getIntOrFloatBitWidth();
    bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
    // Between the two kinds of 16 bits.
    if (fromFloat && toFloat && width == newWidth)
      return cast(arith::ExtFOp::create(b, loc, b.getF32Type(), x), to);
    if (fromFloat && toFloat)
      return width < newWidth ? Value(arith::ExtFOp::create(b, loc, to, x))
                              : Value(arith::TruncFOp::create(b, loc, to, x));
    if (to.isInteger(1)) {
      Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(from));
      return fromFloat ? compare(arith::CmpFPredicate::UNE, x, zero)
                       : Value(arith::CmpIOp::create(
                             b, loc, arith::CmpIPredicate::ne, x, zero));
    }
    if (fromFloat && target.isUnsignedInteger() && newWidth == 64)
      return toUnsigned(x, to);
    if (fromFloat) {
      // Of numbers that have too many bits for `to` the last ones remain.
      bool fits =
          newWidth == 64 || (newWidth == 32 && !target.isUnsignedInteger());
      Type wide = fits ? to : Type(b.getIntegerType(newWidth == 32 ? 64 : 32));
      Value integer = arith::FPToSIOp::create(b, loc, wide, x);
      return fits ? integer : arith::TruncIOp::create(b, loc, to, integer);
    }
    bool hasNoSign = width == 1 || isUnsigned;
    if (toFloat)
      return hasNoSign ? Value(arith::UIToFPOp::create(b, loc, to, x))
                       : Value(arith::SIToFPOp::create(b, loc, to, x));
    if (width > newWidth)
      return arith::TruncIOp::create(b, loc, to, x);
    return hasNoSign ? Value(arith::ExtUIOp::create(b, loc, to, x))
                     : Value(arith::ExtSIOp::create(b, loc, to, x));
  }

  /// Negative numbers wrap around.
  Value toUnsigned(Value x, Type to) {
    Value zero = constant(x.getType(), 0);
    return select(compare(arith::CmpFPredicate::OLT, x, zero),
                  arith::FPToSIOp::create(b, loc, to, x),
                  arith::FPToUIOp::create(b, loc, to, x));
  }

  /// The processor traps at x / 0, here 0 as in numpy, and at the lowest number
  /// divided by -1, which stays what it is.
  Value divideIntegers(Value x, Value y) {
    if (isUnsigned) {
      Type type = x.getType();
      Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
      Value one = arith::ConstantOp::create(b, loc, b.getOneAttr(type));
      Value isZero =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y, zero);
      Value quotient =
          arith::DivUIOp::create(b, loc, x, select(isZero, one, y));
      return select(isZero, zero, quotient);
    }
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc,
                                       b.getIntegerAttr(x.getType(), value));
    };
    auto is = [&](Value value) -> Value {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y, value);
    };
    Value zero = constant(0), isZero = is(zero), isMinusOne = is(constant(-1));
    Value traps = arith::OrIOp::create(b, loc, isZero, isMinusOne);
    Value quotient =
        arith::DivSIOp::create(b, loc, x, select(traps, constant(1), y));
    Value negated = arith::SubIOp::create(b, loc, zero, x);
    return select(isZero, zero, select(isMinusOne, negated, quotient));
  }

  template <typename FloatOp, typename IntOp> Value binary(ValueRange x) {
    if (isa<FloatType>(x[0].getType()))
      return FloatOp::create(b, loc, x[0], x[1]);
    return IntOp::create(b, loc, x[0], x[1]);
  }
};

} // namespace

Value pp::emitScalar(OpBuilder &b, Location loc, Operation *op, ValueRange x) {
  bool isUnsigned =
      op->getNumOperands() > 0 &&
      getElementTypeOrSelf(op->getOperand(0).getType()).isUnsignedInteger();
  Scalars s{b, loc, isUnsigned};
  Type type = x.empty() ? Type() : x[0].getType();
  bool isFloat = type && isa<FloatType>(type);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](NegOp) -> Value {
        if (isFloat)
          return arith::NegFOp::create(b, loc, x[0]);
        Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
        return arith::SubIOp::create(b, loc, zero, x[0]);
      })
      .Case([&](AbsOp) -> Value {
        if (isUnsigned)
          return x[0];
        return isFloat ? Value(math::AbsFOp::create(b, loc, x[0]))
                       : Value(math::AbsIOp::create(b, loc, x[0]));
      })
      .Case([&](CopyOp) -> Value { return x[0]; })
      .Case([&](SignOp) { return s.sign(x[0]); })
      .Case(
          [&](FloorOp) -> Value { return math::FloorOp::create(b, loc, x[0]); })
      .Case([&](CeilOp) -> Value { return math::CeilOp::create(b, loc, x[0]); })
      .Case([&](RoundOp) -> Value {
        return math::RoundEvenOp::create(b, loc, x[0]);
      })
      .Case([&](ExpOp) -> Value { return math::ExpOp::create(b, loc, x[0]); })
      .Case(
          [&](Expm1Op) -> Value { return math::ExpM1Op::create(b, loc, x[0]); })
      .Case(
          [&](Log1pOp) -> Value { return math::Log1pOp::create(b, loc, x[0]); })
      .Case([&](AtanOp) -> Value { return math::AtanOp::create(b, loc, x[0]); })
      .Case([&](LogOp) -> Value { return emitLog(b, loc, x[0]); })
      .Case([&](SqrtOp) -> Value { return math::SqrtOp::create(b, loc, x[0]); })
      .Case([&](RsqrtOp) {
        return s.div(s.constant(type, 1), math::SqrtOp::create(b, loc, x[0]));
      })
      .Case([&](SinOp) -> Value { return math::SinOp::create(b, loc, x[0]); })
      .Case([&](CosOp) -> Value { return math::CosOp::create(b, loc, x[0]); })
      .Case([&](TanhOp) -> Value { return math::TanhOp::create(b, loc, x[0]); })
      .Case([&](LogisticOp) {
        Value negative = arith::NegFOp::create(b, loc, x[0]);
        Value one = s.constant(type, 1);
        return s.div(one, s.add(one, math::ExpOp::create(b, loc, negative)));
      })
      .Case([&](SoftplusOp) {
        // max(x, 0) + ln(1 + e^-|x|): no number is too large.
        Value magnitude = math::AbsFOp::create(b, loc, x[0]);
        Value negative = arith::NegFOp::create(b, loc, magnitude);
        Value tail = math::Log1pOp::create(
            b, loc, math::ExpOp::create(b, loc, negative));
        return s.add(s.relu(x[0]), tail);
      })
      .Case([&](ErfOp) -> Value { return math::ErfOp::create(b, loc, x[0]); })
      .Case([&](ReluOp) { return s.relu(x[0]); })
      .Case([&](GeluOp gelu) { return s.gelu(x[0], gelu.getApproximate()); })
      .Case([&](StopGradientOp) { return x[0]; })
      .Case([&](NotOp) -> Value {
        auto ones = APInt::getAllOnes(type.getIntOrFloatBitWidth());
        return arith::XOrIOp::create(
            b, loc, x[0],
            arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, ones)));
      })
      .Case([&](AddOp) { return s.binary<arith::AddFOp, arith::AddIOp>(x); })
      .Case([&](SubOp) { return s.binary<arith::SubFOp, arith::SubIOp>(x); })
      .Case([&](MulOp) { return s.binary<arith::MulFOp, arith::MulIOp>(x); })
      .Case([&](DivOp) {
        return isFloat ? s.div(x[0], x[1]) : s.divideIntegers(x[0], x[1]);
      })
      .Case([&](MaximumOp) -> Value {
        if (isUnsigned)
          return arith::MaxUIOp::create(b, loc, x[0], x[1]);
        return s.binary<arith::MaximumFOp, arith::MaxSIOp>(x);
      })
      .Case([&](MinimumOp) -> Value {
        if (isUnsigned)
          return arith::MinUIOp::create(b, loc, x[0], x[1]);
        return s.binary<arith::MinimumFOp, arith::MinSIOp>(x);
      })
      .Case([&](RemOp) -> Value {
        if (isFloat)
          return arith::RemFOp::create(b, loc, x[0], x[1]);
        Value product =
            arith::MulIOp::create(b, loc, s.divideIntegers(x[0], x[1]), x[1]);
        return arith::SubIOp::create(b, loc, x[0], product);
      })
      .Case([&](PowOp) -> Value { return emitPower(b, loc, x[0], x[1]); })
      .Case([&](AndOp) -> Value {
        return arith::AndIOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](OrOp) -> Value {
        return arith::OrIOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](XorOp) -> Value {
        return arith::XOrIOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](CompareOp compare) {
        return s.compareNumbers(compare.getComparison(), x[0], x[1]);
      })
      .Case([&](SelectOp) { return s.select(x[0], x[1], x[2]); })
      .Case([&](CastOp cast) {
        return s.cast(x[0], cast.getOutput().getType().getElementType());
      })
      .Case([&](BitcastOp bits) -> Value {
        Type to = getScalarType(bits.getOutput().getType().getElementType());
        return to == type ? x[0] : arith::BitcastOp::create(b, loc, to, x[0]);
      })
      .Default([](Operation *) { return Value(); });
}
