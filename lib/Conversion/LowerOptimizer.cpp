//===- LowerOptimizer.cpp - The function that updates parameters ----------===//

#include "LowerOptimizer.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

using namespace mlir;
using namespace pp;

/// From where `builder` is on: `body` for each multiple of `step` below
/// `count`, and then the function returns.
static void buildLoop(OpBuilder &builder, Location loc,
                      LLVM::LLVMFuncOp function, Value count, int64_t step,
                      llvm::function_ref<void(Value position)> body) {
  Type i64 = builder.getI64Type();
  Block *header = function.addBlock(), *inside = function.addBlock();
  Block *exit = function.addBlock();
  Value position = header->addArgument(i64, loc);
  auto constant = [&](int64_t value) -> Value {
    return LLVM::ConstantOp::create(builder, loc, i64, value);
  };
  LLVM::BrOp::create(builder, loc, constant(0), header);

  builder.setInsertionPointToStart(header);
  Value more = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::slt,
                                    position, count);
  LLVM::CondBrOp::create(builder, loc, more, inside, exit);

  builder.setInsertionPointToStart(inside);
  body(position);
  Value next = LLVM::AddOp::create(builder, loc, position, constant(step));
  LLVM::BrOp::create(builder, loc, next, header);
  builder.setInsertionPointToStart(exit);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

LogicalResult pp::lowerOptimizer(ModuleOp module, ModuleOp code,
                                 LLVM::LLVMFuncOp block) {
  block.setNoInline(false);
  block.setAlwaysInline(true);
  auto source = module.lookupSymbol<func::FuncOp>(nn::optimizerFunctionName);
  auto description =
      source
          ? source->getAttrOfType<step::OptimizerAttr>(step::optimizerAttrName)
          : step::OptimizerAttr();
  if (!description)
    return module.emitError("has code of an optimizer, but no optimizer; run "
                            "nn-attach-optimizer first");
  unsigned states = description.countWholeStates();
  unsigned scalars = description.getScalars().size();

  Location loc = source.getLoc();
  auto builder = OpBuilder::atBlockEnd(code.getBody());
  Type i64 = builder.getI64Type(), element = step::getOptimizedType(source);
  int64_t blockSize =
      nn::optimizerBlockBytes * 8 / element.getIntOrFloatBitWidth();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type voidType = LLVM::LLVMVoidType::get(builder.getContext());
  auto constant = [&](int64_t value) -> Value {
    return LLVM::ConstantOp::create(builder, loc, i64, value);
  };
  auto function = LLVM::LLVMFuncOp::create(
      builder, loc, "optimizer",
      LLVM::LLVMFunctionType::get(
          voidType, {i64, pointer, pointer, pointer, i64, pointer}));
  Block *entry = function.addEntryBlock(builder);
  Value count = entry->getArgument(0), parameters = entry->getArgument(1);
  Value gradients = entry->getArgument(2), state = entry->getArgument(3);
  Value stride = entry->getArgument(4), values = entry->getArgument(5);

  builder.setInsertionPointToStart(entry);
  SmallVector<Value> temporaries;
  for (unsigned i = 0; i <= states; ++i)
    temporaries.push_back(LLVM::AllocaOp::create(builder, loc, pointer, element,
                                                 constant(blockSize), 64));
  // Scalars are read through aligned, disjoint pointers like all operands.
  SmallVector<Value> scalarCells;
  auto at = [&](Value array, Value index) -> Value {
    return LLVM::GEPOp::create(builder, loc, pointer, element, array,
                               ArrayRef<LLVM::GEPArg>{index});
  };
  for (unsigned i = 0; i < scalars; ++i) {
    Value cell =
        LLVM::AllocaOp::create(builder, loc, pointer, element, constant(1), 64);
    Value value =
        LLVM::LoadOp::create(builder, loc, element, at(values, constant(i)));
    LLVM::StoreOp::create(builder, loc, value, cell);
    scalarCells.push_back(cell);
  }
  buildLoop(builder, loc, function, count, blockSize, [&](Value position) {
    SmallVector<Value> targets = {at(parameters, position)};
    SmallVector<Value> arguments = {targets[0], at(gradients, position)};
    for (unsigned i = 0; i < states; ++i) {
      Value offset = LLVM::AddOp::create(
          builder, loc, position,
          LLVM::MulOp::create(builder, loc, stride, constant(i)));
      targets.push_back(at(state, offset));
      arguments.push_back(targets.back());
    }
    llvm::append_range(arguments, scalarCells);
    llvm::append_range(arguments, temporaries);
    LLVM::CallOp::create(builder, loc, block, arguments);
    for (auto [target, temporary] : llvm::zip(targets, temporaries))
      LLVM::MemcpyOp::create(builder, loc, target, temporary,
                             constant(nn::optimizerBlockBytes),
                             /*isVolatile=*/false);
  });
  return success();
}

void pp::lowerRounding(Location loc, ModuleOp code, FloatType element) {
  constexpr int64_t atOnce = 16;
  auto builder = OpBuilder::atBlockEnd(code.getBody());
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto from = VectorType::get(atOnce, builder.getF32Type());
  auto to = VectorType::get(atOnce, element);
  auto function = LLVM::LLVMFuncOp::create(
      builder, loc, "round",
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  {builder.getI64Type(), pointer, pointer}));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  buildLoop(builder, loc, function, entry->getArgument(0), atOnce,
            [&](Value position) {
              auto at = [&](unsigned argument, Type type) -> Value {
                return LLVM::GEPOp::create(builder, loc, pointer, type,
                                           entry->getArgument(argument),
                                           ArrayRef<LLVM::GEPArg>{position});
              };
              Value numbers = LLVM::LoadOp::create(builder, loc, from,
                                                   at(1, builder.getF32Type()),
                                                   /*alignment=*/64);
              Value rounded =
                  LLVM::FPTruncOp::create(builder, loc, to, numbers);
              LLVM::StoreOp::create(builder, loc, rounded, at(2, element),
                                    /*alignment=*/32);
            });
}
