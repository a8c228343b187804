//===- LowerToMock.cpp - Kernels of a GPU as functions of the host ------===//

#include "pp/Conversion/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pprt/pprt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

namespace pp {
#define GEN_PASS_DEF_LOWERTOMOCK
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;

namespace {

/// Makes the function of one kernel.
class ThreadBuilder {
public:
  ThreadBuilder(ModuleOp code, gpu::GPUFuncOp kernel)
      : kernel(kernel), builder(code.getBodyRegion()), loc(kernel.getLoc()) {
    builder.setInsertionPointToEnd(code.getBody());
  }

  LogicalResult run() {
    makeFunction();
    placeSharedMemory();
    for (Operation &op : kernel.getBody().front().without_terminator())
      builder.clone(op, mapping);
    func::ReturnOp::create(builder, loc);
    LogicalResult result = success();
    function.walk([&](Operation *op) {
      if (isa_and_nonnull<gpu::GPUDialect>(op->getDialect()))
        result = failed(replace(op)) ? failure() : result;
    });
    function.walk([&](Operation *op) { guard(op); });
    function->setAttr(pipeline::mockKernelAttrName,
                      pipeline::MockKernelAttr::get(builder.getContext(),
                                                    sharedBytes,
                                                    /*waits=*/places > 0));
    return result;
  }

private:
  void makeFunction() {
    SmallVector<Type> types(kernel.getArgumentTypes());
    types.push_back(MemRefType::get({getSharedBytes()}, builder.getI8Type()));
    types.append(2, builder.getIndexType());
    function = func::FuncOp::create(builder, loc, kernel.getName(),
                                    builder.getFunctionType(types, {}));
    Block *entry = function.addEntryBlock();
    for (unsigned number = 0; number < types.size() - 3; ++number) {
      mapping.map(kernel.getArgument(number), entry->getArgument(number));
      if (kernel.getArgAttr(number, LLVM::LLVMDialect::getNoAliasAttrName()))
        function.setArgAttr(number, LLVM::LLVMDialect::getNoAliasAttrName(),
                            builder.getUnitAttr());
    }
    unsigned next = types.size() - 3;
    shared = entry->getArgument(next);
    block = entry->getArgument(next + 1);
    thread = entry->getArgument(next + 2);
    builder.setInsertionPointToStart(entry);
  }

  static int64_t getBytes(MemRefType type) {
    int64_t bits = std::max<int64_t>(8, type.getElementTypeBitWidth());
    return llvm::alignTo(type.getNumElements() * bits / 8, 64);
  }

  int64_t getSharedBytes() {
    for (BlockArgument memory : kernel.getWorkgroupAttributions())
      sharedBytes += getBytes(cast<MemRefType>(memory.getType()));
    return sharedBytes;
  }

  void placeSharedMemory() {
    int64_t offset = 0;
    for (BlockArgument memory : kernel.getWorkgroupAttributions()) {
      auto type = cast<MemRefType>(memory.getType());
      auto plain = MemRefType::get(type.getShape(), type.getElementType());
      Value start = arith::ConstantIndexOp::create(builder, loc, offset);
      mapping.map(memory, memref::ViewOp::create(builder, loc, plain, shared,
                                                 start, ValueRange()));
      offset += getBytes(type);
    }
  }

  Value place() {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI32IntegerAttr(places++));
  }

