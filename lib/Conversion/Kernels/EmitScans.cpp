//===- EmitScans.cpp - Operations that walk along an axis -----------------===//
//
// Cumulative sums and the order of rows: a loop nest over what is independent
// of each other, whose body walks along the axis. It stores all results along
// the axis but the last one, which it yields.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "KernelMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A tensor as what is before an axis, the axis, and what is behind it.
SmallVector<int64_t> aroundAxis(RankedTensorType type, int64_t axis) {
  SmallVector<int64_t> sizes = {1, type.getDimSize(axis), 1};
  for (auto [index, size] : llvm::enumerate(type.getShape()))
    if (static_cast<int64_t>(index) != axis)
      sizes[static_cast<int64_t>(index) < axis ? 0 : 2] *= size;
  return sizes;
}

/// A loop nest over what is before and behind the middle axis of `output`;
/// `body` gets both indices, and returns what is at `last` of that axis.
void forEachLine(
    OpBuilder &builder, Location loc, Value output, int64_t last,
    function_ref<Value(OpBuilder &, Value before, Value behind)> body) {
  auto type = cast<MemRefType>(output.getType());
  ArrayRef<int64_t> shape = type.getShape();
  auto numbers = [&](ArrayRef<int64_t> values) {
    return llvm::map_to_vector(values, [&](int64_t value) -> OpFoldResult {
      return builder.getIndexAttr(value);
    });
  };
  SmallVector<OpFoldResult> offsets = numbers({0, last, 0});
  SmallVector<OpFoldResult> sizes = numbers({shape[0], 1, shape[2]});
  SmallVector<OpFoldResult> strides = numbers({1, 1, 1});
  auto viewType =
      cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
          {shape[0], shape[2]}, type, offsets, sizes, strides));
  Value view = memref::SubViewOp::create(builder, loc, viewType, output,
                                         offsets, sizes, strides);
  SmallVector<AffineMap> maps = {builder.getMultiDimIdentityMap(2)};
  SmallVector<utils::IteratorType> iterators(2, utils::IteratorType::parallel);
  linalg::GenericOp::create(
      builder, loc, TypeRange(), ValueRange(), view, maps, iterators,
      [&](OpBuilder &inner, Location, ValueRange) {
        Value before = linalg::IndexOp::create(inner, loc, 0);
        Value behind = linalg::IndexOp::create(inner, loc, 1);
        linalg::YieldOp::create(inner, loc, body(inner, before, behind));
      });
}

/// The order of the elements of a line.
class Order {
public:
  Order(OpBuilder &b, Location loc, bool smallest, bool isUnsigned)
      : b(b), loc(loc), smallest(smallest), isUnsigned(isUnsigned) {}

