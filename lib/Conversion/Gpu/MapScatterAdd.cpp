//===- MapScatterAdd.cpp - Launches of a scatter-add ----------------------===//
//
// The positions of the indices are sorted by index first, so that the updates
// of one index follow each other:
//
//   rank[p]        = the positions with a smaller index, and those before p
//                    with the same
//   order[rank[p]] = p
//   runs[rank[p]]  = the positions with the index of p if p is the first of
//                    them, else 0
//
// Then a block for each rank adds up the run that starts there, in the order of
// the positions, as the loops on the processor do. For n positions and rows of
// w numbers, that is n * n comparisons of integers, which stay in the caches,
// and n * w additions. (The comparisons for 8192 positions take as long as some
// ten megabytes of updates; from about 10^5 positions on, another sort would
// be worth its launches.)
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelEmitter.h"
#include "../Kernels/KernelMemory.h"
#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace pp;

namespace {

/// The parts of the loops of a scatter-add.
struct ScatterAdd {
  Value table, output, updates;
  /// Updates are before x positions x after, the output before x size x after.
  int64_t before, positions, after, size;
};

} // namespace

static FailureOr<ScatterAdd> matchScatterAdd(scf::ForOp loop) {
  auto numbers =
      loop->getAttrOfType<DenseI64ArrayAttr>(pipeline::scatterAddAttrName)
          .asArrayRef();
  int64_t axis = numbers[0], indexRank = numbers[1];
  SmallVector<memref::LoadOp> loads;
  loop.walk([&](memref::LoadOp load) { loads.push_back(load); });
  if (loads.size() != 3)
    return loop.emitError("not the loops of a scatter-add");
  ScatterAdd parts;
  parts.table = loads[0].getMemref();
  parts.output = loads[1].getMemref();
  parts.updates = loads[2].getMemref();
  auto shape = cast<MemRefType>(parts.updates.getType()).getShape();
  parts.before = product(shape.take_front(axis));
  parts.positions = product(shape.slice(axis, indexRank));
  parts.after = product(shape.drop_front(axis + indexRank));
  parts.size = cast<MemRefType>(parts.output.getType()).getDimSize(axis);
  return parts;
}

