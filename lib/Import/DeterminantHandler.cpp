//===- DeterminantHandler.cpp - ONNX's Det --------------------------------===//

#include "Expressions.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

constexpr int64_t maxRows = 64;

/// The matrices of `x` with row `place` of each in front, where the first row
/// was; what was there takes its place.
Value bringToFront(NodeImporter &n, Value x, Value place) {
  int64_t rows = n.shape(x)[1];
  Value row = n.make<GatherOp>(x, place, int64_t{1}, int64_t{1});
  Value others = n.make<ScatterOp>(x, place, n.slice(x, 1, 0, 1), int64_t{1},
                                   int64_t{1}, ReductionAttr());
  return n.make<ConcatOp>(ValueRange{row, n.slice(others, 1, 1, rows)},
                          int64_t{1});
}

/// Gaussian elimination with the largest number of all that is left as its
/// pivot, unrolled: the product of the pivots, and of -1 for each exchange of
/// rows or columns. A pivot is 0 only if all that is left is, so the derivative
/// is right for singular matrices, too: with one row left it is that of the
/// last pivot, with more it is 0.
LogicalResult determinant(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] ||
      shape.back() < 1 || shape.back() > maxRows)
    return n.error("has no square matrices of up to " + llvm::Twine(maxRows) +
                   " rows");
  int64_t count = 1, rows = shape.back();
  SmallVector<int64_t> batch(ArrayRef(shape).drop_back(2));
  for (int64_t size : batch)
    count *= size;
  Expressions e{n};
  Type i64 = n.getBuilder().getI64Type();
  Value rest = n.reshape(x, {count, rows, rows}), result;
  for (; rows > 1; --rows) {
    Value place = n.make<TopKOp>(
        RankedTensorType::get({count, 1}, n.getBuilder().getI64Type()),
        e.abs(n.reshape(rest, {count, rows * rows})), /*smallest=*/false);
    auto width = static_cast<double>(rows);
    Value row = e.div(place, e.number(place, width));
    Value column = e.sub(place, e.mul(row, width));
    // Transposed, which does not change the determinant.
    rest = n.transpose(bringToFront(n, rest, row), {0, 2, 1});
    rest = bringToFront(n, rest, column);
    Value pivot = n.reshape(n.slice(n.slice(rest, 1, 0, 1), 2, 0, 1), count);
    auto stays = [&](Value which) {
      return e.compare(Comparison::eq, n.reshape(which, count), 0);
    };
    Value isEven = n.make<CompareOp>(Comparison::eq, n.cast(stays(row), i64),
                                     n.cast(stays(column), i64));
    Value sign = e.select(isEven, e.number(pivot, 1), e.number(pivot, -1));
    Value factor = e.mul(pivot, sign);
    result = result ? e.mul(result, factor) : factor;
    // Under a pivot of zero there are zeros.
    Value isZero = e.compare(Comparison::eq, pivot, 0);
    Value divisor = e.select(isZero, e.number(pivot, 1), pivot);
    SmallVector<int64_t> smaller = {count, rows - 1, rows - 1};
    Value first = n.slice(rest, 1, 0, 1), others = n.slice(rest, 1, 1, rows);
    Value ratio = n.reshape(n.slice(others, 2, 0, 1), {count, rows - 1});
    ratio = e.div(ratio, e.spread(divisor, n.shape(ratio), int64_t{1}));
    Value taken = n.reshape(n.slice(first, 2, 1, rows), {count, rows - 1});
    rest = e.sub(n.slice(others, 2, 1, rows),
                 e.mul(e.spread(ratio, smaller, int64_t{2}),
                       e.spread(taken, smaller, int64_t{1})));
  }
  Value last = n.reshape(rest, count);
  n.setOutput(0, n.reshape(result ? e.mul(result, last) : last, batch));
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::determinantOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Det",
       .handler = determinant,
       .types = floatTypes,
       .note = "matrices of up to 64 rows"},
  };
  return entries;
}
