//===- EmitRows.cpp - Softmax, layer norm, cross entropy ------------------===//
//
// Operations on rows run row by row: a row is read from memory once and stays
// in cache for the passes over it.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A loop over the rows of tensors, with helpers for what is done to one.
class Rows {
public:
  /// `like` has the rows on all axes but its last.
  Rows(OpBuilder &builder, Location loc, RankedTensorType like)
      : builder(builder), loc(loc), element(like.getElementType()),
        columns(like.getShape().back()), count(1) {
    for (int64_t size : like.getShape().drop_back())
      count *= size;
    zero = index(0);
    one = index(1);
    total = index(count);
  }

  /// Runs `body` for each row.
  void forEach(function_ref<void()> body) {
    scf::ForOp loop = scf::ForOp::create(builder, loc, zero, total, one);
    loop->setAttr(rowsAttrName, builder.getUnitAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    row = loop.getInductionVar();
    body();
  }

  /// Before the loop: a tensor as rows x columns, or as one number per row.
  Value asMatrix(Value memory) { return reshaped(memory, {count, columns}); }
  Value asColumn(Value memory) { return reshaped(memory, {count}); }

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
  Value load(Value column) {
    return memref::LoadOp::create(builder, loc, column, row);
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
          Value result = combine(x.back(), value(x.drop_back()));
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

  /// to[i] = f(x[i], y[i], ...).
  void map(ValueRange rows, Value to, function_ref<Value(ValueRange)> value) {
    SmallVector<AffineMap> maps(rows.size() + 1,
                                builder.getMultiDimIdentityMap(1));
    linalg::GenericOp::create(
        builder, loc, TypeRange(), rows, to, maps,
        utils::IteratorType::parallel,
        [&](OpBuilder &body, Location, ValueRange x) {
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPoint(body.getInsertionBlock(),
                                    body.getInsertionPoint());
          linalg::YieldOp::create(builder, loc, value(x.drop_back()));
        });
  }

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

  /// The class number of a row, forced into range.
  Value label(Value labels) {
    return clampedColumn(memref::LoadOp::create(builder, loc, labels, row));
  }
  Value clampedColumn(Value number) {
    Value wide = arith::IndexCastOp::create(builder, loc,
                                            builder.getIndexType(), number);
    Value low = arith::MaxSIOp::create(builder, loc, wide, index(0));
    return arith::MinSIOp::create(builder, loc, low, index(columns - 1));
  }

  OpBuilder &builder;
  Location loc;
  Type element;
  int64_t columns;
  int64_t count;

private:
  Value reshaped(Value memory, ArrayRef<int64_t> shape) {
    auto type = cast<MemRefType>(memory.getType());
    if (type.getShape() == shape)
      return memory;
    SmallVector<OpFoldResult> sizes, strides(shape.size());
    int64_t stride = 1;
    for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
         --axis) {
      strides[axis] = builder.getIndexAttr(stride);
      stride *= shape[axis];
    }
    for (int64_t size : shape)
      sizes.push_back(builder.getIndexAttr(size));
    return memref::ReinterpretCastOp::create(
        builder, loc, MemRefType::get(shape, type.getElementType()), memory,
        builder.getIndexAttr(0), sizes, strides);
  }

  /// A number on the stack; made at the start of the function, so that the
  /// stack does not grow with the rows.
  Value scalarCell() {
    OpBuilder::InsertionGuard guard(builder);
    Operation *function = builder.getBlock()->getParentOp();
    while (!isa<FunctionOpInterface>(function))
      function = function->getParentOp();
    builder.setInsertionPointToStart(&function->getRegion(0).front());
    return memref::AllocaOp::create(builder, loc, MemRefType::get({}, element));
  }

  Value zero, one, total, row;
};

} // namespace

