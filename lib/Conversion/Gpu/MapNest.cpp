//===- MapNest.cpp - Launches of nests some of whose loops have an order --===//

#include "../Kernels/KernelMemory.h"
#include "LaunchBuilder.h"

#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;

LogicalResult LaunchBuilder::mapNest(scf::ForOp outermost) {
  SmallVector<scf::ForOp> loops;
  getPerfectlyNestedLoops(loops, outermost);
  auto isIndependent = [](scf::ForOp loop) {
    return loop->hasAttr(pipeline::independentAttrName);
  };
  SmallVector<int64_t> sizes;
  for (scf::ForOp loop : llvm::make_filter_range(loops, isIndependent))
    sizes.push_back(getConstantIntValue(loop.getUpperBound()).value_or(0));
  if (sizes.empty())
    return outermost.emitError("a loop that no kernel of a GPU is made for");
  const int64_t points = product(sizes);
  if (points == 0)
    return success();
  const int64_t block = blockFor(points, plainThreads);
  beginLaunch(outermost, llvm::divideCeil(points, block), block);
  if (failed(sinkOperandsOf(outermost)))
    return failure();
  Value first = arith::MulIOp::create(builder, loc, blockIndex(), index(block));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  ifThen(isLess(position, index(points)), [&] {
    SmallVector<Value> own = delinearize(builder, loc, position, sizes);
    auto next = own.begin();
    for (scf::ForOp loop : loops) {
      if (isIndependent(loop)) {
        mapping.map(loop.getInductionVar(), *next++);
        continue;
      }
      auto ordered = scf::ForOp::create(
          builder, loc, mapping.lookupOrDefault(loop.getLowerBound()),
          mapping.lookupOrDefault(loop.getUpperBound()),
          mapping.lookupOrDefault(loop.getStep()));
      mapping.map(loop.getInductionVar(), ordered.getInductionVar());
      builder.setInsertionPointToStart(ordered.getBody());
    }
    for (Operation &op : loops.back().getBody()->without_terminator())
      builder.clone(op, mapping);
  });
  finish();
  return success();
}
