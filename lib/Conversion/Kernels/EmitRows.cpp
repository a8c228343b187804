//===- EmitRows.cpp - Softmax, layer norm, cross entropy ------------------===//
//
// Operations on rows run row by row: a row is read from memory once and stays
// in cache for the passes over it. Rows in memory may be of shorter numbers
// than those that the operation computes in. What is left of a row behind the
// last whole vector would take as long as many vectors where there are
// exponentials, so such rows are copied first:
//
//   x0 x1 ... x15 | x16 ... x20               21 numbers of a row
//   x0 x1 ... x15 | x16 ... x20 -inf -inf     two vectors
//
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "KernelMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A loop over the rows of tensors, with helpers for what is done to one.
class Rows {
public:
  /// `like` has the rows on all axes but its last.
  Rows(OpBuilder &builder, Location loc, RankedTensorType like,
       int64_t lanes = 1)
      : builder(builder), loc(loc), element(like.getElementType()),
        columns(like.getShape().back()), count(1), lanes(lanes) {
    for (int64_t size : like.getShape().drop_back())
      count *= size;
    zero = index(0);
    one = index(1);
  }

  /// Runs `body` for each row.
  void forEach(function_ref<void()> body) {
    forEachShared(count, [&](Value index) {
      row = index;
      body();
    });
  }
  /// Runs `use` for each row with the logarithm of the sum of its exponentials,
  /// of which `topAndSum` gives the largest logarithm, and the sum of all
  /// divided by its exponential. A logarithm takes as long as those of a whole
  /// vector, which as many rows wait for.
  void forEachNormalizer(function_ref<std::pair<Value, Value>()> topAndSum,
                         function_ref<void(Value)> use) {
    if (lanes == 1 || count % lanes != 0)
      return forEach([&] {
        auto [top, sum] = topAndSum();
        use(add(top, log(sum)));
      });
    Value tops = stackMemory(lanes), sums = stackMemory(lanes);
    forEachShared(count / lanes, [&](Value block) {
      Value first = arith::MulIOp::create(builder, loc, block, index(lanes));
      auto forRows = [&](function_ref<void(Value)> body) {
        forEachOf(lanes, [&](Value lane) {
          row = arith::AddIOp::create(builder, loc, first, lane);
          body(lane);
        });
      };
      forRows([&](Value lane) {
        auto [top, sum] = topAndSum();
        memref::StoreOp::create(builder, loc, top, tops, lane);
        memref::StoreOp::create(builder, loc, sum, sums, lane);
      });
      auto all = [&](Value memory) -> Value {
        return vector::LoadOp::create(
            builder, loc, VectorType::get(lanes, element), memory, zero);
      };
      vector::StoreOp::create(builder, loc, add(all(tops), log(all(sums))),
                              tops, zero);
      forRows([&](Value lane) { use(load(tops, lane)); });
    });
  }

  /// Before the loop: a tensor as rows x columns, or as one number per row.
  Value asMatrix(Value memory) {
    return reshaped(builder, loc, memory, {count, columns});
  }
  SmallVector<Value> asMatrices(ValueRange memories) {
    return llvm::map_to_vector(memories,
                               [&](Value memory) { return asMatrix(memory); });
  }
  Value asColumn(Value memory) {
    return reshaped(builder, loc, memory, {count});
  }

