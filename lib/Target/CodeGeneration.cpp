//===- CodeGeneration.cpp - From LLVM's IR to object files ----------------===//

#include "CodeGeneration.h"
#include "ModuleParts.h"

#include "mlir/IR/Threading.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/StandardInstrumentations.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/IPO/SCCP.h"

#include <map>

using namespace pp;

CodeTarget CodeTarget::of(llvm::StringRef cpu) {
  CodeTarget target{llvm::Triple(llvm::sys::getDefaultTargetTriple()),
                    cpu.str(), ""};
  if (cpu != "native")
    return target;
  target.cpu = llvm::sys::getHostCPUName().str();
  std::map<std::string, bool> sorted;
  for (auto &feature : llvm::sys::getHostCPUFeatures())
    sorted[feature.first().str()] = feature.second;
  llvm::SubtargetFeatures list;
  for (auto &[name, enabled] : sorted)
    list.AddFeature(name, enabled);
  target.features = list.getString();
  return target;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
CodeTarget::makeMachine() const {
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError("%s", error.c_str());
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(cpu))
    return llvm::createStringError("unknown processor '%s'", cpu.c_str());
  return machine;
}

using MakePasses =
    llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder &)>;

static void runPasses(llvm::Module &module, llvm::TargetMachine &machine,
                      MakePasses makePasses) {
  // Unrolling small loops completely before the vectoriser would leave it
  // only the outer ones, which it then turns into gathers.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  // Without it, passes do not spare functions that ask not to be optimised.
  llvm::PassInstrumentationCallbacks callbacks;
  llvm::OptNoneInstrumentation optNone(/*DebugLogging=*/false);
  optNone.registerCallbacks(callbacks);
  llvm::PassBuilder passes(&machine, tuning, std::nullopt, &callbacks);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  makePasses(passes).run(module, modules);
}

/// Gives functions the arguments that are the same constants in all calls, of
/// which a part sees some: without threads, the share of each kernel.
static void propagateConstants(llvm::Module &module,
                               llvm::TargetMachine &machine) {
  runPasses(module, machine, [](llvm::PassBuilder &) {
    llvm::ModulePassManager passes;
    passes.addPass(llvm::IPSCCPPass());
    return passes;
  });
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  runPasses(module, machine, [](llvm::PassBuilder &builder) {
    return builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  });
}

static bool hasOnlySequences(const llvm::Module &module) {
  return llvm::all_of(module, [](const llvm::Function &function) {
    return function.isDeclaration() || function.hasOptNone();
  });
}

/// Makes an object of a part. Nothing is shared with other threads.
static llvm::Expected<std::string> compilePart(llvm::ArrayRef<char> bitcode,
                                               const CodeTarget &target) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(llvm::StringRef(bitcode.data(), bitcode.size()),
                            "part"),
      context);
  if (!module)
    return module.takeError();
  auto machine = target.makeMachine();
  if (!machine)
    return machine.takeError();
  // What the allocator of registers does for a better code grows faster than
  // the thousands of calls that a sequence can have.
  if (hasOnlySequences(**module))
    (*machine)->setOptLevel(llvm::CodeGenOptLevel::None);
  else
    optimize(**module, **machine);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, os, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("this target cannot emit object files");
  codegen.run(**module);
  return std::string(bytes.begin(), bytes.end());
}

llvm::Expected<std::vector<std::string>>
pp::generateCode(llvm::Module &module, const CodeTarget &target,
                 mlir::MLIRContext &threads) {
  auto machine = target.makeMachine();
  if (!machine)
    return machine.takeError();
  propagateConstants(module, **machine);
  std::vector<llvm::SmallVector<char, 0>> parts = cutModule(module);
  std::vector<std::string> objects(parts.size());
  std::vector<std::string> errors(parts.size());
  mlir::parallelFor(&threads, 0, parts.size(), [&](size_t part) {
    auto object = compilePart(parts[part], target);
    if (object)
      objects[part] = std::move(*object);
    else
      errors[part] = llvm::toString(object.takeError());
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return llvm::createStringError(error);
  return objects;
}
