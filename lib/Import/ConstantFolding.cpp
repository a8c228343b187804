//===- ConstantFolding.cpp - Evaluate shape and mask arithmetic -----------===//
//
// Exporters compute shapes in the graph: Shape, Gather, Concat, Mul, Slice ...
// With static shapes all of it is known at import. Handlers say what an ONNX
// operator means in operations of nn; here is what those compute.
//
//===----------------------------------------------------------------------===//

#include "Constant.h"
#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/Dialect/CommonFolders.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;
using llvm::APFloat;
using llvm::APInt;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

/// Unsigned numbers of 64 bits wrap around.
static int64_t toInteger(const APInt &value, Type type) {
  return type.isInteger(1) || type.isUnsignedInteger()
             ? static_cast<int64_t>(value.getZExtValue())
             : value.getSExtValue();
}

static double toNumber(const APInt &value, Type type) {
  return value.roundToDouble(!type.isInteger(1) && !type.isUnsignedInteger());
}

Constant Constant::list(Builder &builder, ArrayRef<int64_t> integers) {
  auto type = RankedTensorType::get(static_cast<int64_t>(integers.size()),
                                    builder.getI64Type());
  return Constant(DenseElementsAttr::get(type, integers));
}

FailureOr<int64_t> Constant::integer(int64_t index) const {
  if (!elements || isFloat() || index < 0 || index >= size())
    return failure();
  return toInteger(elements.getValues<APInt>()[index], getElementType());
}

FailureOr<double> Constant::number(int64_t index) const {
  if (!elements || index < 0 || index >= size())
    return failure();
  if (!isFloat())
    return toNumber(elements.getValues<APInt>()[index], getElementType());
  return elements.getValues<APFloat>()[index].convertToDouble();
}

FailureOr<SmallVector<int64_t>> Constant::integers() const {
  if (!elements || isFloat() || size() > maxConstantElements)
    return failure();
  return llvm::map_to_vector(
      elements.getValues<APInt>(),
      [&](const APInt &value) { return toInteger(value, getElementType()); });
}

SmallVector<double> Constant::numbers() const {
  SmallVector<double> result;
  for (int64_t index = 0; index < size(); ++index)
    result.push_back(*number(index));
  return result;
}