  /// Inside the loop: the row of a matrix.
  Value rowOf(Value matrix) {
    SmallVector<OpFoldResult> offsets = {row, builder.getIndexAttr(0)};
    SmallVector<OpFoldResult> sizes = {builder.getIndexAttr(1),
                                       builder.getIndexAttr(columns)};
    SmallVector<OpFoldResult> strides(2, builder.getIndexAttr(1));
    auto type = cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
        {columns}, cast<MemRefType>(matrix.getType()), offsets, sizes,
        strides));
    return memref::SubViewOp::create(builder, loc, type, matrix, offsets, sizes,
                                     strides);
  }
  SmallVector<Value> rowsOf(ValueRange matrices) {
    return llvm::map_to_vector(matrices,
                               [&](Value matrix) { return rowOf(matrix); });
  }

  /// A row in the operation's type, with the least number behind its end up to
  /// a whole vector: a copy, or `row` itself if that fills vectors.
  Value filled(Value row) {
    constexpr int64_t most = 4096; // numbers on the stack
    if (columns % lanes == 0 || columns > most)
      return row;
    Value copy = stackMemory(llvm::alignTo(columns, lanes));
    const int64_t whole = columns / lanes * lanes;
    if (whole > 0)
      map(partOf(row, whole), partOf(copy, whole),
          [](ValueRange v) { return v[0]; });
    Type type = cast<MemRefType>(row.getType()).getElementType();
    Value least = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            VectorType::get(lanes, type),
            APFloat::getInf(cast<FloatType>(type).getFloatSemantics(),
                            /*Negative=*/true)));
    Value rest = vector::MaskedLoadOp::create(
        builder, loc, VectorType::get(lanes, type), row, index(whole),
        maskOf(columns - whole), least);
    if (isShort(type))
      rest = arith::ExtFOp::create(builder, loc,
                                   VectorType::get(lanes, element), rest);
    vector::StoreOp::create(builder, loc, rest, copy, index(whole));
    return copy;
  }
  /// `map` from a row that filled() gave, which it may write over.
  void mapFilled(Value from, ValueRange to,
                 function_ref<Value(ValueRange)> value) {
    if (cast<MemRefType>(from.getType()).getDimSize(0) == columns)
      return map(from, to, value);
    map(from, from, value);
    const int64_t whole = columns / lanes * lanes;
    Value rest = vector::LoadOp::create(
        builder, loc, VectorType::get(lanes, element), from, index(whole));
    for (Value row : to) {
      if (whole > 0)
        map(partOf(from, whole), partOf(row, whole),
            [](ValueRange v) { return v[0]; });
      Type type = cast<MemRefType>(row.getType()).getElementType();
      Value numbers = rest;
      if (isShort(type))
        numbers = arith::TruncFOp::create(
            builder, loc, VectorType::get(lanes, type), numbers);
      vector::MaskedStoreOp::create(builder, loc, row, index(whole),
                                    maskOf(columns - whole), numbers);
    }
  }

  Value load(Value column) { return load(column, row); }
  Value load(Value memory, ValueRange at) {
    return widened(memref::LoadOp::create(builder, loc, memory, at));
  }
  void store(Value value, Value column) {
    memref::StoreOp::create(builder, loc, value, column, row);
  }

  /// Combines f(x, y, ...) over the columns of some rows, from `initial`.
  Value reduce(ValueRange rows, double initial,
               function_ref<Value(ValueRange)> value,
               function_ref<Value(Value, Value)> combine) {
    Value cell = scalarCell();
    memref::StoreOp::create(builder, loc, constant(initial), cell,
                            ValueRange());
    AffineMap identity = builder.getMultiDimIdentityMap(1);
    SmallVector<AffineMap> maps(rows.size(), identity);
    maps.push_back(AffineMap::get(1, 0, {}, builder.getContext()));
    linalg::GenericOp::create(
        builder, loc, TypeRange(), rows, cell, maps,
        utils::IteratorType::reduction,
        [&](OpBuilder &body, Location, ValueRange x) {
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPoint(body.getInsertionBlock(),
                                    body.getInsertionPoint());
          Value result = combine(x.back(), value(widened(x.drop_back())));
          linalg::YieldOp::create(builder, loc, result);
        });
    return memref::LoadOp::create(builder, loc, cell, ValueRange());
  }
  Value sum(ValueRange rows, function_ref<Value(ValueRange)> value) {
    return reduce(rows, 0, value, [&](Value x, Value y) -> Value {
      return arith::AddFOp::create(builder, loc, x, y,
                                   arith::FastMathFlags::reassoc);
    });
  }
  Value max(Value row) {
    // A NaN in the row reaches the result through the sum of exponentials.
    return reduce(
        row, -std::numeric_limits<double>::infinity(),
        [](ValueRange x) { return x[0]; },
        [&](Value x, Value y) -> Value {
          return arith::MaximumFOp::create(builder, loc, x, y,
                                           arith::FastMathFlags::reassoc |
                                               arith::FastMathFlags::nnan |
                                               arith::FastMathFlags::nsz);
        });
  }

  /// to[i] = f(x[i], y[i], ...), for each row of `to`.
  void map(ValueRange rows, ValueRange to,
           function_ref<Value(ValueRange)> value) {
    SmallVector<AffineMap> maps(rows.size() + to.size(),
                                builder.getMultiDimIdentityMap(1));
    linalg::GenericOp::create(
        builder, loc, TypeRange(), rows, to, maps,
        utils::IteratorType::parallel,
        [&](OpBuilder &body, Location, ValueRange x) {
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPoint(body.getInsertionBlock(),
                                    body.getInsertionPoint());
          Value result = value(widened(x.take_front(rows.size())));
          SmallVector<Value> results;
          for (Value old : x.drop_front(rows.size()))
            results.push_back(narrowed(result, old.getType()));
          linalg::YieldOp::create(builder, loc, results);
        });
  }
  /// Inside of a map or a reduction: the column.
  Value column() { return linalg::IndexOp::create(builder, loc, 0); }

  Value constant(double value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getFloatAttr(element, value));
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  Value add(Value x, Value y) {
    return arith::AddFOp::create(builder, loc, x, y);
  }
  Value sub(Value x, Value y) {
    return arith::SubFOp::create(builder, loc, x, y);
  }
  Value mul(Value x, Value y) {
    return arith::MulFOp::create(builder, loc, x, y);
  }
  Value div(Value x, Value y) {
    return arith::DivFOp::create(builder, loc, x, y);
  }
  Value isNumber(Value x) {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::ORD, x, x);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(builder, loc, condition, x, y);
  }
  Value exp(Value x) { return math::ExpOp::create(builder, loc, x); }
  Value log(Value x) { return math::LogOp::create(builder, loc, x); }
  Value sqrt(Value x) { return math::SqrtOp::create(builder, loc, x); }

  /// A number per row that does not leave the kernel.
  Value temporaryColumn() {
    return memref::AllocaOp::create(builder, loc,
                                    MemRefType::get({count}, element));
  }
  /// After the loop: to = the sum over rows, in order, of a value that is made
  /// from the row's number and its numbers in `columns`.
  void sumOfRows(ValueRange columns, Value to,
                 function_ref<Value(Value, ValueRange)> value) {
    linalg::FillOp::create(builder, loc, constant(0), to);
    AffineMap identity = builder.getMultiDimIdentityMap(1);
    SmallVector<AffineMap> maps(columns.size(), identity);
    maps.push_back(AffineMap::get(1, 0, {}, builder.getContext()));
    linalg::GenericOp::create(
        builder, loc, TypeRange(), columns, to, maps,
        utils::IteratorType::reduction,
        [&](OpBuilder &body, Location, ValueRange x) {
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPoint(body.getInsertionBlock(),
                                    body.getInsertionPoint());
          Value number = linalg::IndexOp::create(builder, loc, 0);
          Value sum = add(x.back(), value(number, x.drop_back()));
          linalg::YieldOp::create(builder, loc, sum);
        });
  }

  /// The class number of a row.
  Value label(Value labels) {
    return memref::LoadOp::create(builder, loc, labels, row);
  }
  /// `value`, which belongs to a class: 0 where the class is the one to ignore,
  /// NaN where there is no such class.
  Value forClass(Value label, std::optional<int64_t> ignored, Value value) {
    value = ifInside(builder, loc, asIndex(label), columns, value);
    if (!ignored)
      return value;
    Value number = arith::ConstantOp::create(
        builder, loc, builder.getIntegerAttr(label.getType(), *ignored));
    Value isIgnored = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, label, number);
    return arith::SelectOp::create(builder, loc, isIgnored, constant(0), value);
  }
  Value clampedColumn(Value label) {
    return clampedIndex(builder, loc, asIndex(label), columns);
  }
  Value asIndex(Value number) {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      number);
  }

  OpBuilder &builder;
  Location loc;
  Type element;
  int64_t columns;
  int64_t count;

