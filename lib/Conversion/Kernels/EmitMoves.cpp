//===- EmitMoves.cpp - Operations that move elements ----------------------===//

#include "KernelEmitter.h"
#include "KernelMemory.h"
#include "LoopBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// A loop nest over all elements of `output`; `element` makes the value of one
/// from the indices.
static void
forEachElement(OpBuilder &builder, Location loc, Value output,
               function_ref<Value(OpBuilder &, ArrayRef<Value>)> element) {
  int64_t rank = cast<MemRefType>(output.getType()).getRank();
  SmallVector<AffineMap> maps = {builder.getMultiDimIdentityMap(rank)};
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  linalg::GenericOp::create(
      builder, loc, TypeRange(), ValueRange(), output, maps, iterators,
      [&](OpBuilder &body, Location, ValueRange) {
        SmallVector<Value> indices;
        for (int64_t axis = 0; axis < rank; ++axis)
          indices.push_back(linalg::IndexOp::create(body, loc, axis));
        linalg::YieldOp::create(body, loc, element(body, indices));
      });
}

/// Copies between memrefs of one shape.
static void copyElements(OpBuilder &builder, Location loc, Value from,
                         Value to) {
  int64_t rank = cast<MemRefType>(to.getType()).getRank();
  SmallVector<AffineMap> maps(2, builder.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  linalg::GenericOp::create(builder, loc, TypeRange(), from, to, maps,
                            iterators,
                            [&](OpBuilder &body, Location, ValueRange x) {
                              linalg::YieldOp::create(body, loc, x[0]);
                            });
}

static SmallVector<OpFoldResult> attributes(OpBuilder &builder,
                                            ArrayRef<int64_t> values) {
  return llvm::map_to_vector(values, [&](int64_t value) -> OpFoldResult {
    return builder.getIndexAttr(value);
  });
}

static Value indexConstant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

LogicalResult KernelEmitter::emitSlice(SliceOp op) {
  Value view = memref::SubViewOp::create(
      builder, loc, memoryOf(op.getInput()),
      attributes(builder, op.getStarts()),
      attributes(builder, op.getOutput().getType().getShape()),
      attributes(builder, op.getStrides()));
  copyElements(builder, loc, view, memoryOf(op.getOutput()));
  return success();
}

LogicalResult KernelEmitter::emitPad(PadOp op) {
  // Fill, then write the elements to their strided places.
  Value output = memoryOf(op.getOutput());
  auto type = op.getOutput().getType();
  Value fill = arith::ConstantOp::create(
      builder, loc,
      builder.getFloatAttr(type.getElementType(),
                           op.getValue().convertToDouble()));
  linalg::FillOp::create(builder, loc, fill, output);
  SmallVector<int64_t> strides;
  for (int64_t interior : op.getInterior())
    strides.push_back(interior + 1);
  Value view = memref::SubViewOp::create(
      builder, loc, output, attributes(builder, op.getLow()),
      attributes(builder, op.getInput().getType().getShape()),
      attributes(builder, strides));
  copyElements(builder, loc, memoryOf(op.getInput()), view);
  return success();
}

LogicalResult KernelEmitter::emitConcat(ConcatOp op) {
  Value output = memoryOf(op.getOutput());
  int64_t rank = op.getOutput().getType().getRank();
  SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
  for (Value input : op.getInputs()) {
    auto shape = cast<RankedTensorType>(input.getType()).getShape();
    Value view = memref::SubViewOp::create(
        builder, loc, output, attributes(builder, offsets),
        attributes(builder, shape), attributes(builder, strides));
    copyElements(builder, loc, memoryOf(input), view);
    offsets[op.getAxis()] += shape[op.getAxis()];
  }
  return success();
}

LogicalResult KernelEmitter::emitTranspose(TransposeOp op) {
  // result[i0, i1, ...] = input[...]: loop over the result, so that writes are
  // in order.
  int64_t rank = op.getOutput().getType().getRank();
  SmallVector<AffineExpr> reads(rank);
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    reads[from] = builder.getAffineDimExpr(to);
  SmallVector<AffineMap> maps = {
      AffineMap::get(rank, 0, reads, builder.getContext()),
      builder.getMultiDimIdentityMap(rank)};
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  linalg::GenericOp::create(builder, loc, TypeRange(), memoryOf(op.getInput()),
                            memoryOf(op.getOutput()), maps, iterators,
                            [&](OpBuilder &body, Location, ValueRange x) {
                              linalg::YieldOp::create(body, loc, x[0]);
                            });
  return success();
}

LogicalResult KernelEmitter::emitGather(GatherOp op) {
  int64_t axis = op.getAxis(), shared = op.getShared();
  int64_t indexRank = op.getIndices().getType().getRank() - shared;
  int64_t size = op.getInput().getType().getDimSize(axis);
  Value input = memoryOf(op.getInput()), table = memoryOf(op.getIndices());
  forEachElement(builder, loc, memoryOf(op.getOutput()),
                 [&](OpBuilder &body, ArrayRef<Value> at) -> Value {
                   SmallVector<Value> place(at.take_front(shared));
                   llvm::append_range(place, at.slice(axis, indexRank));
                   Value index =
                       memref::LoadOp::create(body, loc, table, place);
                   index = wrappedIndex(body, loc, index, size);
                   SmallVector<Value> from(at.take_front(axis));
                   from.push_back(clampedIndex(body, loc, index, size));
                   llvm::append_range(from, at.drop_front(axis + indexRank));
                   Value value = memref::LoadOp::create(body, loc, input, from);
                   return ifInside(body, loc, index, size, value);
                 });
  return success();
}

/// How many threads walk along the same indices, where so many lines of the
/// output have nothing to do with each other: enough to fill a GPU.
static int64_t countOwners(int64_t lines, int64_t positions, int64_t size) {
  constexpr int64_t wantedThreads = 4096, fewPositions = 16;
  if (lines >= wantedThreads || positions <= fewPositions)
    return 1;
  return std::min<int64_t>(size, llvm::divideCeil(wantedThreads, lines));
}

/// Loops over the elements of `updates` in row-major order; `body` gets their
/// indices, and those of the element of `output` that they go to. Only the
/// loops over `indices` have an order. For a GPU, one more loop shares the
/// slices of the axis out where the other loops are short: iteration i of n
/// walks along all indices, and takes those of the slices i, i + n, ...
template <typename Op>
static scf::LoopNest forEachUpdate(
    OpBuilder &builder, Location loc, Op op, Value table, bool isForGpu,
    function_ref<void(OpBuilder &, ArrayRef<Value>, ArrayRef<Value>)> body) {
  auto updatesType = op.getUpdates().getType();
  int64_t axis = op.getAxis(), shared = op.getShared();
  int64_t indexRank = op.getIndices().getType().getRank() - shared;
  int64_t size = op.getOutput().getType().getDimSize(axis);
  SmallVector<int64_t> turns(updatesType.getShape());
  const int64_t rank = turns.size();
  auto isOrdered = [&](int64_t loop) {
    return loop >= axis && loop < axis + indexRank;
  };
  int64_t lines = 1, positions = 1;
  for (auto [loop, count] : llvm::enumerate(turns))
    (isOrdered(loop) ? positions : lines) *= count;
  const int64_t owners =
      isForGpu && lines > 0 ? countOwners(lines, positions, size) : 1;
  // A single thread takes one turn of a loop too.
  if (owners > 1 || rank == indexRank)
    turns.push_back(owners);
  SmallVector<Value> lower, upper, step;
  for (int64_t count : turns) {
    lower.push_back(indexConstant(builder, loc, 0));
    upper.push_back(indexConstant(builder, loc, count));
    step.push_back(indexConstant(builder, loc, 1));
  }
  scf::LoopNest nest = scf::buildLoopNest(
      builder, loc, lower, upper, step,
      [&](OpBuilder &inner, Location, ValueRange at) {
        SmallVector<Value> from(at.take_front(rank));
        ArrayRef<Value> indices(from);
        SmallVector<Value> place(indices.take_front(shared));
        llvm::append_range(place, indices.slice(axis, indexRank));
        Value index = memref::LoadOp::create(inner, loc, table, place);
        index = clampedIndex(inner, loc, wrappedIndex(inner, loc, index, size),
                             size);
        SmallVector<Value> to(indices.take_front(axis));
        to.push_back(index);
        llvm::append_range(to, indices.drop_front(axis + indexRank));
        if (owners == 1) {
          body(inner, from, to);
          return;
        }
        Value owner = arith::RemUIOp::create(inner, loc, index,
                                             indexConstant(inner, loc, owners));
        Value isOwn = arith::CmpIOp::create(
            inner, loc, arith::CmpIPredicate::eq, owner, at.back());
        auto own = scf::IfOp::create(inner, loc, isOwn);
        OpBuilder then = own.getThenBodyBuilder();
        body(then, from, to);
      });
  for (auto [loop, op] : llvm::enumerate(nest.loops))
    if (!isOrdered(loop))
      op->setAttr(pipeline::independentAttrName, builder.getUnitAttr());
  return nest;
}

LogicalResult KernelEmitter::emitScatterAdd(ScatterAddOp op) {
  // One update after the other, in row-major order of the indices: the sums
  // have the same bits in every run.
  Value output = memoryOf(op.getOutput()), updates = memoryOf(op.getUpdates());
  Type element = getScalarType(op.getOutput().getType().getElementType());
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(element));
  linalg::FillOp::create(builder, loc, zero, output);
  // What a GPU has kernels of its own for.
  const bool isSorted = op.getShared() == 0 && isa<FloatType>(element);
  scf::LoopNest nest = forEachUpdate(
      builder, loc, op, memoryOf(op.getIndices()), isForGpu() && !isSorted,
      [&](OpBuilder &body, ArrayRef<Value> from, ArrayRef<Value> to) {
        Value old = memref::LoadOp::create(body, loc, output, to);
        Value update = memref::LoadOp::create(body, loc, updates, from);
        Value sum = isa<FloatType>(element)
                        ? Value(arith::AddFOp::create(body, loc, old, update))
                        : arith::AddIOp::create(body, loc, old, update);
        memref::StoreOp::create(body, loc, sum, output, to);
      });
  if (isSorted)
    nest.loops.front()->setAttr(
        pipeline::scatterAddAttrName,
        builder.getDenseI64ArrayAttr({static_cast<int64_t>(op.getAxis()),
                                      op.getIndices().getType().getRank()}));
  return success();
}