int64_t pp::towardsZero(double value) {
  llvm::APSInt result(64, /*isUnsigned=*/false);
  bool isExact;
  APFloat(value).convertToInteger(result, APFloat::rmTowardZero, &isExact);
  return result.getSExtValue();
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

namespace {

using Operands = ArrayRef<Attribute>;
/// Where to find an element of a result in a row-major operand.
using Source = llvm::function_ref<int64_t(ArrayRef<int64_t>)>;

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

template <typename Number>
Attribute moveAs(
    ArrayRef<DenseElementsAttr> from, RankedTensorType type,
    llvm::function_ref<std::pair<int64_t, int64_t>(ArrayRef<int64_t>)> source) {
  SmallVector<decltype(from.front().getValues<Number>())> values;
  for (DenseElementsAttr elements : from)
    values.push_back(elements.getValues<Number>());
  SmallVector<int64_t> strides = computeSuffixProduct(type.getShape());
  SmallVector<Number> moved;
  for (int64_t index = 0; index < type.getNumElements(); ++index) {
    auto [operand, place] = source(delinearize(index, strides));
    moved.push_back(values[operand][place]);
  }
  return DenseElementsAttr::get(type, moved);
}

/// A tensor whose elements are those of the operands that `source` names, by
/// operand and place in it.
Attribute move(
    Operands operands, RankedTensorType type,
    llvm::function_ref<std::pair<int64_t, int64_t>(ArrayRef<int64_t>)> source) {
  SmallVector<DenseElementsAttr> from;
  for (Attribute operand : operands)
    from.push_back(cast<DenseElementsAttr>(operand));
  return isa<FloatType>(type.getElementType())
             ? moveAs<APFloat>(from, type, source)
             : moveAs<APInt>(from, type, source);
}

/// The same for one operand.
Attribute pick(Attribute operand, RankedTensorType type, Source source) {
  return move(operand, type, [&](ArrayRef<int64_t> at) {
    return std::pair<int64_t, int64_t>(0, source(at));
  });
}

/// Rounds to the precision of `like`.
APFloat rounded(double value, const llvm::fltSemantics &semantics) {
  APFloat result(value);
  bool losesInfo;
  result.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return result;
}

bool areFloats(Operands x) {
  return isa<FloatType>(cast<DenseElementsAttr>(x[0]).getElementType());
}

/// Functions that only floating-point numbers have. What operations take is
/// verified later.
Attribute unary(Operands x, double (*function)(double)) {
  if (!areFloats(x))
    return {};
  return constFoldUnaryOp<FloatAttr, APFloat, void>(x, [&](const APFloat &a) {
    return rounded(function(a.convertToDouble()), a.getSemantics());
  });
}

/// One rule for floating-point numbers and one for integers.
template <typename Floats, typename Integers>
Attribute unary(Operands x, Floats floats, Integers integers) {
  if (areFloats(x))
    return constFoldUnaryOp<FloatAttr, APFloat, void>(x, floats);
  return constFoldUnaryOp<IntegerAttr, APInt, void>(x, integers);
}

template <typename Floats, typename Integers>
Attribute binary(Operands x, Floats floats, Integers integers) {
  if (areFloats(x))
    return constFoldBinaryOp<FloatAttr, APFloat, void>(x, floats);
  return constFoldBinaryOpConditional<IntegerAttr, APInt, void>(x, integers);
}

bool areUnsigned(Operands x) {
  return cast<DenseElementsAttr>(x[0]).getElementType().isUnsignedInteger();
}

template <typename Integers> Attribute logic(Operands x, Integers integers) {
  return constFoldBinaryOp<IntegerAttr, APInt, void>(x, integers);
}

bool holds(Comparison comparison, bool less, bool equal, bool greater) {
  switch (comparison) {
  case Comparison::eq:
    return equal;
  case Comparison::ne:
    return !equal;
  case Comparison::lt:
    return less;
  case Comparison::le:
    return less || equal;
  case Comparison::gt:
    return greater;
  case Comparison::ge:
    return greater || equal;
  }
  llvm_unreachable("no other comparison");
}

Attribute compare(Comparison comparison, Operands x, Type type) {
  if (areFloats(x))
    return constFoldBinaryOp<FloatAttr, APFloat, void, IntegerAttr>(
        x, type, [&](const APFloat &a, const APFloat &b) {
          auto order = a.compare(b);
          return APInt(1, holds(comparison, order == APFloat::cmpLessThan,
                                order == APFloat::cmpEqual,
                                order == APFloat::cmpGreaterThan));
        });
  return constFoldBinaryOp<IntegerAttr, APInt, void>(
      x, type, [&](const APInt &a, const APInt &b) {
        return APInt(1, areUnsigned(x)
                            ? holds(comparison, a.ult(b), a == b, a.ugt(b))
                            : holds(comparison, a.slt(b), a == b, a.sgt(b)));
      });
}

/// Beyond the integers with a sign; nothing for other numbers and types.
std::optional<APInt> toUnsigned64(const APFloat &value, Type to) {
  if (!to.isUnsignedInteger(64) || value.isNegative() || !value.isFinite())
    return std::nullopt;
  llvm::APSInt result(64, /*isUnsigned=*/true);
  bool isExact;
  value.convertToInteger(result, APFloat::rmTowardZero, &isExact);
  return result;
}

Attribute convert(Operands x, RankedTensorType type) {
  Type to = type.getElementType();
  Type from = cast<DenseElementsAttr>(x[0]).getElementType();
  auto toFloat = dyn_cast<FloatType>(to);
  if (areFloats(x) && toFloat)
    return constFoldUnaryOp<FloatAttr, APFloat, void>(
        x, type, [&](const APFloat &a) {
          return rounded(a.convertToDouble(), toFloat.getFloatSemantics());
        });
  if (areFloats(x))
    return constFoldUnaryOp<FloatAttr, APFloat, void, IntegerAttr>(
        x, type, [&](const APFloat &a) {
          return to.isInteger(1)
                     ? APInt(1, !a.isZero())
                     : toUnsigned64(a, to).value_or(
                           APInt(64, towardsZero(a.convertToDouble()), true)
                               .trunc(to.getIntOrFloatBitWidth()));
        });
  if (toFloat)
    return constFoldUnaryOp<IntegerAttr, APInt, void, FloatAttr>(
        x, type, [&](const APInt &a) {
          APFloat result(toFloat.getFloatSemantics());
          result.convertFromAPInt(
              a, !from.isInteger(1) && !from.isUnsignedInteger(),
              APFloat::rmNearestTiesToEven);
          return result;
        });
  return constFoldUnaryOp<IntegerAttr, APInt, void>(
      x, type, [&](const APInt &a) {
        return to.isInteger(1)
                   ? APInt(1, !a.isZero())
                   : APInt(to.getIntOrFloatBitWidth(), toInteger(a, from),
                           /*isSigned=*/true,
                           /*implicitTrunc=*/true);
      });
}

Attribute broadcast(BroadcastOp op, Attribute x) {
  SmallVector<int64_t> strides =
      computeSuffixProduct(typeOf(op.getInput()).getShape());
  return pick(x, op.getOutput().getType(), [&](ArrayRef<int64_t> at) {
    int64_t place = 0;
    for (auto [axis, stride] : llvm::zip(op.getAxes(), strides))
      place += at[axis] * stride;
    return place;
  });
}

Attribute transpose(TransposeOp op, Attribute x) {
  SmallVector<int64_t> strides =
      computeSuffixProduct(op.getInput().getType().getShape());
  return pick(x, op.getOutput().getType(), [&](ArrayRef<int64_t> at) {
    int64_t place = 0;
    for (auto [to, from] : llvm::enumerate(op.getPermutation()))
      place += at[to] * strides[from];
    return place;
  });
}

Attribute slice(SliceOp op, Attribute x) {
  SmallVector<int64_t> strides =
      computeSuffixProduct(op.getInput().getType().getShape());
  return pick(x, op.getOutput().getType(), [&](ArrayRef<int64_t> at) {
    int64_t place = 0;
    for (auto [axis, index] : llvm::enumerate(at))
      place += (op.getStarts()[axis] + index * op.getStrides()[axis]) *
               strides[axis];
    return place;
  });
}

Attribute concat(ConcatOp op, Operands x) {
  int64_t axis = op.getAxis();
  return move(x, op.getOutput().getType(), [&](ArrayRef<int64_t> at) {
    SmallVector<int64_t> inside(at);
    int64_t operand = 0;
    while (inside[axis] >= typeOf(op.getInputs()[operand]).getDimSize(axis))
      inside[axis] -= typeOf(op.getInputs()[operand++]).getDimSize(axis);
    ArrayRef<int64_t> shape = typeOf(op.getInputs()[operand]).getShape();
    return std::pair<int64_t, int64_t>(
        operand, linearize(inside, computeSuffixProduct(shape)));
  });
}

/// The element of the input that belongs to element `at` of what a gather gives
/// or a scatter puts, which have the same shape.
template <typename Op>
int64_t indexedElement(Op op, ArrayRef<int64_t> chosen, ArrayRef<int64_t> at) {
  auto input = op.getInput().getType();
  ArrayRef<int64_t> shape = op.getIndices().getType().getShape();
  int64_t axis = op.getAxis(), shared = op.getShared();
  int64_t count = static_cast<int64_t>(shape.size()) - shared;
  SmallVector<int64_t> place(at.take_front(shared));
  llvm::append_range(place, at.slice(axis, count));
  int64_t index = chosen[linearize(place, computeSuffixProduct(shape))];
  int64_t size = input.getDimSize(axis);
  SmallVector<int64_t> inside(at.take_front(axis));
  inside.push_back(
      std::clamp<int64_t>(index < 0 ? index + size : index, 0, size - 1));
  llvm::append_range(inside, at.drop_front(axis + count));
  return linearize(inside, computeSuffixProduct(input.getShape()));
}

Attribute gather(GatherOp op, Operands x) {
  SmallVector<int64_t> chosen =
      *Constant(cast<DenseElementsAttr>(x[1])).integers();
  if (op.getInput().getType().getDimSize(op.getAxis()) == 0)
    return {};
  return pick(x[0], op.getOutput().getType(), [&](ArrayRef<int64_t> at) {
    return indexedElement(op, chosen, at);
  });
}

Attribute scatter(ScatterOp op, Operands x) {
  auto type = op.getOutput().getType();
  auto updates = op.getUpdates().getType();
  if (op.getCombine() || type.getNumElements() == 0)
    return {};
  SmallVector<int64_t> chosen =
      *Constant(cast<DenseElementsAttr>(x[1])).integers();
  SmallVector<int64_t> strides = computeSuffixProduct(type.getShape()),
                       from = computeSuffixProduct(updates.getShape());
  // Of updates of the same element the last one counts.
  SmallVector<std::optional<int64_t>> update(type.getNumElements());
  for (int64_t place = 0; place < updates.getNumElements(); ++place)
    update[indexedElement(op, chosen, delinearize(place, from))] = place;
  return move({x[0], x[2]}, type, [&](ArrayRef<int64_t> at) {
    int64_t place = linearize(at, strides);
    return update[place] ? std::pair<int64_t, int64_t>(1, *update[place])
                         : std::pair<int64_t, int64_t>(0, place);
  });
}

Attribute select(SelectOp op, Operands x) {
  auto condition = cast<DenseElementsAttr>(x[0]).getValues<bool>();
  SmallVector<int64_t> strides =
      computeSuffixProduct(op.getOutput().getType().getShape());
  return move(x.drop_front(), op.getOutput().getType(),
              [&](ArrayRef<int64_t> at) {
                int64_t place = linearize(at, strides);
                return std::pair<int64_t, int64_t>(!condition[place], place);
              });
}

Attribute reduceIntegers(
    ReduceOp op, DenseElementsAttr x, const APInt &initial,
    llvm::function_ref<APInt(const APInt &, const APInt &)> combine) {
  auto input = op.getInput().getType();
  SmallVector<int64_t> from = computeSuffixProduct(input.getShape());
  SmallVector<int64_t> to =
      computeSuffixProduct(op.getOutput().getType().getShape());
  SmallVector<APInt> results(op.getOutput().getType().getNumElements(),
                             initial);
  int64_t index = 0;
  for (const APInt &value : x.getValues<APInt>()) {
    SmallVector<int64_t> kept;
    for (auto [axis, at] : llvm::enumerate(delinearize(index++, from)))
      if (!llvm::is_contained(op.getAxes(), axis))
        kept.push_back(at);
    APInt &result = results[linearize(kept, to)];
    result = combine(result, value);
  }
  return DenseElementsAttr::get(op.getOutput().getType(), results);
}

/// Of integers; sums and products of floating-point numbers are left to
/// kernels, which know how they are rounded.
Attribute reduce(ReduceOp op, Attribute x) {
  auto elements = cast<DenseElementsAttr>(x);
  if (isa<FloatType>(elements.getElementType()))
    return {};
  unsigned width = elements.getElementType().getIntOrFloatBitWidth();
  bool isUnsigned = elements.getElementType().isUnsignedInteger();
  switch (op.getReduction()) {
  case Reduction::sum:
    return reduceIntegers(op, elements, APInt::getZero(width),
                          [](const APInt &a, const APInt &b) { return a + b; });
  case Reduction::product:
    return reduceIntegers(op, elements, APInt(width, 1),
                          [](const APInt &a, const APInt &b) { return a * b; });
  case Reduction::max:
    return reduceIntegers(op, elements,
                          isUnsigned ? APInt::getMinValue(width)
                                     : APInt::getSignedMinValue(width),
                          [&](const APInt &a, const APInt &b) {
                            return isUnsigned ? llvm::APIntOps::umax(a, b)
                                              : llvm::APIntOps::smax(a, b);
                          });
  case Reduction::min:
    return reduceIntegers(op, elements,
                          isUnsigned ? APInt::getMaxValue(width)
                                     : APInt::getSignedMaxValue(width),
                          [&](const APInt &a, const APInt &b) {
                            return isUnsigned ? llvm::APIntOps::umin(a, b)
                                              : llvm::APIntOps::smin(a, b);
                          });
  }
  llvm_unreachable("no other reduction");
}

Attribute cumSum(CumSumOp op, Attribute x) {
  auto elements = cast<DenseElementsAttr>(x);
  auto type = op.getOutput().getType();
  if (isa<FloatType>(type.getElementType()))
    return {};
  auto values = elements.getValues<APInt>();
  SmallVector<int64_t> strides = computeSuffixProduct(type.getShape());
  int64_t axis = op.getAxis(), size = type.getDimSize(axis);
  int64_t step = op.getReverse() ? -1 : 1, count = type.getNumElements();
  SmallVector<APInt> results(
      count, APInt::getZero(type.getElementType().getIntOrFloatBitWidth()));
  // Each element after the one that it adds to.
  for (int64_t turn = 0; turn < count; ++turn) {
    int64_t index = op.getReverse() ? count - 1 - turn : turn;
    int64_t place = delinearize(index, strides)[axis] - step;
    int64_t last = index - step * strides[axis];
    if (place >= 0 && place < size)
      results[index] = results[last] + values[op.getExclusive() ? last : index];
    else if (!op.getExclusive())
      results[index] = values[index];
  }
  return DenseElementsAttr::get(type, results);
}

Attribute iota(IotaOp op) {
  auto type = op.getOutput().getType();
  auto element = dyn_cast<IntegerType>(type.getElementType());
  if (!element)
    return {};
  SmallVector<int64_t> strides = computeSuffixProduct(type.getShape());
  SmallVector<APInt> values;
  for (int64_t index = 0; index < type.getNumElements(); ++index)
    values.push_back(APInt(element.getWidth(),
                           delinearize(index, strides)[op.getAxis()],
                           /*isSigned=*/true));
  return DenseElementsAttr::get(type, values);
}

/// What one operation makes of constants; null if nothing is known.
Attribute evaluateOperation(Operation *operation, Operands x) {
  return llvm::TypeSwitch<Operation *, Attribute>(operation)
      .Case([&](ConstantOp op) { return op.getValue(); })
      .Case([&](ReshapeOp op) {
        return cast<DenseElementsAttr>(x[0]).reshape(op.getOutput().getType());
      })
      .Case([&](BroadcastOp op) { return broadcast(op, x[0]); })
      .Case([&](TransposeOp op) { return transpose(op, x[0]); })
      .Case([&](SliceOp op) { return slice(op, x[0]); })
      .Case([&](ConcatOp op) { return concat(op, x); })
      .Case([&](GatherOp op) { return gather(op, x); })
      .Case([&](ScatterOp op) { return scatter(op, x); })
      .Case([&](ReduceOp op) { return reduce(op, x[0]); })
      .Case([&](CumSumOp op) { return cumSum(op, x[0]); })
      .Case([&](IotaOp op) { return iota(op); })
      .Case([&](RemOp) {
        return binary(
            x,
            [](APFloat a, const APFloat &b) {
              (void)a.mod(b);
              return a;
            },
            [&](const APInt &a, const APInt &b) -> std::optional<APInt> {
              if (b.isZero())
                return std::nullopt;
              return areUnsigned(x) ? a.urem(b) : a.srem(b);
            });
      })
      .Case([&](RoundOp) { return unary(x, std::nearbyint); })
      .Case([&](SelectOp op) { return select(op, x); })
      .Case([&](CastOp op) { return convert(x, op.getOutput().getType()); })
      .Case([&](BitcastOp op) -> Attribute {
        return cast<DenseElementsAttr>(x[0]).bitcast(
            op.getOutput().getType().getElementType());
      })
      .Case([&](CompareOp op) {
        return compare(op.getComparison(), x, op.getOutput().getType());
      })
      .Case([&](AddOp) {
        return binary(
            x, [](const APFloat &a, const APFloat &b) { return a + b; },
            [](const APInt &a, const APInt &b) -> std::optional<APInt> {
              return a + b;
            });
      })
      .Case([&](SubOp) {
        return binary(
            x, [](const APFloat &a, const APFloat &b) { return a - b; },
            [](const APInt &a, const APInt &b) -> std::optional<APInt> {
              return a - b;
            });
      })
      .Case([&](MulOp) {
        return binary(
            x, [](const APFloat &a, const APFloat &b) { return a * b; },
            [](const APInt &a, const APInt &b) -> std::optional<APInt> {
              return a * b;
            });
      })
      .Case([&](DivOp) {
        return binary(
            x, [](const APFloat &a, const APFloat &b) { return a / b; },
            [&](const APInt &a, const APInt &b) -> std::optional<APInt> {
              if (b.isZero())
                return std::nullopt;
              return areUnsigned(x) ? a.udiv(b) : a.sdiv(b);
            });
      })
      .Case([&](MaximumOp) {
        return binary(
            x,
            [](const APFloat &a, const APFloat &b) {
              return llvm::maximum(a, b);
            },
            [&](const APInt &a, const APInt &b) {
              return std::optional<APInt>(areUnsigned(x)
                                              ? llvm::APIntOps::umax(a, b)
                                              : llvm::APIntOps::smax(a, b));
            });
      })
      .Case([&](MinimumOp) {
        return binary(
            x,
            [](const APFloat &a, const APFloat &b) {
              return llvm::minimum(a, b);
            },
            [&](const APInt &a, const APInt &b) {
              return std::optional<APInt>(areUnsigned(x)
                                              ? llvm::APIntOps::umin(a, b)
                                              : llvm::APIntOps::smin(a, b));
            });
      })
      .Case([&](PowOp) -> Attribute {
        if (!areFloats(x))
          return {};
        return constFoldBinaryOp<FloatAttr, APFloat, void>(
            x, [](const APFloat &a, const APFloat &b) {
              return rounded(std::pow(a.convertToDouble(), b.convertToDouble()),
                             a.getSemantics());
            });
      })
      .Case([&](AndOp) {
        return logic(x, [](const APInt &a, const APInt &b) { return a & b; });
      })
      .Case([&](OrOp) {
        return logic(x, [](const APInt &a, const APInt &b) { return a | b; });
      })
      .Case([&](XorOp) {
        return logic(x, [](const APInt &a, const APInt &b) { return a ^ b; });
      })
      .Case([&](NotOp) {
        return constFoldUnaryOp<IntegerAttr, APInt, void>(
            x, [](const APInt &a) { return ~a; });
      })
      .Case([&](NegOp) {
        return unary(
            x, [](const APFloat &a) { return -a; },
            [](const APInt &a) { return -a; });
      })
      .Case([&](AbsOp) {
        return unary(
            x, [](const APFloat &a) { return abs(a); },
            [&](const APInt &a) { return areUnsigned(x) ? a : a.abs(); });
      })
      .Case([&](ReluOp) {
        return unary(x, [](double a) { return a <= 0 ? 0 : a; });
      })
      .Case([&](FloorOp) { return unary(x, std::floor); })
      .Case([&](CeilOp) { return unary(x, std::ceil); })
      .Case([&](SqrtOp) { return unary(x, std::sqrt); })
      .Case([&](ExpOp) { return unary(x, std::exp); })
      .Case([&](LogOp) { return unary(x, std::log); })
      .Default([](Operation *) { return Attribute(); });
}

} // namespace

Constant pp::evaluate(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1 || isa<ParameterOp>(op) ||
      typeOf(value).getNumElements() > maxConstantElements)
    return Constant();
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands()) {
    Constant known = evaluate(operand);
    if (!known)
      return Constant();
    operands.push_back(known.getElements());
  }
  return Constant(
      dyn_cast_or_null<DenseElementsAttr>(evaluateOperation(op, operands)));
}