private:
  /// A loop whose turns threads share.
  void forEachShared(int64_t turns, function_ref<void(Value)> body) {
    forEachOf(turns, body)
        ->setAttr(pipeline::rowsAttrName, builder.getUnitAttr());
  }
  scf::ForOp forEachOf(int64_t turns, function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(builder, loc, zero, index(turns), one);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
    return loop;
  }

  bool isShort(Type type) {
    return isa<FloatType>(type) &&
           type.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth();
  }
  Value widened(Value value) {
    return isShort(value.getType())
               ? arith::ExtFOp::create(builder, loc, element, value)
               : value;
  }
  SmallVector<Value> widened(ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value value) { return widened(value); });
  }
  Value narrowed(Value value, Type type) {
    return isShort(type) ? arith::TruncFOp::create(builder, loc, type, value)
                         : value;
  }

  Value partOf(Value row, int64_t size) {
    OpFoldResult one = builder.getIndexAttr(1);
    return memref::SubViewOp::create(
        builder, loc, row, OpFoldResult(builder.getIndexAttr(0)),
        OpFoldResult(builder.getIndexAttr(size)), one);
  }
  Value maskOf(int64_t size) {
    SmallVector<bool> isInside(lanes, false);
    std::fill_n(isInside.begin(), size, true);
    return arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(VectorType::get(lanes, builder.getI1Type()),
                               ArrayRef<bool>(isInside)));
  }

  Value scalarCell() { return stackMemory({}); }
  /// Made at the start of the function, so that the stack does not grow with
  /// the rows.
  Value stackMemory(ArrayRef<int64_t> shape) {
    OpBuilder::InsertionGuard guard(builder);
    Operation *function = builder.getBlock()->getParentOp();
    while (!isa<FunctionOpInterface>(function))
      function = function->getParentOp();
    builder.setInsertionPointToStart(&function->getRegion(0).front());
    return memref::AllocaOp::create(builder, loc,
                                    MemRefType::get(shape, element));
  }

  int64_t lanes;
  Value zero, one, row;
};

} // namespace