LogicalResult LaunchBuilder::mapScatterAdd(scf::ForOp loop) {
  FailureOr<ScatterAdd> parts = matchScatterAdd(loop);
  if (failed(parts))
    return failure();
  auto [table, output, updates, before, positions, after, size] = *parts;
  if (before * positions * after == 0)
    return success();
  auto numbers = MemRefType::get({positions}, builder.getI32Type());
  int64_t orderOffset = reserveScratch(numbers);
  int64_t runsOffset = reserveScratch(numbers);
  auto indexAt = [&, size = size](Value number) {
    return clampedIndex(builder, loc, wrappedIndex(builder, loc, number, size),
                        size);
  };

  // The ranks.
  constexpr int64_t rankThreads = 128;
  int64_t lanes = positions % 4 == 0 ? 4 : 1;
  beginLaunch(loop, positions, blockFor(positions / lanes, rankThreads));
  if (failed(sink(table)))
    return failure();
  Value flatTable = reshaped(builder, loc, mapping.lookup(table), {positions});
  Value position = blockIndex();
  Value mine =
      indexAt(memref::LoadOp::create(builder, loc, flatTable, position));
  Type i32 = builder.getI32Type();
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(builder, loc, predicate, x, y).getResult();
  };
  auto add = [&](Value x, Value y) {
    return arith::AddIOp::create(builder, loc, x, y).getResult();
  };
  Value none =
      arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(i32, 0));
  // Those that come before this one in the order, those of them with the same
  // index, and all with the same index.
  auto count =
      scf::ForOp::create(builder, loc, threadIndex(), index(positions / lanes),
                         index(threads), ValueRange{none, none, none});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(count.getBody());
    Value first = arith::MulIOp::create(builder, loc, count.getInductionVar(),
                                        index(lanes));
    SmallVector<Value> sums(count.getRegionIterArgs());
    auto elements = loadLanes(flatTable, first, lanes);
    for (auto [lane, element] : llvm::enumerate(elements)) {
      Value other = indexAt(element);
      Value isBefore = isLess(add(first, index(lane)), position);
      Value isSame = compare(arith::CmpIPredicate::eq, other, mine);
      Value isSmaller = compare(arith::CmpIPredicate::slt, other, mine);
      Value isSameBefore =
          arith::AndIOp::create(builder, loc, isSame, isBefore);
      Value precedes =
          arith::OrIOp::create(builder, loc, isSmaller, isSameBefore);
      Value conditions[] = {precedes, isSameBefore, isSame};
      for (auto [sum, is] : llvm::zip(sums, conditions))
        sum = add(sum, arith::ExtUIOp::create(builder, loc, i32, is));
    }
    scf::YieldOp::create(builder, loc, sums);
  }
  SmallVector<Value> totals;
  for (Value sum : count.getResults())
    totals.push_back(blockReduce(sum, add));
  ifThen(isZero(threadIndex()), [&] {
    Value rank = arith::IndexCastOp::create(builder, loc,
                                            builder.getIndexType(), totals[0]);
    Value isFirst = compare(arith::CmpIPredicate::eq, totals[1], none);
    Value run = arith::SelectOp::create(builder, loc, isFirst, totals[2], none);
    Value number = arith::IndexCastOp::create(builder, loc, i32, position);
    memref::StoreOp::create(builder, loc, number,
                            scratchView(numbers, orderOffset), rank);
    memref::StoreOp::create(builder, loc, run, scratchView(numbers, runsOffset),
                            rank);
  });
  finish();

  // The sums.
  lanes = after % 4 == 0 ? 4 : 1;
  beginLaunch(loop, before * positions, blockFor(after / lanes, plainThreads));
  if (failed(sink(table)) || failed(sink(output)) || failed(sink(updates)))
    return failure();
  flatTable = reshaped(builder, loc, mapping.lookup(table), {positions});
  Value to =
      reshaped(builder, loc, mapping.lookup(output), {before, size, after});
  Value from = reshaped(builder, loc, mapping.lookup(updates),
                        {before, positions, after});
  Value order = scratchView(numbers, orderOffset);
  Value runs = scratchView(numbers, runsOffset);
  SmallVector<Value> place =
      delinearize(builder, loc, blockIndex(), {before, positions});
  Value prefix = place[0], rank = place[1];
  auto numberAt = [&](Value memory, Value at) -> Value {
    return arith::IndexCastOp::create(
        builder, loc, builder.getIndexType(),
        memref::LoadOp::create(builder, loc, memory, at));
  };
  Value run = numberAt(runs, rank);
  ifThen(isLess(index(0), run), [&, after = after] {
    Value row = indexAt(
        memref::LoadOp::create(builder, loc, flatTable, numberAt(order, rank)));
    auto vector = VectorType::get(
        {lanes}, cast<MemRefType>(to.getType()).getElementType());
    stepLoop(threadIndex(), after / lanes, threads, nullptr,
             [&](Value step, Value) -> Value {
               Value column =
                   arith::MulIOp::create(builder, loc, step, index(lanes));
               Value old = vector::LoadOp::create(
                   builder, loc, vector, to, ValueRange{prefix, row, column});
               auto sum = scf::ForOp::create(builder, loc, index(0), run,
                                             index(1), old);
               {
                 OpBuilder::InsertionGuard guard(builder);
                 builder.setInsertionPointToStart(sum.getBody());
                 Value at = numberAt(order, add(rank, sum.getInductionVar()));
                 Value update =
                     vector::LoadOp::create(builder, loc, vector, from,
                                            ValueRange{prefix, at, column});
                 Value next = arith::AddFOp::create(
                     builder, loc, sum.getRegionIterArgs()[0], update);
                 scf::YieldOp::create(builder, loc, next);
               }
               vector::StoreOp::create(builder, loc, sum.getResult(0), to,
                                       ValueRange{prefix, row, column});
               return nullptr;
             });
  });
  finish();
  return success();
}