  LogicalResult replace(Operation *op) {
    builder.setInsertionPoint(op);
    loc = op->getLoc();
    if (auto id = dyn_cast<gpu::ThreadIdOp>(op))
      return replaceIndex(op, id.getDimension(), thread);
    if (auto id = dyn_cast<gpu::BlockIdOp>(op))
      return replaceIndex(op, id.getDimension(), block);
    if (isa<gpu::BarrierOp>(op)) {
      func::CallOp::create(builder, loc, "pp_mock_barrier", TypeRange(),
                           place());
      op->erase();
      return success();
    }
    if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op))
      return replaceShuffle(shuffle);
    return op->emitOpError("cannot run on the mock device");
  }

  LogicalResult replaceIndex(Operation *op, gpu::Dimension dimension,
                             Value value) {
    if (dimension != gpu::Dimension::x)
      return op->emitOpError(
          "cannot run on the mock device: grids and blocks have one "
          "dimension");
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return success();
  }

  LogicalResult replaceShuffle(gpu::ShuffleOp op) {
    Type type = op.getValue().getType();
    bool isWord = type.isInteger(32) || type.isF32();
    if (op.getMode() != gpu::ShuffleMode::XOR || !isWord ||
        getConstantIntValue(op.getWidth()) != 32 || !op.getValid().use_empty())
      return op->emitOpError(
          "cannot run on the mock device: expected one that exchanges "
          "32 bits by XOR in a warp of 32");
    Type i32 = builder.getI32Type();
    Value bits = op.getValue();
    if (type != i32)
      bits = arith::BitcastOp::create(builder, loc, i32, bits);
    Value result =
        func::CallOp::create(builder, loc, "pp_mock_shuffle", TypeRange(i32),
                             ValueRange{bits, op.getOffset(), place()})
            .getResult(0);
    if (type != i32)
      result = arith::BitcastOp::create(builder, loc, type, result);
    op.getShuffleResult().replaceAllUsesWith(result);
    op->erase();
    return success();
  }

  /// Reports an access outside of its memory and makes it one of the first
  /// element; reports vectors that a GPU cannot access at once.
  void guard(Operation *op) {
    if (auto load = dyn_cast<memref::LoadOp>(op))
      guardBounds(op, load.getMemref(), load.getIndicesMutable(), 1);
    else if (auto store = dyn_cast<memref::StoreOp>(op))
      guardBounds(op, store.getMemref(), store.getIndicesMutable(), 1);
    else if (auto load = dyn_cast<vector::LoadOp>(op))
      guardVector(op, load.getBase(), load.getIndicesMutable(),
                  load.getVectorType().getNumElements());
    else if (auto store = dyn_cast<vector::StoreOp>(op))
      guardVector(op, store.getBase(), store.getIndicesMutable(),
                  store.getVectorType().getNumElements());
  }

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }

  void reportUnless(Value condition, int32_t fault) {
    Value no =
        arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
    Value isFault = arith::XOrIOp::create(builder, loc, condition, no);
    auto branch = scf::IfOp::create(builder, loc, isFault, /*else=*/false);
    OpBuilder::InsertionGuard insertion(builder);
    builder.setInsertionPoint(branch.thenYield());
    Value number = arith::ConstantOp::create(builder, loc,
                                             builder.getI32IntegerAttr(fault));
    func::CallOp::create(builder, loc, "pp_mock_fault", TypeRange(),
                         ValueRange{number, block, thread});
  }

  void guardBounds(Operation *op, Value memory, MutableOperandRange indices,
                   int64_t lanes) {
    builder.setInsertionPoint(op);
    loc = op->getLoc();
    ArrayRef<int64_t> shape = cast<MemRefType>(memory.getType()).getShape();
    Value isInside;
    for (auto [axis, operand] : llvm::enumerate(indices)) {
      bool isLast = axis + 1 == shape.size();
      Value end = index(shape[axis] - (isLast ? lanes - 1 : 0));
      Value isLess = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::ult, operand.get(), end);
      isInside = isInside
                     ? arith::AndIOp::create(builder, loc, isInside, isLess)
                     : isLess;
    }
    if (!isInside)
      return;
    reportUnless(isInside, PP_FAULT_OUT_OF_BOUNDS);
    for (OpOperand &operand : indices)
      operand.set(arith::SelectOp::create(builder, loc, isInside, operand.get(),
                                          index(0)));
  }

  void guardVector(Operation *op, Value memory, MutableOperandRange indices,
                   int64_t lanes) {
    guardBounds(op, memory, indices, lanes);
    auto type = cast<MemRefType>(memory.getType());
    int64_t bytes = std::max<int64_t>(8, type.getElementTypeBitWidth()) / 8;
    auto facts = memref::ExtractStridedMetadataOp::create(builder, loc, memory);
    Value element = facts.getOffset();
    for (auto [operand, stride] : llvm::zip(indices, facts.getStrides())) {
      Value step = arith::MulIOp::create(builder, loc, operand.get(), stride);
      element = arith::AddIOp::create(builder, loc, element, step);
    }
    Value base =
        memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, memory);
    Value offset = arith::MulIOp::create(builder, loc, element, index(bytes));
    Value address = arith::AddIOp::create(builder, loc, base, offset);
    Value rest =
        arith::RemUIOp::create(builder, loc, address, index(lanes * bytes));
    reportUnless(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                       rest, index(0)),
                 PP_FAULT_MISALIGNED);
  }

  gpu::GPUFuncOp kernel;
  OpBuilder builder;
  Location loc;
  IRMapping mapping;
  func::FuncOp function;
  Value shared, block, thread;
  int64_t sharedBytes = 0;
  int32_t places = 0; // barriers and shuffles so far
};

struct LowerToMock : pp::impl::LowerToMockBase<LowerToMock> {
  void runOnOperation() override {
    ModuleOp program = getOperation();
    auto code = program.lookupSymbol<ModuleOp>(codeModuleName);
    auto device = program.lookupSymbol<gpu::GPUModuleOp>(deviceModuleName);
    if (!code || !device) {
      program.emitError("has no modules @code and @device; run "
                        "pp-make-launches first");
      return signalPassFailure();
    }
    declareRuntime(code);
    for (auto kernel : device.getOps<gpu::GPUFuncOp>())
      if (failed(ThreadBuilder(code, kernel).run()))
        return signalPassFailure();
    device.erase();
  }

  static void declareRuntime(ModuleOp code) {
    OpBuilder builder(code.getBodyRegion());
    Type i32 = builder.getI32Type();
    auto declare = [&](StringRef name, ArrayRef<Type> inputs,
                       ArrayRef<Type> results) {
      func::FuncOp::create(builder, code.getLoc(), name,
                           builder.getFunctionType(inputs, results))
          .setPrivate();
    };
    Type index = builder.getIndexType();
    declare("pp_mock_barrier", {i32}, {});
    declare("pp_mock_fault", {i32, index, index}, {});
    declare("pp_mock_shuffle", {i32, i32, i32}, {i32});
  }
};

} // namespace