  Value number(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value opposite(Value x) {
    Value one = arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
    return arith::XOrIOp::create(b, loc, x, one);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value isLess(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }

  /// Whether x is better than y. NaN is larger than every number.
  Value isBetter(Value x, Value y) {
    if (!isa<FloatType>(x.getType()))
      return arith::CmpIOp::create(b, loc,
                                   isUnsigned ? arith::CmpIPredicate::ult
                                              : arith::CmpIPredicate::slt,
                                   smallest ? x : y, smallest ? y : x);
    auto compare = [&](arith::CmpFPredicate predicate, Value a, Value c) {
      return arith::CmpFOp::create(b, loc, predicate, a, c).getResult();
    };
    auto isNumber = [&](Value a) {
      return compare(arith::CmpFPredicate::ORD, a, a);
    };
    Value small = smallest ? x : y, large = smallest ? y : x;
    return either(compare(arith::CmpFPredicate::OLT, small, large),
                  both(isNumber(small), opposite(isNumber(large))));
  }

private:
  OpBuilder &b;
  Location loc;
  bool smallest, isUnsigned;
};

/// The place of the best of the elements of a line that are worse than the one
/// at `last`; of all if that is -1.
Value findNext(OpBuilder &builder, Location loc, TopKOp op, Value input,
               Value row, int64_t size, Value last) {
  bool smallest = op.getSmallest();
  bool isUnsigned =
      op.getInput().getType().getElementType().isUnsignedInteger();
  Order outer(builder, loc, smallest, isUnsigned);
  Value zero = outer.number(0), none = outer.number(-1);
  Value isFirst = outer.isLess(last, zero);
  Value lastPlace = outer.select(isFirst, zero, last);
  Value lastValue = memref::LoadOp::create(builder, loc, input,
                                           ValueRange{row, lastPlace, zero});
  auto loop = scf::ForOp::create(builder, loc, zero, outer.number(size),
                                 outer.number(1), ValueRange{none, lastValue});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Order order(builder, loc, smallest, isUnsigned);
  Value place = loop.getInductionVar();
  Value best = loop.getRegionIterArg(0), bestValue = loop.getRegionIterArg(1);
  Value value =
      memref::LoadOp::create(builder, loc, input, ValueRange{row, place, zero});
  // Of equal elements the first comes first.
  Value isBehind = order.both(order.opposite(order.isBetter(value, lastValue)),
                              order.isLess(last, place));
  Value isLeft = order.either(
      isFirst, order.either(order.isBetter(lastValue, value), isBehind));
  Value wins =
      order.both(isLeft, order.either(order.isLess(best, zero),
                                      order.isBetter(value, bestValue)));
  scf::YieldOp::create(builder, loc,
                       ValueRange{order.select(wins, place, best),
                                  order.select(wins, value, bestValue)});
  return loop.getResult(0);
}

} // namespace

LogicalResult KernelEmitter::emitCumSum(CumSumOp op) {
  auto type = op.getOutput().getType();
  SmallVector<int64_t> sizes = aroundAxis(type, op.getAxis());
  Value input = reshaped(builder, loc, memoryOf(op.getInput()), sizes);
  Value output = reshaped(builder, loc, memoryOf(op.getOutput()), sizes);
  int64_t length = sizes[1];
  bool reverse = op.getReverse(), exclusive = op.getExclusive();
  Type element = getScalarType(type.getElementType());
  auto add = [&](OpBuilder &b, Value x, Value y) -> Value {
    if (isa<FloatType>(element))
      return arith::AddFOp::create(b, loc, x, y);
    return arith::AddIOp::create(b, loc, x, y);
  };
  forEachLine(
      builder, loc, output, reverse ? 0 : length - 1,
      [&](OpBuilder &b, Value before, Value behind) -> Value {
        auto number = [&](int64_t value) -> Value {
          return arith::ConstantIndexOp::create(b, loc, value);
        };
        Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(element));
        auto loop = scf::ForOp::create(b, loc, number(0), number(length - 1),
                                       number(1), zero);
        {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(loop.getBody());
          Value place = loop.getInductionVar();
          if (reverse)
            place = arith::SubIOp::create(b, loc, number(length - 1), place);
          Value at[] = {before, place, behind};
          Value sum = loop.getRegionIterArg(0);
          Value next = add(b, sum, memref::LoadOp::create(b, loc, input, at));
          memref::StoreOp::create(b, loc, exclusive ? sum : next, output, at);
          scf::YieldOp::create(b, loc, next);
        }
        Value sum = loop.getResult(0);
        if (exclusive)
          return sum;
        Value at[] = {before, number(reverse ? 0 : length - 1), behind};
        return add(b, sum, memref::LoadOp::create(b, loc, input, at));
      });
  return success();
}

LogicalResult KernelEmitter::emitTopK(TopKOp op) {
  auto inputType = op.getInput().getType(), type = op.getOutput().getType();
  int64_t axis = inputType.getRank() - 1, size = inputType.getDimSize(axis);
  int64_t count = type.getDimSize(axis);
  Value input = reshaped(builder, loc, memoryOf(op.getInput()),
                         aroundAxis(inputType, axis));
  Value output =
      reshaped(builder, loc, memoryOf(op.getOutput()), aroundAxis(type, axis));
  forEachLine(
      builder, loc, output, count - 1,
      [&](OpBuilder &b, Value row, Value zero) -> Value {
        auto number = [&](int64_t value) -> Value {
          return arith::ConstantIndexOp::create(b, loc, value);
        };
        auto toInteger = [&](Value place) -> Value {
          return arith::IndexCastOp::create(b, loc, b.getI64Type(), place);
        };
        auto next = [&](Value last) {
          return findNext(b, loc, op, input, row, size, last);
        };
        auto loop = scf::ForOp::create(b, loc, number(0), number(count - 1),
                                       number(1), number(-1));
        {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToStart(loop.getBody());
          Value best = next(loop.getRegionIterArg(0));
          memref::StoreOp::create(
              b, loc, toInteger(best), output,
              ValueRange{row, loop.getInductionVar(), number(0)});
          scf::YieldOp::create(b, loc, best);
        }
        return toInteger(next(loop.getResult(0)));
      });
  return success();
}