/// The largest number of a row, and the sum of the exponentials of what all are
/// beside it.
static std::pair<Value, Value> topAndSum(Rows &r, Value matrix) {
  Value x = r.filled(r.rowOf(matrix));
  Value top = r.max(x);
  Value sum = r.sum(x, [&](ValueRange v) { return r.exp(r.sub(v[0], top)); });
  return {top, sum};
}

LogicalResult KernelEmitter::emitLogSoftmax(LogSoftmaxOp op) {
  Rows r(builder, loc, op.getInput().getType(), lanes);
  Value from = r.asMatrix(sourceOf(op.getInput()));
  SmallVector<Value> to = r.asMatrices(destinationsOf(op.getOutput()));
  r.forEachNormalizer([&] { return topAndSum(r, from); },
                      [&](Value normalizer) {
                        r.map(r.rowOf(from), r.rowsOf(to), [&](ValueRange v) {
                          return r.sub(v[0], normalizer);
                        });
                      });
  return success();
}

LogicalResult KernelEmitter::emitSoftmax(SoftmaxOp op) {
  Rows r(builder, loc, op.getInput().getType(), lanes);
  Value from = r.asMatrix(sourceOf(op.getInput()));
  Value wide = memoryOf(op.getOutput());
  SmallVector<Value> to = r.asMatrices(destinationsOf(op.getOutput()));
  wide = wide ? r.asMatrix(wide) : wide;
  r.forEach([&] {
    Value row = r.rowOf(from), x = r.filled(row);
    SmallVector<Value> y = r.rowsOf(to);
    Value top = r.max(x);
    auto exponential = [&](ValueRange v) { return r.exp(r.sub(v[0], top)); };
    // Short numbers cannot hold the exponentials until their sum is known.
    Value kept = x != row ? x : wide ? r.rowOf(wide) : Value();
    if (kept)
      r.map(x, kept, exponential);
    auto value = [&](ValueRange v) { return kept ? v[0] : exponential(v); };
    Value sum = r.sum(kept ? kept : x, value);
    Value factor = r.div(r.constant(1), sum);
    // A row has no number at all, or numbers alone.
    Value isNumber = op.getZeroed() ? r.isNumber(sum) : Value();
    r.mapFilled(kept ? kept : x, y, [&](ValueRange v) {
      Value weight = r.mul(value(v), factor);
      return isNumber ? r.select(isNumber, weight, r.constant(0)) : weight;
    });
  });
  return success();
}

LogicalResult KernelEmitter::emitLayerNorm(LayerNormOp op) {
  Rows r(builder, loc, op.getInput().getType());
  Value from = r.asMatrix(sourceOf(op.getInput()));
  SmallVector<Value> to = r.asMatrices(destinationsOf(op.getOutput()));
  Value mean = memoryOf(op.getMean()), rstd = memoryOf(op.getRstd());
  Value scale = sourceOf(op.getScale()), shift = sourceOf(op.getShift());
  mean = mean ? r.asColumn(mean) : mean;
  rstd = rstd ? r.asColumn(rstd) : rstd;
  double epsilon = op.getEpsilon().convertToDouble();
  r.forEach([&] {
    Value x = r.rowOf(from);
    Value inverse = r.constant(1.0 / static_cast<double>(r.columns));
    Value sum = r.sum(x, [](ValueRange v) { return v[0]; });
    Value centre = r.mul(sum, inverse);
    Value squares = r.sum(x, [&](ValueRange v) {
      Value difference = r.sub(v[0], centre);
      return r.mul(difference, difference);
    });
    Value variance = r.mul(squares, inverse);
    Value factor =
        r.div(r.constant(1), r.sqrt(r.add(variance, r.constant(epsilon))));
    if (!to.empty())
      r.map({x, scale, shift}, r.rowsOf(to), [&](ValueRange v) {
        Value normal = r.mul(r.sub(v[0], centre), factor);
        return r.add(r.mul(normal, v[1]), v[2]);
      });
    if (mean)
      r.store(centre, mean);
    if (rstd)
      r.store(factor, rstd);
  });
  return success();
}