LogicalResult KernelEmitter::emitScatter(ScatterOp op) {
  Value output = memoryOf(op.getOutput()), updates = memoryOf(op.getUpdates());
  copyElements(builder, loc, memoryOf(op.getInput()), output);
  bool isUnsigned =
      op.getOutput().getType().getElementType().isUnsignedInteger();
  forEachUpdate(
      builder, loc, op, memoryOf(op.getIndices()), isForGpu(),
      [&](OpBuilder &body, ArrayRef<Value> from, ArrayRef<Value> to) {
        Value update = memref::LoadOp::create(body, loc, updates, from);
        if (auto how = op.getCombine()) {
          Value old = memref::LoadOp::create(body, loc, output, to);
          update = combineElements(body, loc, *how, isUnsigned, old, update);
        }
        memref::StoreOp::create(body, loc, update, output, to);
      });
  return success();
}

LogicalResult KernelEmitter::emitDotGeneral(DotGeneralOp op) {
  // Only where the library has no kernel: batch, free and contracted loops.
  SmallVector<int64_t> lhsFree = op.getFreeAxes(false);
  SmallVector<int64_t> rhsFree = op.getFreeAxes(true);
  int64_t batches = op.getLhsBatch().size();
  int64_t loops =
      batches + lhsFree.size() + rhsFree.size() + op.getLhsContract().size();
  SmallVector<AffineExpr> lhs(op.getLhs().getType().getRank());
  SmallVector<AffineExpr> rhs(op.getRhs().getType().getRank()), output;
  int64_t next = 0;
  auto assign = [&](ArrayRef<int64_t> left, ArrayRef<int64_t> right,
                    bool isOutput) {
    for (size_t i = 0; i < std::max(left.size(), right.size()); ++i, ++next) {
      if (!left.empty())
        lhs[left[i]] = builder.getAffineDimExpr(next);
      if (!right.empty())
        rhs[right[i]] = builder.getAffineDimExpr(next);
      if (isOutput)
        output.push_back(builder.getAffineDimExpr(next));
    }
  };
  assign(op.getLhsBatch(), op.getRhsBatch(), true);
  assign(lhsFree, {}, true);
  assign({}, rhsFree, true);
  assign(op.getLhsContract(), op.getRhsContract(), false);
  SmallVector<utils::IteratorType> iterators(loops,
                                             utils::IteratorType::parallel);
  for (int64_t loop = loops - op.getLhsContract().size(); loop < loops; ++loop)
    iterators[loop] = utils::IteratorType::reduction;
  Value memory = memoryOf(op.getOutput());
  Value zero = arith::ConstantOp::create(
      builder, loc,
      builder.getZeroAttr(op.getOutput().getType().getElementType()));
  linalg::FillOp::create(builder, loc, zero, memory);
  MLIRContext *context = builder.getContext();
  SmallVector<AffineMap> maps = {AffineMap::get(loops, 0, lhs, context),
                                 AffineMap::get(loops, 0, rhs, context),
                                 AffineMap::get(loops, 0, output, context)};
  linalg::GenericOp::create(
      builder, loc, TypeRange(),
      ValueRange{memoryOf(op.getLhs()), memoryOf(op.getRhs())}, memory, maps,
      iterators, [&](OpBuilder &body, Location, ValueRange x) {
        Value product = arith::MulFOp::create(body, loc, x[0], x[1]);
        Value sum = arith::AddFOp::create(body, loc, x[2], product,
                                          arith::FastMathFlags::reassoc);
        linalg::YieldOp::create(body, loc, sum);
      });
  return success();
}
