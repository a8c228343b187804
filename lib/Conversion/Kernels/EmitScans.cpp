//===- EmitScans.cpp - Operations that walk along an axis -----------------===//
//
// Cumulative sums and the order of rows: a loop nest over what is independent
// of each other, whose body walks along the axis. It stores all results along
// the axis; the last one it yields.
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

/// The places of the best elements of a row, in a row of the result: a heap,
/// whose root is the worst of them, and at last in order (Williams, "Algorithm
/// 232: Heapsort", CACM 7, 1964). Of equal elements the first is better.
class BestPlaces {
public:
  BestPlaces(OpBuilder &b, TopKOp op, Value input, Value output, Value row)
      : b(b), loc(op.getLoc()), smallest(op.getSmallest()),
        isUnsigned(
            op.getInput().getType().getElementType().isUnsignedInteger()),
        input(input), output(output), row(row), zero(number(0)) {}

  void find(int64_t size, int64_t count) {
    forEach(count, [&](Value index) { setPlace(index, index); });
    forEach(count / 2, [&](Value index) {
      sink(arith::SubIOp::create(b, loc, number(count / 2 - 1), index),
           number(count));
    });
    forEach(size - count, [&](Value index) {
      Value place = arith::AddIOp::create(b, loc, index, number(count));
      Value isFound = isBetter(elementAt(place), elementAt(placeAt(zero)));
      auto found = scf::IfOp::create(b, loc, isFound);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(found.thenBlock());
      setPlace(zero, place);
      sink(zero, number(count));
    });
    forEach(count - 1, [&](Value index) {
      Value last = arith::SubIOp::create(b, loc, number(count - 1), index);
      Value worst = placeAt(zero), other = placeAt(last);
      setPlace(zero, other);
      setPlace(last, worst);
      sink(zero, last);
    });
  }

  Value placeAt(Value index) {
    Value place =
        memref::LoadOp::create(b, loc, output, ValueRange{row, index, zero});
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), place);
  }
  Value number(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }

