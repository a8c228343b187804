//===- BlockOperations.cpp - What the threads of a block do together ------===//

#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace pp;

Value LaunchBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}
Value LaunchBuilder::threadIndex() {
  return gpu::ThreadIdOp::create(builder, loc, builder.getIndexType(),
                                 gpu::Dimension::x);
}
Value LaunchBuilder::blockIndex() {
  return gpu::BlockIdOp::create(builder, loc, builder.getIndexType(),
                                gpu::Dimension::x);
}
Value LaunchBuilder::isLess(Value x, Value y) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, x, y);
}
Value LaunchBuilder::isZero(Value x) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, x,
                               index(0));
}

void LaunchBuilder::ifThen(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*else=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(branch.thenYield());
  body();
}

SmallVector<Value> LaunchBuilder::loadLanes(Value memory, Value first,
                                            int64_t lanes) {
  if (lanes == 1)
    return {memref::LoadOp::create(builder, loc, memory, first)};
  auto type = VectorType::get(
      {lanes}, cast<MemRefType>(memory.getType()).getElementType());
  Value vector = vector::LoadOp::create(builder, loc, type, memory, first);
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < lanes; ++lane)
    elements.push_back(vector::ExtractOp::create(builder, loc, vector, lane));
  return elements;
}

void LaunchBuilder::barrier() { gpu::BarrierOp::create(builder, loc); }

Value LaunchBuilder::stepLoop(Value from, int64_t end, int64_t step,
                              Value initial,
                              function_ref<Value(Value, Value)> body) {
  SmallVector<Value> carried;
  if (initial)
    carried.push_back(initial);
  auto loop =
      scf::ForOp::create(builder, loc, from, index(end), index(step), carried);
  OpBuilder::InsertionGuard guard(builder);
  if (initial) {
    builder.setInsertionPointToStart(loop.getBody());
    Value next = body(loop.getInductionVar(), loop.getRegionIterArgs()[0]);
    scf::YieldOp::create(builder, loc, next);
    return loop.getResult(0);
  }
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar(), nullptr);
  return nullptr;
}

Value LaunchBuilder::stridedLoop(Value from, int64_t end, int64_t stride,
                                 int64_t turns, Value initial,
                                 function_ref<Value(Value, Value)> body) {
  int64_t together = end / (turns * stride) * turns * stride;
  if (turns > 1 && together > 0) {
    initial = stepLoop(from, together, turns * stride, initial,
                       [&](Value position, Value carried) {
                         for (int64_t turn = 0; turn < turns; ++turn)
                           carried = body(
                               arith::AddIOp::create(builder, loc, position,
                                                     index(turn * stride)),
                               carried);
                         return carried;
                       });
    if (together == end)
      return initial;
    from = arith::AddIOp::create(builder, loc, from, index(together));
  }
  return stepLoop(from, end, stride, initial, body);
}

Value LaunchBuilder::sharedMemory(int64_t elements, Type type) {
  auto space = gpu::AddressSpaceAttr::get(
      builder.getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
  return kernel.addWorkgroupAttribution(
      MemRefType::get({elements}, type, MemRefLayoutAttrInterface(), space),
      loc);
}

Value LaunchBuilder::shuffled(Value value, int64_t mask) {
  Type i32 = builder.getI32Type(), type = value.getType();
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 32) {
    auto constant = [&](int64_t number) -> Value {
      return arith::ConstantOp::create(builder, loc,
                                       builder.getIntegerAttr(i32, number));
    };
    return gpu::ShuffleOp::create(builder, loc, value, constant(mask),
                                  constant(warpSize), gpu::ShuffleMode::XOR)
        .getShuffleResult();
  }
  // The hardware exchanges 32 bits.
  if (isa<FloatType>(type)) {
    Value bits = arith::BitcastOp::create(builder, loc,
                                          builder.getIntegerType(width), value);
    return arith::BitcastOp::create(builder, loc, type, shuffled(bits, mask));
  }
  if (width < 32) {
    Value wide = arith::ExtUIOp::create(builder, loc, i32, value);
    return arith::TruncIOp::create(builder, loc, type, shuffled(wide, mask));
  }
  Value half =
      arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, 32));
  Value upper = arith::ShRUIOp::create(builder, loc, value, half);
  Value words[] = {value, upper};
  for (Value &word : words) {
    word = arith::TruncIOp::create(builder, loc, i32, word);
    word = arith::ExtUIOp::create(builder, loc, type, shuffled(word, mask));
  }
  upper = arith::ShLIOp::create(builder, loc, words[1], half);
  return arith::OrIOp::create(builder, loc, upper, words[0]);
}

Value LaunchBuilder::blockReduce(Value value,
                                 function_ref<Value(Value, Value)> combine) {
  for (int64_t offset = warpSize / 2; offset > 0; offset /= 2)
    value = combine(value, shuffled(value, offset));
  int64_t warps = threads / warpSize;
  if (warps == 1)
    return value;
  Value shared = sharedMemory(warps, value.getType());
  Value thread = threadIndex(), width = index(warpSize);
  Value lane = arith::RemUIOp::create(builder, loc, thread, width);
  ifThen(isZero(lane), [&] {
    Value warp = arith::DivUIOp::create(builder, loc, thread, width);
    memref::StoreOp::create(builder, loc, value, shared, warp);
  });
  barrier();
  Value total = memref::LoadOp::create(builder, loc, shared, index(0));
  for (int64_t warp = 1; warp < warps; ++warp)
    total = combine(total,
                    memref::LoadOp::create(builder, loc, shared, index(warp)));
  return total;
}