LogicalResult KernelEmitter::emitSoftmax(Operation *op, bool logarithm) {
  Value input = op->getOperand(0), output = op->getResult(0);
  Rows r(builder, loc, cast<RankedTensorType>(input.getType()));
  Value from = r.asMatrix(memoryOf(input)), to = r.asMatrix(memoryOf(output));
  r.forEach([&] {
    Value x = r.rowOf(from), y = r.rowOf(to);
    Value top = r.max(x);
    if (logarithm) {
      Value sum =
          r.sum(x, [&](ValueRange v) { return r.exp(r.sub(v[0], top)); });
      Value normalizer = r.add(top, r.log(sum));
      r.map(x, y, [&](ValueRange v) { return r.sub(v[0], normalizer); });
      return;
    }
    r.map(x, y, [&](ValueRange v) { return r.exp(r.sub(v[0], top)); });
    Value sum = r.sum(y, [](ValueRange v) { return v[0]; });
    Value factor = r.div(r.constant(1), sum);
    r.map(y, y, [&](ValueRange v) { return r.mul(v[0], factor); });
  });
  return success();
}

LogicalResult KernelEmitter::emitLayerNorm(LayerNormOp op) {
  Rows r(builder, loc, op.getInput().getType());
  Value from = r.asMatrix(memoryOf(op.getInput()));
  Value to = memoryOf(op.getOutput()), mean = memoryOf(op.getMean());
  Value rstd = memoryOf(op.getRstd());
  Value scale = memoryOf(op.getScale()), shift = memoryOf(op.getShift());
  to = to ? r.asMatrix(to) : to;
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
    if (to)
      r.map({x, scale, shift}, r.rowOf(to), [&](ValueRange v) {
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
  Value gradient = r.asMatrix(memoryOf(op.getOutputGradient()));
  Value input = r.asMatrix(memoryOf(op.getInput()));
  Value to = r.asMatrix(memoryOf(op.getOutput()));
  Value scale = memoryOf(op.getScale());
  Value means = r.asColumn(memoryOf(op.getMean()));
  Value rstds = r.asColumn(memoryOf(op.getRstd()));
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
    r.map({g, scale, x}, r.rowOf(to), [&](ValueRange v) {
      Value centred = r.sub(r.mul(v[0], v[1]), plain);
      return r.mul(rstd, r.sub(centred, r.mul(normal(v[2]), weighted)));
    });
  });
  return success();
}

LogicalResult KernelEmitter::emitCrossEntropy(SoftmaxCrossEntropyOp op) {
  Rows r(builder, loc, op.getLogits().getType());
  Value logits = r.asMatrix(memoryOf(op.getLogits()));
  Value labels = r.asColumn(memoryOf(op.getLabels()));
  Value loss = memoryOf(op.getLoss());
  Value normalizers = memoryOf(op.getLogNormalizer());
  normalizers = normalizers ? r.asColumn(normalizers) : r.temporaryColumn();
  r.forEach([&] {
    Value x = r.rowOf(logits);
    Value top = r.max(x);
    Value sum = r.sum(x, [&](ValueRange v) { return r.exp(r.sub(v[0], top)); });
    r.store(r.add(top, r.log(sum)), normalizers);
  });
  if (loss)
    r.sumOfRows({normalizers, labels}, loss, [&](Value row, ValueRange v) {
      Value label = r.clampedColumn(v[1]);
      Value chosen =
          memref::LoadOp::create(builder, loc, logits, ValueRange{row, label});
      return r.sub(v[0], chosen);
    });
  return success();
}

LogicalResult
KernelEmitter::emitCrossEntropyBackward(SoftmaxCrossEntropyBackwardOp op) {
  Rows r(builder, loc, op.getLogits().getType());
  Value logits = r.asMatrix(memoryOf(op.getLogits()));
  Value labels = r.asColumn(memoryOf(op.getLabels()));
  Value normalizers = r.asColumn(memoryOf(op.getLogNormalizer()));
  Value to = r.asMatrix(memoryOf(op.getOutput()));
  Value factor = memref::LoadOp::create(
      builder, loc, memoryOf(op.getLossGradient()), ValueRange());
  r.forEach([&] {
    Value x = r.rowOf(logits), y = r.rowOf(to);
    Value normalizer = r.load(normalizers);
    r.map(x, y, [&](ValueRange v) {
      return r.mul(r.exp(r.sub(v[0], normalizer)), factor);
    });
    Value label = r.label(labels);
    Value old = memref::LoadOp::create(builder, loc, y, label);
    memref::StoreOp::create(builder, loc, r.sub(old, factor), y, label);
  });
  return success();
}
