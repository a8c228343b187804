//===- MapReductions.cpp - Launches of sums, maxima and minima ------------===//

#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;

/// In how many equal parts `blocks` blocks make their sums, each of `rounds`
/// turns, `together` at a time: enough for a few blocks on each of the (at
/// most 150) multiprocessors of a GPU, but with eight turns left for a thread.
static int64_t partsFor(int64_t blocks, int64_t rounds, int64_t together) {
  constexpr int64_t enoughBlocks = 512, mostParts = 64, leastTurns = 8;
  int64_t limit =
      std::min<int64_t>({(enoughBlocks + blocks - 1) / blocks, mostParts,
                         rounds / (leastTurns * together)});
  for (int64_t parts = limit; parts > 1; --parts)
    if (rounds % parts == 0)
      return parts;
  return 1;
}

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
  // Few sums of many terms would leave most of the GPU idle: they are made in
  // parts, which a second launch adds up.
  int64_t parts =
      way == ThreadPerOutput
          ? 1
          : partsFor(way == Columns ? llvm::divideCeil(outputs, columns)
                                    : outputs,
                     rounds, way == Columns ? 32 : 1024);
  rounds /= parts;
  int64_t block = way == ThreadPerOutput  ? blockFor(outputs, plainThreads)
                  : way == BlockPerOutput ? blockFor(rounds, 1024)
                                          : columns * 32;
  int64_t grid =
      way == BlockPerOutput
          ? outputs
          : llvm::divideCeil(outputs, way == Columns ? columns : block);
  auto sumType = MemRefType::get({parts, outputs},
                                 body.getCombiner()->getResult(0).getType());
  int64_t sumsOffset = parts > 1 ? reserveScratch(sumType) : 0;
  auto beginWithOperands = [&](int64_t blocks, int64_t threads) {
    beginLaunch(op, blocks, threads);
    return success(succeeded(sinkOperandsOf(op)) &&
                   (!fill || succeeded(sink(fill.getInputs()[0]))));
  };
  if (failed(beginWithOperands(grid * parts, block)))
    return failure();
  Value part = index(0), group = blockIndex();
  if (parts > 1) {
    SmallVector<Value> place =
        delinearize(builder, loc, blockIndex(), {parts, grid});
    part = place[0];
    group = place[1];
  }
  Value firstTerm = arith::MulIOp::create(builder, loc, part, index(rounds));

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
    if (parts > 1)
      term = arith::AddIOp::create(builder, loc, firstTerm, term);
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
  // What a block found goes to the result, or to the second launch.
  auto finishSum = [&](Value position, ValueRange parallel, Value sum) {
    if (parts == 1)
      store(parallel, sum);
    else
      memref::StoreOp::create(builder, loc, sum,
                              scratchView(sumType, sumsOffset),
                              ValueRange{part, position});
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
        delinearize(builder, loc, group, parallelSizes);
    Value own = loopOverTerms(threadIndex(), block, parallel);
    Value sum = blockReduce(own, combine);
    ifThen(isZero(threadIndex()), [&] { finishSum(group, parallel, sum); });
  } else if (way == ThreadPerOutput) {
    Value first = arith::MulIOp::create(builder, loc, group, index(block));
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
    Value first = arith::MulIOp::create(builder, loc, group, width);
    Value position = arith::AddIOp::create(builder, loc, first, x);
    Value isActive = isLess(position, index(outputs));
    Value shared =
        sharedMemory(block, body.getCombiner()->getResult(0).getType());
    ifThen(isActive, [&] {
      SmallVector<Value> parallel =
          delinearize(builder, loc, position, parallelSizes);
      Value own = loopOverTerms(y, block / columns, parallel);
      memref::StoreOp::create(builder, loc, own, shared, thread);
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
      finishSum(position, parallel, sum);
    });
  }
  finish();
  if (parts == 1)
    return success();

  block = blockFor(outputs, plainThreads);
  if (failed(beginWithOperands(llvm::divideCeil(outputs, block), block)))
    return failure();
  Value first = arith::MulIOp::create(builder, loc, blockIndex(), index(block));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  ifThen(isLess(position, index(outputs)), [&] {
    Value sums = scratchView(sumType, sumsOffset);
    Value sum =
        stepLoop(index(0), parts, 1, body.emitIdentity(builder),
                 [&](Value number, Value carried) {
                   Value next = memref::LoadOp::create(
                       builder, loc, sums, ValueRange{number, position});
                   return combine(carried, next);
                 });
    store(delinearize(builder, loc, position, parallelSizes), sum);
  });
  finish();
  return success();
}
