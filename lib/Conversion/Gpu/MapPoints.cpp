//===- MapPoints.cpp - Launches of loops without reductions ---------------===//

#include "../Kernels/KernelMemory.h"
#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;

LogicalResult LaunchBuilder::mapParallel(linalg::GenericOp op) {
  LoopBody body(op, mapping);
  int64_t lanes = body.getLanes();
  SmallVector<int64_t> sizes(body.getSizes());
  if (!sizes.empty())
    sizes.back() /= lanes;
  int64_t points = product(sizes);
  if (points == 0)
    return success();
  int64_t block = blockFor(points, plainThreads);
  beginLaunch(op, llvm::divideCeil(points, block), block);
  if (failed(sinkOperandsOf(op)))
    return failure();
  Value first = arith::MulIOp::create(builder, loc, blockIndex(), index(block));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  ifThen(isLess(position, index(points)), [&] {
    SmallVector<Value> indices = delinearize(builder, loc, position, sizes);
    if (lanes > 1)
      indices.back() =
          arith::MulIOp::create(builder, loc, indices.back(), index(lanes));
    body.emitStores(builder, indices, lanes);
  });
  finish();
  return success();
}

LogicalResult LaunchBuilder::mapFill(linalg::FillOp op) {
  Value to = op.getOutputs()[0];
  auto type = cast<MemRefType>(to.getType());
  int64_t elements = type.getNumElements();
  if (elements == 0)
    return success();
  int64_t lanes =
      elements % 4 == 0 && type.getElementTypeBitWidth() >= 8 ? 4 : 1;
  int64_t points = elements / lanes;
  int64_t block = blockFor(points, plainThreads);
  beginLaunch(op, llvm::divideCeil(points, block), block);
  if (failed(sinkOperandsOf(op)))
    return failure();
  Value flat = reshaped(builder, loc, mapping.lookup(to), {elements});
  Value first = arith::MulIOp::create(builder, loc, blockIndex(), index(block));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  ifThen(isLess(position, index(points)), [&] {
    Value value = mapping.lookup(op.getInputs()[0]);
    if (lanes == 1) {
      memref::StoreOp::create(builder, loc, value, flat, position);
      return;
    }
    Value vector = vector::BroadcastOp::create(
        builder, loc, VectorType::get({lanes}, value.getType()), value);
    Value at = arith::MulIOp::create(builder, loc, position, index(lanes));
    vector::StoreOp::create(builder, loc, vector, flat, at);
  });
  finish();
  return success();
}