LogicalResult KernelEmitter::emitLayerNormBackward(LayerNormBackwardOp op) {
  Rows r(builder, loc, op.getInput().getType());
  Value gradient = r.asMatrix(sourceOf(op.getOutputGradient()));
  Value input = r.asMatrix(sourceOf(op.getInput()));
  SmallVector<Value> to = r.asMatrices(destinationsOf(op.getOutput()));
  Value scale = sourceOf(op.getScale());
  Value means = r.asColumn(sourceOf(op.getMean()));
  Value rstds = r.asColumn(sourceOf(op.getRstd()));
  r.forEach([&] {
    Value g = r.rowOf(gradient), x = r.rowOf(input);
    Value mean = r.load(means), rstd = r.load(rstds);
    Value inverse = r.constant(1.0 / static_cast<double>(r.columns));
    auto normal = [&](Value value) { return r.mul(r.sub(value, mean), rstd); };
    Value plain = r.mul(
        r.sum({g, scale}, [&](ValueRange v) { return r.mul(v[0], v[1]); }),
        inverse);
    Value weighted =
        r.mul(r.sum({g, scale, x},
                    [&](ValueRange v) {
                      return r.mul(r.mul(v[0], v[1]), normal(v[2]));
                    }),
              inverse);
    r.map({g, scale, x}, r.rowsOf(to), [&](ValueRange v) {
      Value centred = r.sub(r.mul(v[0], v[1]), plain);
      return r.mul(rstd, r.sub(centred, r.mul(normal(v[2]), weighted)));
    });
  });
  return success();
}

LogicalResult KernelEmitter::emitCrossEntropy(SoftmaxCrossEntropyOp op) {
  Rows r(builder, loc, op.getLogits().getType(), lanes);
  Value logits = r.asMatrix(sourceOf(op.getLogits()));
  Value labels = r.asColumn(memoryOf(op.getLabels()));
  Value loss = memoryOf(op.getLoss());
  Value normalizers = memoryOf(op.getLogNormalizer());
  normalizers = normalizers ? r.asColumn(normalizers) : r.temporaryColumn();
  r.forEachNormalizer(
      [&] { return topAndSum(r, logits); },
      [&](Value normalizer) { r.store(normalizer, normalizers); });
  if (loss)
    r.sumOfRows({normalizers, labels}, loss, [&](Value row, ValueRange v) {
      Value part = r.sub(v[0], r.load(logits, {row, r.clampedColumn(v[1])}));
      return r.forClass(v[1], op.getIgnoreIndex(), part);
    });
  return success();
}

LogicalResult
KernelEmitter::emitCrossEntropyBackward(SoftmaxCrossEntropyBackwardOp op) {
  Rows r(builder, loc, op.getLogits().getType(), lanes);
  Value logits = r.asMatrix(sourceOf(op.getLogits()));
  Value labels = r.asColumn(memoryOf(op.getLabels()));
  Value normalizers = r.asColumn(sourceOf(op.getLogNormalizer()));
  SmallVector<Value> to = r.asMatrices(destinationsOf(op.getOutput()));
  Value factor = r.load(sourceOf(op.getLossGradient()), {});
  r.forEach([&] {
    Value x = r.filled(r.rowOf(logits));
    Value normalizer = r.load(normalizers), number = r.label(labels);
    Value label = r.clampedColumn(number);
    Value scale = r.forClass(number, op.getIgnoreIndex(), factor);
    r.mapFilled(x, r.rowsOf(to), [&](ValueRange v) -> Value {
      Value part = r.mul(r.exp(r.sub(v[0], normalizer)), scale);
      Value isLabel = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::eq, r.column(), label);
      return arith::SelectOp::create(builder, loc, isLabel, r.sub(part, scale),
                                     part);
    });
  });
  return success();
}
