//===- CompiledFunction.cpp - Runs a function of the nn dialect -----------===//

#include "CompiledFunction.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/TargetSelect.h"
#include <cstring>

using namespace mlir;
using namespace pp;

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

template <typename Visit> static void visitType(Type element, Visit &&visit) {
  if (element.isF64())
    visit(double());
  else if (element.isF32())
    visit(float());
  else if (element.isInteger(64))
    visit(int64_t());
  else
    visit(bool());
}

void *CompiledFunction::allocate(size_t bytes) {
  // What generated code and the library expect of buffers.
  constexpr size_t alignment = 64;
  memory.emplace_back(std::aligned_alloc(
      alignment, llvm::alignTo(std::max<size_t>(bytes, 1), alignment)));
  return memory.back().get();
}

void *&CompiledFunction::bufferOf(Value value) {
  void *&buffer = buffers[value];
  if (!buffer)
    buffer = allocate(getTensorBytes(cast<RankedTensorType>(value.getType())));
  return buffer;
}

/// Adds `void NAME.packed(void **)`, which calls NAME with these pointers.
static void addWrappers(llvm::Module &module) {
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Type *pointer = builder.getPtrTy();
  SmallVector<llvm::Function *> functions;
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      functions.push_back(&function);
  for (llvm::Function *function : functions) {
    auto *wrapper = llvm::Function::Create(
        llvm::FunctionType::get(builder.getVoidTy(), {pointer}, false),
        llvm::GlobalValue::ExternalLinkage, function->getName() + ".packed",
        module);
    builder.SetInsertPoint(
        llvm::BasicBlock::Create(module.getContext(), "", wrapper));
    SmallVector<llvm::Value *> loaded;
    for (unsigned index = 0; index < function->arg_size(); ++index)
      loaded.push_back(builder.CreateLoad(
          pointer,
          builder.CreateConstGEP1_32(pointer, wrapper->getArg(0), index)));
    builder.CreateCall(function, loaded);
    builder.CreateRetVoid();
  }
}

llvm::Error CompiledFunction::compile(ModuleOp code) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto made = llvm::orc::LLJITBuilder().create();
  if (!made)
    return made.takeError();
  jit = std::move(*made);
  auto context = std::make_unique<llvm::LLVMContext>();
  auto translated = translateModuleToLLVMIR(code, *context);
  if (!translated)
    return llvm::createStringError("the code cannot be translated to LLVM");
  translated->setDataLayout(jit->getDataLayout());
  addWrappers(*translated);
  return jit->addIRModule({std::move(translated), std::move(context)});
}

llvm::Error CompiledFunction::planKernel(Operation *op) {
  auto kernel = cast<nn::KernelOp>(op);
  Step step = {};
  for (Value operand : op->getOperands())
    step.tensors.push_back(bufferOf(operand));
  for (Value result : op->getResults())
    step.tensors.push_back(bufferOf(result));
  if (kernel.getKernelClass() == KernelClass::Library) {
    std::string fault;
    step.library =
        runtime::LibraryKernel::create(kernel.getLibraryDescriptor(), fault);
    if (!step.library)
      return llvm::createStringError(fault);
    step.scratchpad = allocate(step.library->scratchpadBytes());
  } else {
    auto callee =
        op->getAttrOfType<FlatSymbolRefAttr>(pipeline::calleeAttrName);
    auto found = jit->lookup((callee.getValue() + ".packed").str());
    if (!found)
      return found.takeError();
    step.kernel = found->toPtr<Kernel>();
  }
  steps.push_back(std::move(step));
  return llvm::Error::success();
}

llvm::Error CompiledFunction::plan(func::FuncOp function) {
  llvm::append_range(arguments, function.getArguments());
  for (Operation &op : function.getBody().front()) {
    if (isa<func::ReturnOp>(op)) {
      llvm::append_range(results, op.getOperands());
    } else if (isa<nn::ReshapeOp>(op)) {
      buffers[op.getResult(0)] = bufferOf(op.getOperand(0));
    } else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      Value value = constant.getOutput();
      auto elements = cast<DenseElementsAttr>(constant.getValue());
      visitType(elementOf(value), [&](auto zero) {
        using Element = decltype(zero);
        llvm::copy(elements.getValues<Element>(),
                   static_cast<Element *>(bufferOf(value)));
      });
    } else if (llvm::Error error = planKernel(&op)) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<CompiledFunction> CompiledFunction::create(ModuleOp module) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  PassManager pm(module.getContext());
  pm.addPass(nn::createFormKernels());
  pm.addPass(createLowerKernels());
  buildKernelPipeline(pm.nest<ModuleOp>());
  if (failed(pm.run(module)))
    return llvm::createStringError("the kernels cannot be lowered");
  CompiledFunction compiled;
  if (llvm::Error error =
          compiled.compile(module.lookupSymbol<ModuleOp>(codeModuleName)))
    return std::move(error);
  if (llvm::Error error = compiled.plan(
          module.lookupSymbol<func::FuncOp>(nn::mainFunctionName)))
    return std::move(error);
  return std::move(compiled);
}

std::vector<CompiledFunction::Numbers>
CompiledFunction::run(ArrayRef<Numbers> numbers) {
  for (auto [value, given] : llvm::zip_equal(arguments, numbers))
    visitType(elementOf(value), [&](auto zero) {
      using Element = decltype(zero);
      llvm::transform(
          given, static_cast<Element *>(bufferOf(value)),
          [](double number) { return static_cast<Element>(number); });
    });
  for (Step &step : steps)
    if (step.library)
      step.library->execute(step.tensors.data(), step.scratchpad);
    else
      step.kernel(step.tensors.data());
  std::vector<Numbers> computed;
  for (Value value : results)
    visitType(elementOf(value), [&](auto zero) {
      const auto *data = static_cast<const decltype(zero) *>(bufferOf(value));
      int64_t count = cast<RankedTensorType>(value.getType()).getNumElements();
      computed.emplace_back(data, data + count);
    });
  return computed;
}
