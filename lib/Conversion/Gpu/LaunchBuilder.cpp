//===- LaunchBuilder.cpp - From a kernel's loops to GPU launches ----------===//

#include "LaunchBuilder.h"
#include "../Kernels/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;

static constexpr int64_t warpSize = 32;
/// Threads of a kernel without reductions.
static constexpr int64_t plainThreads = 256;

/// Whether memory on the stack is a number that each row has for itself.
static bool isOfRows(memref::AllocaOp alloca) {
  return alloca.getType().getRank() == 0 &&
         llvm::all_of(alloca->getUsers(), [](Operation *user) {
           auto loop = user->getParentOfType<scf::ForOp>();
           return loop && loop->hasAttr(rowsAttrName);
         });
}

LaunchBuilder::LaunchBuilder(func::FuncOp function, gpu::GPUModuleOp module)
    : function(function), module(module), builder(function.getContext()),
      loc(function.getLoc()) {
  // Numbers of a row become registers; other temporaries move to memory, since
  // several launches may use them.
  function.walk([&](memref::AllocaOp alloca) {
    if (isOfRows(alloca))
      return;
    MemRefType type = alloca.getType();
    scratchOffsets[alloca] = scratchBytes;
    int64_t bits = std::max<int64_t>(8, type.getElementTypeBitWidth());
    scratchBytes += llvm::alignTo(type.getNumElements() * bits / 8, 64);
  });
}

/// The whole memory that a reshaped or cast memref shows.
static Value wholeMemory(Value memory) {
  while (true) {
    if (auto collapse = memory.getDefiningOp<memref::CollapseShapeOp>())
      memory = collapse.getSrc();
    else if (auto cast = memory.getDefiningOp<memref::ReinterpretCastOp>())
      memory = cast.getSource();
    else
      return memory;
  }
}

/// The reduction whose initial value `fill` writes, if it is the next loop
/// nest.
static linalg::GenericOp initialized(linalg::FillOp fill) {
  Operation *next = fill->getNextNode();
  while (next && isMemoryEffectFree(next))
    next = next->getNextNode();
  auto generic = dyn_cast_or_null<linalg::GenericOp>(next);
  bool isReduction = generic && generic.getNumReductionLoops() != 0 &&
                     generic.getNumDpsInits() == 1 &&
                     wholeMemory(generic.getDpsInits()[0]) ==
                         wholeMemory(fill.getOutputs()[0]);
  return isReduction ? generic : nullptr;
}