private:
  void setPlace(Value index, Value place) {
    Value integer = arith::IndexCastOp::create(b, loc, b.getI64Type(), place);
    memref::StoreOp::create(b, loc, integer, output,
                            ValueRange{row, index, zero});
  }
  Value elementAt(Value place) {
    return memref::LoadOp::create(b, loc, input, ValueRange{row, place, zero});
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value opposite(Value x) {
    Value one = arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
    return arith::XOrIOp::create(b, loc, x, one);
  }
  Value isLess(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }

  void forEach(int64_t count, function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, loc, zero, number(count), number(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
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

  /// Whether the element at place x comes before that at y.
  Value isBefore(Value x, Value y) {
    Value a = elementAt(x), c = elementAt(y);
    return either(isBetter(a, c), both(opposite(isBetter(c, a)), isLess(x, y)));
  }

  /// Lets what is at `start` of the heap's first `end` places change places
  /// with the worse of its children until it is worse than both.
  void sink(Value start, Value end) {
    Value place = placeAt(start);
    Type index = b.getIndexType();
    auto loop = scf::WhileOp::create(b, loc, {index, index}, start);
    {
      OpBuilder::InsertionGuard guard(b);
      Value at =
          b.createBlock(&loop.getBefore(), {}, index, loc)->getArgument(0);
      Value left = arith::AddIOp::create(
          b, loc, arith::MulIOp::create(b, loc, at, number(2)), number(1));
      auto inside = scf::IfOp::create(b, loc, {b.getI1Type(), index},
                                      isLess(left, end), /*addElse=*/true);
      b.setInsertionPointToStart(inside.elseBlock());
      Value no = arith::ConstantOp::create(b, loc, b.getBoolAttr(false));
      scf::YieldOp::create(b, loc, ValueRange{no, left});
      b.setInsertionPointToStart(inside.thenBlock());
      Value child = worseOf(left, end);
      scf::YieldOp::create(b, loc,
                           ValueRange{isBefore(place, placeAt(child)), child});
      b.setInsertionPointAfter(inside);
      scf::ConditionOp::create(b, loc, inside.getResult(0),
                               ValueRange{at, inside.getResult(1)});
      Block *body =
          b.createBlock(&loop.getAfter(), {}, {index, index}, {loc, loc});
      setPlace(body->getArgument(0), placeAt(body->getArgument(1)));
      scf::YieldOp::create(b, loc, body->getArgument(1));
    }
    setPlace(loop.getResult(0), place);
  }

  Value worseOf(Value left, Value end) {
    Value right = arith::AddIOp::create(b, loc, left, number(1));
    auto found = scf::IfOp::create(b, loc, b.getIndexType(), isLess(right, end),
                                   /*addElse=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(found.elseBlock());
    scf::YieldOp::create(b, loc, left);
    b.setInsertionPointToStart(found.thenBlock());
    Value isRight = isBefore(placeAt(left), placeAt(right));
    scf::YieldOp::create(
        b, loc,
        ValueRange{arith::SelectOp::create(b, loc, isRight, right, left)});
    return found.getResult(0);
  }

  OpBuilder &b;
  Location loc;
  bool smallest, isUnsigned;
  Value input, output, row, zero;
};

} // namespace

/// Where numbers behind the axis fill vectors, whole rows of them are added.
static void emitRowSums(OpBuilder &builder, Location loc, CumSumOp op,
                        Value input, Value output) {
  auto type = cast<MemRefType>(output.getType());
  Type element = type.getElementType();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value zero = number(0), one = number(1);
  auto loop = [&](int64_t count) {
    auto result = scf::ForOp::create(builder, loc, zero, number(count), one);
    builder.setInsertionPointToStart(result.getBody());
    return result;
  };
  OpBuilder::InsertionGuard guard(builder);
  scf::ForOp rows = loop(type.getDimSize(0));
  rows->setAttr(pipeline::rowsAttrName, builder.getUnitAttr());
  Value before = rows.getInductionVar();
  Value nothing =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(element));
  const int64_t length = type.getDimSize(1);
  // The sum up to a place, without or with it, from the sum before that place.
  auto emitPlace = [&](Value place, Value last, bool isFirst) {
    OpBuilder::InsertionGuard guard(builder);
    Value behind = loop(type.getDimSize(2)).getInductionVar();
    auto at = [&](Value memory, Value index) -> Value {
      return memref::LoadOp::create(builder, loc, memory,
                                    ValueRange{before, index, behind});
    };
    Value sum = isFirst ? nothing : at(output, last);
    if (!op.getExclusive() || !isFirst) {
      Value next = at(input, op.getExclusive() ? last : place);
      sum = isa<FloatType>(element)
                ? Value(arith::AddFOp::create(builder, loc, sum, next))
                : arith::AddIOp::create(builder, loc, sum, next);
    }
    memref::StoreOp::create(builder, loc, sum, output,
                            ValueRange{before, place, behind});
  };
  const bool isReverse = op.getReverse();
  emitPlace(number(isReverse ? length - 1 : 0), {}, /*isFirst=*/true);
  if (length == 1)
    return;
  Value turn = loop(length - 1).getInductionVar();
  Value place =
      isReverse
          ? Value(arith::SubIOp::create(builder, loc, number(length - 2), turn))
          : arith::AddIOp::create(builder, loc, turn, one);
  Value last =
      isReverse ? Value(arith::AddIOp::create(builder, loc, place, one)) : turn;
  emitPlace(place, last, /*isFirst=*/false);
}

LogicalResult KernelEmitter::emitCumSum(CumSumOp op) {
  auto type = op.getOutput().getType();
  SmallVector<int64_t> sizes = aroundAxis(type, op.getAxis());
  Value input = reshaped(builder, loc, memoryOf(op.getInput()), sizes);
  Value output = reshaped(builder, loc, memoryOf(op.getOutput()), sizes);
  if (lanes > 1 && sizes[2] >= lanes) {
    emitRowSums(builder, loc, op, input, output);
    return success();
  }
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
  forEachLine(builder, loc, output, count - 1,
              [&](OpBuilder &b, Value row, Value) -> Value {
                BestPlaces best(b, op, input, output, row);
                best.find(size, count);
                return arith::IndexCastOp::create(
                    b, loc, b.getI64Type(),
                    best.placeAt(best.number(count - 1)));
              });
  return success();
}
