//===- GeneratedKernels.cpp - Times of generated kernels ------------------===//

#include "GeneratedKernels.h"
#include "KernelTimer.h"
#include "pp/Conversion/Passes.h"
#include "pp/Driver/Errors.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pp/Target/ObjectEmitter.h"

#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include <map>

using namespace pp;

namespace {

/// A function of the code module and the tensors that it is handed.
struct GeneratedKernel {
  std::string function;
  TensorSizes sizes;
};

/// By cost key. Runs after lowering, which names the function of each kernel.
std::map<std::string, GeneratedKernel> findGenerated(mlir::ModuleOp program) {
  std::map<std::string, GeneratedKernel> kernels;
  program.walk([&](mlir::Operation *op) {
    auto callee = op->getAttrOfType<mlir::FlatSymbolRefAttr>(calleeAttrName);
    auto kernel = llvm::dyn_cast<KernelOpInterface>(op);
    if (!callee || !kernel || kernel.getCostKey().empty())
      return;
    GeneratedKernel entry{callee.getValue().str(), {}};
    // States come first, and have the size of the value that is added.
    for ([[maybe_unused]] const StateReference &state :
         kernel.getUpdatedStates())
      entry.sizes.push_back(getTensorBytes(op->getOperand(0).getType()));
    for (mlir::Value operand : op->getOperands())
      entry.sizes.push_back(getTensorBytes(operand.getType()));
    for (mlir::Value result : op->getResults())
      entry.sizes.push_back(getTensorBytes(result.getType()));
    kernels.emplace(kernel.getCostKey(), std::move(entry));
  });
  return kernels;
}

} // namespace

llvm::Error pp::profileGenerated(mlir::ModuleOp program, const std::string &cpu,
                                 unsigned repetitions,
                                 llvm::json::Object &times) {
  mlir::PassManager pm(program.getContext(),
                       mlir::ModuleOp::getOperationName());
  pm.addPass(createLowerKernels());
  buildKernelPipeline(pm.nest<mlir::ModuleOp>());
  if (mlir::failed(pm.run(program)))
    return makeError(exitInvalid, "the kernels cannot be lowered");
  std::map<std::string, GeneratedKernel> kernels = findGenerated(program);
  if (kernels.empty())
    return llvm::Error::success();
  std::vector<std::string> names;
  for (auto &[key, kernel] : kernels)
    names.push_back(kernel.function);
  ObjectOptions options;
  options.cpu = cpu;
  auto object = emitKernels(program, names, options);
  if (!object)
    return object.takeError();

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  auto symbols = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix());
  if (!symbols)
    return symbols.takeError();
  (*jit)->getMainJITDylib().addGenerator(std::move(*symbols));
  if (llvm::Error error = (*jit)->addObjectFile(
          llvm::MemoryBuffer::getMemBufferCopy(*object, "kernels")))
    return error;
  for (auto &[key, kernel] : kernels) {
    auto address = (*jit)->lookup("packed_" + kernel.function);
    if (!address)
      return address.takeError();
    auto *function = address->toPtr<void (*)(void **)>();
    times[key] = timeKernel(
        kernel.sizes, 0, repetitions,
        [&](void **tensors, void * /*scratchpad*/) { function(tensors); });
  }
  return llvm::Error::success();
}
