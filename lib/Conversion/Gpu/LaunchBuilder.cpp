//===- LaunchBuilder.cpp - From a kernel's loops to GPU launches ----------===//

#include "LaunchBuilder.h"
#include "../Kernels/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;

int64_t pp::blockFor(int64_t points, int64_t limit) {
  return std::clamp<int64_t>(llvm::alignTo(points, warpSize), warpSize, limit);
}

int64_t pp::product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

/// Whether memory on the stack is a number that each row has for itself.
static bool isOfRows(memref::AllocaOp alloca) {
  return alloca.getType().getRank() == 0 &&
         llvm::all_of(alloca->getUsers(), [](Operation *user) {
           auto loop = user->getParentOfType<scf::ForOp>();
           return loop && loop->hasAttr(pipeline::rowsAttrName);
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
    scratchOffsets[alloca] = reserveScratch(alloca.getType());
  });
}

/// The whole memory that a reshaped or cast memref shows.
static Value wholeMemory(Value memory) {
  while (true) {
    if (auto collapse = memory.getDefiningOp<memref::CollapseShapeOp>())
      memory = collapse.getSrc();
    else if (auto expand = memory.getDefiningOp<memref::ExpandShapeOp>())
      memory = expand.getSrc();
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
      if (loop->hasAttr(pipeline::rowsAttrName)) {
        if (failed(mapRows(loop)))
          return failure();
      } else if (loop->hasAttr(pipeline::scatterAddAttrName)) {
        if (failed(mapScatterAdd(loop)))
          return failure();
      } else if (failed(mapNest(loop))) {
        return failure();
      }
      continue;
    }
    // What remains defines values, which kernels bring in where they need them.
    if (!canSink(&op) && !isa<memref::AllocaOp>(op))
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

bool LaunchBuilder::canSink(Operation *op) {
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

int64_t LaunchBuilder::reserveScratch(MemRefType type) {
  int64_t offset = scratchBytes;
  int64_t bits = std::max<int64_t>(8, type.getElementTypeBitWidth());
  scratchBytes += llvm::alignTo(type.getNumElements() * bits / 8, 64);
  return offset;
}

Value LaunchBuilder::scratchView(MemRefType type, int64_t offset) {
  Value scratch = kernel.getArguments()[function.getNumArguments()];
  return memref::ViewOp::create(builder, loc, type, scratch, index(offset),
                                ValueRange());
}

LogicalResult LaunchBuilder::sink(Value value) {
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
    mapping.map(value, scratchView(type, scratchOffsets.lookup(value)));
    return success();
  }
  for (Value operand : op->getOperands())
    if (failed(sink(operand)))
      return failure();
  if (!canSink(op))
    return op->emitError("a kernel of a GPU cannot compute this itself");
  builder.clone(*op, mapping);
  return success();
}

LogicalResult LaunchBuilder::sinkOperandsOf(Operation *op) {
  LogicalResult result = success();
  auto bringOutside = [&](Operation *nested) {
    for (Value operand : nested->getOperands()) {
      Operation *owner = operand.getParentRegion()->getParentOp();
      if (op->isAncestor(owner))
        continue;
      if (failed(sink(operand)))
        result = failure();
    }
  };
  op->walk([&](Operation *nested) {
    if (succeeded(result))
      bringOutside(nested);
  });
  return result;
}
