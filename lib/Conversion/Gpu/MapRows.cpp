//===- MapRows.cpp - Launches of operations on rows -----------------------===//

#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace pp;

LogicalResult LaunchBuilder::mapRows(scf::ForOp loop) {
  auto rows = getConstantIntValue(loop.getUpperBound());
  if (!rows)
    return loop.emitError("a row loop without a constant number of rows");
  if (*rows == 0)
    return success();
  int64_t points = 1;
  loop.walk([&](linalg::GenericOp op) {
    LoopBody body(op, mapping);
    points = std::max(points, product(body.getSizes()) / body.getLanes());
  });
  beginLaunch(loop, *rows, blockFor(points, points > 2048 ? 512 : 256));
  if (failed(sinkOperandsOf(loop)))
    return failure();
  mapping.map(loop.getInductionVar(), blockIndex());
  for (Operation &op : loop.getBody()->without_terminator())
    if (failed(emitRowOperation(&op)))
      return failure();
  finish();
  shareWrittenMemory();
  return success();
}

/// To LLVM, memory that `noalias` promises for this thread alone cannot change
/// at a barrier. Where threads of a block exchange values through memory of the
/// grid, that is not so.
void LaunchBuilder::shareWrittenMemory() {
  kernel.walk([&](Operation *op) {
    Value memory;
    if (auto store = dyn_cast<memref::StoreOp>(op))
      memory = store.getMemref();
    else if (auto vector = dyn_cast<vector::StoreOp>(op))
      memory = vector.getBase();
    else
      return;
    while (auto view = memory.getDefiningOp<ViewLikeOpInterface>())
      memory = view.getViewSource();
    auto argument = dyn_cast<BlockArgument>(memory);
    if (argument && argument.getOwner() == &kernel.getBody().front() &&
        argument.getArgNumber() < kernel.getNumArguments())
      kernel.removeArgAttr(argument.getArgNumber(), "llvm.noalias");
  });
}

LogicalResult LaunchBuilder::emitRowOperation(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    LoopBody body(generic, mapping);
    if (body.getSizes().size() != 1)
      return op->emitError("a row operation over more than columns");
    int64_t lanes = body.getLanes();
    int64_t end = body.getSizes()[0] / lanes;
    // Rows that do not start at multiples of a vector are read number by
    // number.
    int64_t turns = lanes == 1 ? 4 : 2;
    auto at = [&](Value position) -> Value {
      return lanes == 1 ? position
                        : Value(arith::MulIOp::create(builder, loc, position,
                                                      index(lanes)));
    };
    if (generic.getNumReductionLoops() == 0) {
      stridedLoop(threadIndex(), end, threads, turns, nullptr,
                  [&](Value position, Value) -> Value {
                    body.emitStores(builder, at(position), lanes);
                    return nullptr;
                  });
      // Another thread may read what this one wrote.
      barrier();
      return success();
    }
    Value cell = generic.getDpsInits()[0];
    if (!body.getCombiner() || !cells.lookup(cell))
      return op->emitError("a reduction of a row that goes to memory");
    Value part = stridedLoop(
        threadIndex(), end, threads, turns, body.emitIdentity(builder),
        [&](Value position, Value sum) {
          return body.emitReduced(builder, at(position), lanes, sum);
        });
    auto combine = [&](Value x, Value y) {
      return body.emitCombine(builder, x, y);
    };
    Value sum = blockReduce(part, combine);
    cells[cell] = combine(cells.lookup(cell), sum);
    return success();
  }
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    if (cells.count(store.getMemref())) {
      cells[store.getMemref()] = mapping.lookupOrDefault(store.getValue());
      return success();
    }
    barrier();
    ifThen(isZero(threadIndex()), [&] { builder.clone(*store, mapping); });
    barrier();
    return success();
  }
  if (auto load = dyn_cast<memref::LoadOp>(op))
    if (Value cell = cells.lookup(load.getMemref())) {
      mapping.map(load.getResult(), cell);
      return success();
    }
  if (op->getNumRegions() != 0)
    return op->emitError("a row operation that no kernel of a GPU is made for");
  builder.clone(*op, mapping);
  return success();
}
