//===- DeterminantHandler.cpp - ONNX's Det --------------------------------===//

#include "Expressions.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

constexpr int64_t maxRows = 64;

/// Gaussian elimination with the largest number of a column as its pivot,
/// unrolled: the product of the pivots, and of -1 for each exchange of rows.
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
  Value rest = n.reshape(x, {count, rows, rows}), result;
  for (; rows > 1; --rows) {
    Value column = n.reshape(n.slice(rest, 2, 0, 1), {count, rows});
    Value place = n.make<TopKOp>(
        RankedTensorType::get({count, 1}, n.getBuilder().getI64Type()),
        e.abs(column), /*smallest=*/false);
    Value row = n.make<GatherOp>(rest, place, int64_t{1}, int64_t{1});
    Value pivot = n.reshape(n.slice(row, 2, 0, 1), count);
    // The first row takes the place of the pivot's.
    Value others = n.make<ScatterOp>(rest, place, n.slice(rest, 1, 0, 1),
                                     int64_t{1}, int64_t{1}, ReductionAttr());
    others = n.slice(others, 1, 1, rows);
    Value stays = e.compare(Comparison::eq, n.reshape(place, count), 0);
    Value sign = e.select(stays, e.number(pivot, 1), e.number(pivot, -1));
    Value factor = e.mul(pivot, sign);
    result = result ? e.mul(result, factor) : factor;
    // Under a pivot of zero there are zeros.
    Value isZero = e.compare(Comparison::eq, pivot, 0);
    Value divisor = e.select(isZero, e.number(pivot, 1), pivot);
    SmallVector<int64_t> smaller = {count, rows - 1, rows - 1};
    Value ratio = n.reshape(n.slice(others, 2, 0, 1), {count, rows - 1});
    ratio = e.div(ratio, e.spread(divisor, n.shape(ratio), int64_t{1}));
    Value taken = n.reshape(n.slice(row, 2, 1, rows), {count, rows - 1});
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