LogicalResult LaunchBuilder::run() {
  Block &body = function.getBody().front();
  DenseMap<Operation *, linalg::FillOp> initialFills;
  for (Operation &op : body.without_terminator()) {
    loc = op.getLoc();
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      LogicalResult result =
          generic.getNumReductionLoops() == 0
              ? mapParallel(generic)
              : mapReduction(generic, initialFills.lookup(generic));
      if (failed(result))
        return failure();
      continue;
    }
    if (auto fill = dyn_cast<linalg::FillOp>(op)) {
      // A reduction that follows starts from the value itself.
      if (linalg::GenericOp reduction = initialized(fill))
        initialFills[reduction] = fill;
      else if (failed(mapFill(fill)))
        return failure();
      continue;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (loop->hasAttr(rowsAttrName)) {
        if (failed(mapRows(loop)))
          return failure();
      } else if (loop->hasAttr(scatterAddAttrName)) {
        if (failed(mapScatterAdd(loop)))
          return failure();
      } else {
        return op.emitError("a loop that no kernel of a GPU is made for");
      }
      continue;
    }
    // What remains defines values, which kernels bring in where they need them.
    if (!canBring(&op) && !isa<memref::AllocaOp>(op))
      return op.emitError("no kernel of a GPU can be made for this");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

gpu::GPUFuncOp LaunchBuilder::begin(ArrayRef<Type> types, int64_t grid,
                                    int64_t block) {
  mapping.clear();
  cells.clear();
  threads = block;
  std::string name =
      (function.getName() + "_" + llvm::Twine(launches.size())).str();
  launches.push_back({name, grid, block});
  builder.setInsertionPointToEnd(&module.getBodyRegion().front());
  kernel = gpu::GPUFuncOp::create(builder, loc, name,
                                  builder.getFunctionType(types, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                  builder.getUnitAttr());
  kernel.setKnownBlockSizeAttr(
      builder.getDenseI32ArrayAttr({static_cast<int32_t>(block), 1, 1}));
  for (unsigned number = 0; number < types.size(); ++number)
    if (isa<MemRefType>(types[number]))
      kernel.setArgAttr(number, "llvm.noalias", builder.getUnitAttr());
  builder.setInsertionPointToStart(&kernel.getBody().front());
  return kernel;
}

void LaunchBuilder::beginLaunch(Operation *op, int64_t grid, int64_t block) {
  loc = op->getLoc();
  SmallVector<Type> types(function.getArgumentTypes());
  types.push_back(MemRefType::get({std::max<int64_t>(scratchBytes, 1)},
                                  builder.getI8Type()));
  begin(types, grid, block);
  for (BlockArgument argument : function.getArguments())
    mapping.map(argument, kernel.getArgument(argument.getArgNumber()));
}

void LaunchBuilder::finish() {
  builder.setInsertionPointToEnd(&kernel.getBody().front());
  gpu::ReturnOp::create(builder, loc);
}

bool LaunchBuilder::canBring(Operation *op) {
  if (isMemoryEffectFree(op))
    return true;
  // A number that nothing writes from here on.
  auto load = dyn_cast<memref::LoadOp>(op);
  if (!load)
    return false;
  Value memory = load.getMemref();
  if (!isa<BlockArgument>(memory) && !memory.getDefiningOp<memref::AllocaOp>())
    return false;
  return llvm::all_of(memory.getUses(), [&](OpOperand &use) {
    auto structured = dyn_cast<linalg::LinalgOp>(use.getOwner());
    if (isa<memref::LoadOp>(use.getOwner()) ||
        (structured && structured.isDpsInput(&use)))
      return true;
    return structured && structured->getBlock() == load->getBlock() &&
           structured->isBeforeInBlock(load);
  });
}

LogicalResult LaunchBuilder::bring(Value value) {
  if (mapping.contains(value) || cells.count(value))
    return success();
  Operation *op = value.getDefiningOp();
  if (!op)
    return failure();
  if (auto alloca = dyn_cast<memref::AllocaOp>(op)) {
    MemRefType type = alloca.getType();
    if (isOfRows(alloca)) {
      cells[value] = nullptr;
      return success();
    }
    Value scratch = kernel.getArguments()[function.getNumArguments()];
    Value view = memref::ViewOp::create(builder, loc, type, scratch,
                                        index(scratchOffsets.lookup(value)),
                                        ValueRange());
    mapping.map(value, view);
    return success();
  }
  for (Value operand : op->getOperands())
    if (failed(bring(operand)))
      return failure();
  if (!canBring(op))
    return op->emitError("a kernel of a GPU cannot compute this itself");
  builder.clone(*op, mapping);
  return success();
}

LogicalResult LaunchBuilder::bringOperandsOf(Operation *op) {
  LogicalResult result = success();
  auto bringOutside = [&](Operation *nested) {
    for (Value operand : nested->getOperands()) {
      Operation *owner = operand.getParentRegion()->getParentOp();
      if (op->isAncestor(owner))
        continue;
      if (failed(bring(operand)))
        result = failure();
    }
  };
  op->walk([&](Operation *nested) {
    if (succeeded(result))
      bringOutside(nested);
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

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

void LaunchBuilder::barrier() { gpu::BarrierOp::create(builder, loc); }

Value LaunchBuilder::stridedLoop(int64_t end, Value initial,
                                 function_ref<Value(Value, Value)> body) {
  SmallVector<Value> carried;
  if (initial)
    carried.push_back(initial);
  auto loop = scf::ForOp::create(builder, loc, threadIndex(), index(end),
                                 index(threads), carried);
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

Value LaunchBuilder::clampedIndex(Value number, int64_t size) {
  Value wide =
      arith::IndexCastOp::create(builder, loc, builder.getIndexType(), number);
  Value low = arith::MaxSIOp::create(builder, loc, wide, index(0));
  return arith::MinSIOp::create(builder, loc, low, index(size - 1));
}

Value LaunchBuilder::flattened(Value memory, ArrayRef<int64_t> shape) {
  SmallVector<OpFoldResult> sizes, strides(shape.size());
  int64_t stride = 1;
  for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
       --axis) {
    strides[axis] = builder.getIndexAttr(stride);
    stride *= shape[axis];
  }
  for (int64_t size : shape)
    sizes.push_back(builder.getIndexAttr(size));
  auto type = cast<MemRefType>(memory.getType());
  return memref::ReinterpretCastOp::create(
      builder, loc, MemRefType::get(shape, type.getElementType()), memory,
      builder.getIndexAttr(0), sizes, strides);
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

/// A multiple of a warp, at most `limit`.
static int64_t blockFor(int64_t points, int64_t limit) {
  return std::clamp<int64_t>(llvm::alignTo(points, warpSize), warpSize, limit);
}

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
  if (failed(bringOperandsOf(op)))
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
  int64_t points = cast<MemRefType>(to.getType()).getNumElements();
  if (points == 0)
    return success();
  int64_t block = blockFor(points, plainThreads);
  beginLaunch(op, llvm::divideCeil(points, block), block);
  if (failed(bringOperandsOf(op)))
    return failure();
  Value flat = flattened(mapping.lookup(to), {points});
  Value first = arith::MulIOp::create(builder, loc, blockIndex(), index(block));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  ifThen(isLess(position, index(points)), [&] {
    memref::StoreOp::create(builder, loc, mapping.lookup(op.getInputs()[0]),
                            flat, position);
  });
  finish();
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

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
    auto loop = scf::ForOp::create(builder, loc, from, index(rounds),
                                   index(step), body.emitIdentity(builder));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value next =
        addTerm(parallel, loop.getInductionVar(), loop.getRegionIterArgs()[0]);
    scf::YieldOp::create(builder, loc, next);
    return loop.getResult(0);
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

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

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
  beginLaunch(loop, *rows, blockFor(points, points > 2048 ? 1024 : 256));
  if (failed(bringOperandsOf(loop)))
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
    auto at = [&](Value position) -> Value {
      return lanes == 1 ? position
                        : Value(arith::MulIOp::create(builder, loc, position,
                                                      index(lanes)));
    };
    if (generic.getNumReductionLoops() == 0) {
      stridedLoop(end, nullptr, [&](Value position, Value) -> Value {
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
        end, body.emitIdentity(builder), [&](Value position, Value sum) {
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

//===----------------------------------------------------------------------===//
// Scatter-add
//===----------------------------------------------------------------------===//

/// The block of an index position adds up all updates of its index, in order,
/// if no position before has the same index; else it has nothing to do.
LogicalResult LaunchBuilder::mapScatterAdd(scf::ForOp loop) {
  auto numbers =
      loop->getAttrOfType<DenseI64ArrayAttr>(scatterAddAttrName).asArrayRef();
  int64_t axis = numbers[0], indexRank = numbers[1];
  SmallVector<memref::LoadOp> loads;
  loop.walk([&](memref::LoadOp load) { loads.push_back(load); });
  if (loads.size() != 3)
    return loop.emitError("not the loops of a scatter-add");
  Value table = loads[0].getMemref(), output = loads[1].getMemref();
  Value updates = loads[2].getMemref();
  auto outputShape = cast<MemRefType>(output.getType()).getShape();
  auto updateShape = cast<MemRefType>(updates.getType()).getShape();
  int64_t before = product(updateShape.take_front(axis));
  int64_t positions = product(updateShape.slice(axis, indexRank));
  int64_t after = product(updateShape.drop_front(axis + indexRank));
  int64_t size = outputShape[axis];
  if (before * positions * after == 0)
    return success();

  beginLaunch(
      loop, before * positions,
      blockFor(std::max(after, std::min<int64_t>(positions, 256)), 256));
  if (failed(bring(table)) || failed(bring(output)) || failed(bring(updates)))
    return failure();
  Value flatTable = flattened(mapping.lookup(table), {positions});
  Value flatOutput = flattened(mapping.lookup(output), {before, size, after});
  Value flatUpdates =
      flattened(mapping.lookup(updates), {before, positions, after});
  SmallVector<Value> place =
      delinearize(builder, loc, blockIndex(), {before, positions});
  Value prefix = place[0], position = place[1];
  auto indexAt = [&](Value at) {
    return clampedIndex(memref::LoadOp::create(builder, loc, flatTable, at),
                        size);
  };
  Value mine = indexAt(position);
  auto isMine = [&](Value at) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                 indexAt(at), mine);
  };

  // Does a position before have this index?
  Type i32 = builder.getI32Type();
  Value none =
      arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(i32, 0));
  auto search = scf::ForOp::create(builder, loc, threadIndex(), position,
                                   index(threads), none);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(search.getBody());
    Value found = arith::ExtUIOp::create(builder, loc, i32,
                                         isMine(search.getInductionVar()));
    Value any = arith::OrIOp::create(builder, loc,
                                     search.getRegionIterArgs()[0], found);
    scf::YieldOp::create(builder, loc, any);
  }
  Value found = blockReduce(search.getResult(0), [&](Value x, Value y) {
    return arith::OrIOp::create(builder, loc, x, y);
  });
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        found, none);

  ifThen(isFirst, [&] {
    stridedLoop(after, nullptr, [&](Value column, Value) -> Value {
      SmallVector<Value> to = {prefix, mine, column};
      Value old = memref::LoadOp::create(builder, loc, flatOutput, to);
      auto sum = scf::ForOp::create(builder, loc, position, index(positions),
                                    index(1), old);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(sum.getBody());
      Value at = sum.getInductionVar(), total = sum.getRegionIterArgs()[0];
      auto branch =
          scf::IfOp::create(builder, loc, total.getType(), isMine(at), true);
      scf::YieldOp::create(builder, loc, branch.getResult(0));
      builder.setInsertionPointToStart(branch.thenBlock());
      Value update = memref::LoadOp::create(builder, loc, flatUpdates,
                                            ValueRange{prefix, at, column});
      scf::YieldOp::create(
          builder, loc,
          Value(arith::AddFOp::create(builder, loc, total, update)));
      builder.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(builder, loc, total);
      builder.setInsertionPointAfter(sum);
      memref::StoreOp::create(builder, loc, sum.getResult(0), flatOutput, to);
      return nullptr;
    });
  });
  finish();
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult LaunchBuilder::runOptimizer(unsigned states, unsigned scalars) {
  // The type is for addressing only: the number of elements is an argument.
  auto arena = MemRefType::get({int64_t(1) << 40}, builder.getF32Type());
  auto values =
      MemRefType::get({std::max<int64_t>(scalars, 1)}, builder.getF32Type());
  SmallVector<Type> types = {arena, arena, arena, values, builder.getI64Type()};
  begin(types, /*grid=*/0, optimizerThreads);
  // Parameters and states are changed in place.
  Value parameters = kernel.getArgument(0), gradients = kernel.getArgument(1);
  Value state = kernel.getArgument(2), cell = kernel.getArgument(3);
  Value count = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                           kernel.getArgument(4));
  Value first = arith::MulIOp::create(builder, loc, blockIndex(),
                                      index(optimizerThreads));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  LogicalResult result = success();
  ifThen(isLess(position, count), [&] {
    // Memory of the block function to the value of this thread's element.
    DenseMap<Value, Value> elements;
    SmallVector<std::pair<Value, Value>> places; // memory, index
    auto argument = [&](unsigned number) -> Value {
      return function.getArgument(number);
    };
    auto load = [&](unsigned number, Value memory, Value at) {
      elements[argument(number)] =
          memref::LoadOp::create(builder, loc, memory, at);
    };
    unsigned next = 0;
    load(next++, parameters, position);
    places.push_back({parameters, position});
    load(next++, gradients, position);
    for (unsigned i = 0; i < states; ++i) {
      Value offset = arith::MulIOp::create(builder, loc, count, index(i));
      Value at = arith::AddIOp::create(builder, loc, offset, position);
      load(next++, state, at);
      places.push_back({state, at});
    }
    for (unsigned i = 0; i < scalars; ++i)
      load(next++, cell, index(i));
    // Memory that is computed, also on the stack: what later loops read.
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (op.hasTrait<OpTrait::ConstantLike>())
        builder.clone(op, mapping);
      if (op.hasTrait<OpTrait::ConstantLike>() || isa<memref::AllocaOp>(op))
        continue;
      auto generic = dyn_cast<linalg::GenericOp>(op);
      if (!generic || generic.getNumReductionLoops() != 0) {
        result = op.emitError("not a part of an optimizer");
        return;
      }
      LoopBody body(generic, mapping);
      SmallVector<Value> operands;
      for (Value operand : generic->getOperands())
        operands.push_back(elements.lookup(operand));
      SmallVector<Value> results =
          body.emitPoint(builder, ValueRange{position}, operands);
      for (auto [memory, value] : llvm::zip(generic.getDpsInits(), results))
        elements[memory] = value;
    }
    for (auto [number, place] : llvm::enumerate(places)) {
      Value value = elements.lookup(argument(next + number));
      if (!value) {
        result = function.emitError("an optimizer that leaves a result open");
        return;
      }
      memref::StoreOp::create(builder, loc, value, place.first, place.second);
    }
  });
  if (failed(result))
    return failure();
  finish();
  return success();
}
