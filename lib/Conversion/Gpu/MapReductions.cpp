//===- MapReductions.cpp - Launches of sums, maxima and minima ------------===//

#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;

LogicalResult LaunchBuilder::mapReduction(linalg::GenericOp op,
                                          linalg::FillOp fill) {
  LoopBody body(op, mapping);
  if (!body.getCombiner())
    return op.emitError("a reduction that no kernel of a GPU is made for");
  ArrayRef<int64_t> sizes = body.getSizes();
  auto iterators = op.getIteratorTypesArray();
  SmallVector<int64_t> parallelSizes, reducedSizes;
  for (auto [size, iterator] : llvm::zip(sizes, iterators))
    (iterator == utils::IteratorType::parallel ? parallelSizes : reducedSizes)
        .push_back(size);
  int64_t outputs = product(parallelSizes), terms = product(reducedSizes);
  if (outputs == 0)
    return success();

  bool isInnermostReduced = iterators.back() == utils::IteratorType::reduction;
  constexpr int64_t shortSum = 32, columns = warpSize;
  enum {
    ThreadPerOutput,
    BlockPerOutput,
    Columns
  } way = terms <= shortSum    ? ThreadPerOutput
          : isInnermostReduced ? BlockPerOutput
                               : Columns;
  int64_t lanes = way == BlockPerOutput ? body.getLanes() : 1;
  if (lanes > 1)
    reducedSizes.back() /= lanes;
  int64_t rounds = product(reducedSizes);
  int64_t block = way == ThreadPerOutput  ? blockFor(outputs, plainThreads)
                  : way == BlockPerOutput ? blockFor(rounds, 1024)
                                          : columns * 32;
  int64_t grid =
      way == BlockPerOutput
          ? outputs
          : llvm::divideCeil(outputs, way == Columns ? columns : block);
  beginLaunch(op, grid, block);
  if (failed(bringOperandsOf(op)))
    return failure();
  if (fill && failed(bring(fill.getInputs()[0])))
    return failure();

  // Indices of all loops, from those of the outputs and of the terms.
  auto merge = [&](ValueRange parallel, ValueRange reduced) {
    SmallVector<Value> indices;
    unsigned p = 0, r = 0;
    for (utils::IteratorType iterator : iterators)
      indices.push_back(iterator == utils::IteratorType::parallel
                            ? parallel[p++]
                            : reduced[r++]);
    return indices;
  };
  auto addTerm = [&](ValueRange parallel, Value term, Value sum) {
    SmallVector<Value> reduced = delinearize(builder, loc, term, reducedSizes);
    if (lanes > 1)
      reduced.back() =
          arith::MulIOp::create(builder, loc, reduced.back(), index(lanes));
    return body.emitReduced(builder, merge(parallel, reduced), lanes, sum);
  };
  auto combine = [&](Value x, Value y) {
    return body.emitCombine(builder, x, y);
  };
  auto store = [&](ValueRange parallel, Value sum) {
    OpOperand &output = op.getDpsInitsMutable()[0];
    Value to = mapping.lookup(output.get());
    SmallVector<Value> at;
    SmallVector<Value> reduced(reducedSizes.size());
    SmallVector<Value> indices = merge(parallel, reduced);
    for (AffineExpr expr : op.getMatchingIndexingMap(&output).getResults())
      at.push_back(indices[cast<AffineDimExpr>(expr).getPosition()]);
    Value initial = fill ? mapping.lookup(fill.getInputs()[0])
                         : Value(memref::LoadOp::create(builder, loc, to, at));
    memref::StoreOp::create(builder, loc, combine(initial, sum), to, at);
  };
  auto loopOverTerms = [&](Value from, int64_t step, ValueRange parallel) {
    // A thread that has all terms has few; LLVM unrolls their loop.
    int64_t turns = step == 1 ? 1 : 4;
    return stridedLoop(
        from, rounds, step, turns, body.emitIdentity(builder),
        [&](Value term, Value sum) { return addTerm(parallel, term, sum); });
  };

  if (way == BlockPerOutput) {
    SmallVector<Value> parallel =
        delinearize(builder, loc, blockIndex(), parallelSizes);
    Value part = loopOverTerms(threadIndex(), block, parallel);
    Value sum = blockReduce(part, combine);
    ifThen(isZero(threadIndex()), [&] { store(parallel, sum); });
  } else if (way == ThreadPerOutput) {
    Value first =
        arith::MulIOp::create(builder, loc, blockIndex(), index(block));
    Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
    ifThen(isLess(position, index(outputs)), [&] {
      SmallVector<Value> parallel =
          delinearize(builder, loc, position, parallelSizes);
      store(parallel, loopOverTerms(index(0), 1, parallel));
    });
  } else {
    Value thread = threadIndex(), width = index(columns);
    Value x = arith::RemUIOp::create(builder, loc, thread, width);
    Value y = arith::DivUIOp::create(builder, loc, thread, width);
    Value first = arith::MulIOp::create(builder, loc, blockIndex(), width);
    Value position = arith::AddIOp::create(builder, loc, first, x);
    Value isActive = isLess(position, index(outputs));
    Value shared =
        sharedMemory(block, body.getCombiner()->getResult(0).getType());
    ifThen(isActive, [&] {
      SmallVector<Value> parallel =
          delinearize(builder, loc, position, parallelSizes);
      Value part = loopOverTerms(y, block / columns, parallel);
      memref::StoreOp::create(builder, loc, part, shared, thread);
    });
    barrier();
    Value isFirst = arith::AndIOp::create(builder, loc, isActive, isZero(y));
    ifThen(isFirst, [&] {
      SmallVector<Value> parallel =
          delinearize(builder, loc, position, parallelSizes);
      Value sum = memref::LoadOp::create(builder, loc, shared, x);
      for (int64_t row = 1; row < block / columns; ++row) {
        Value at = arith::AddIOp::create(builder, loc, x, index(row * columns));
        sum = combine(sum, memref::LoadOp::create(builder, loc, shared, at));
      }
      store(parallel, sum);
    });
  }
  finish();
  return success();
}
