//===- DeviceEmitter.cpp - From the device module to GPU code -------------===//

#include "pp/Target/DeviceEmitter.h"
#include "CodeGeneration.h"
#include "pp/Conversion/Passes.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <cstdlib>

using namespace pp;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

std::string pp::findPtxas() {
  if (const char *path = std::getenv("PP_PTXAS"))
    return path;
  if (auto path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  llvm::SmallVector<std::string> folders;
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string &folder : folders)
    if (auto path = llvm::sys::findProgramByName("ptxas", {folder}))
      return *path;
  return "";
}

static llvm::Expected<std::string> emitAssembly(mlir::Operation *device,
                                                llvm::StringRef chip) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  const CodeTarget target{llvm::Triple("nvptx64-nvidia-cuda"), chip.str(),
                          "+ptx80"};
  auto made = target.makeMachine();
  if (!made)
    return made.takeError();
  llvm::TargetMachine *machine = made->get();

  llvm::LLVMContext context;
  auto module = mlir::translateModuleToLLVMIR(device, context, "device");
  if (!module)
    return llvm::createStringError(
        "the kernels of the GPU cannot be translated to LLVM");
  module->setDataLayout(machine->createDataLayout());
  module->setTargetTriple(target.triple);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(*module, modules);

  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager emission;
  if (machine->addPassesToEmitFile(emission, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("LLVM cannot emit PTX");
  emission.run(*module);
  return std::string(text.begin(), text.end());
}

/// Runs ptxas; fills `binary` and `report`.
static llvm::Error assemble(DeviceCode &code, const std::string &ptxas,
                            llvm::StringRef chip) {
  llvm::SmallString<128> input, output, messages;
  auto temporary = [](llvm::StringRef suffix, llvm::SmallString<128> &path) {
    return llvm::sys::fs::createTemporaryFile("pp", suffix, path);
  };
  std::error_code error = temporary("ptx", input);
  llvm::FileRemover removeInput(input);
  if (!error)
    error = temporary("cubin", output);
  llvm::FileRemover removeOutput(output);
  if (!error)
    error = temporary("txt", messages);
  llvm::FileRemover removeMessages(messages);
  if (!error) {
    llvm::raw_fd_ostream file(input, error);
    file << code.assembly;
    file.close();
    if (file.has_error())
      error = file.error();
    file.clear_error();
  }
  if (error)
    return llvm::createStringError("cannot write a temporary file: %s",
                                   error.message().c_str());
  std::string arch = ("-arch=" + chip).str();
  llvm::StringRef arguments[] = {ptxas, arch, "-O3", "-v", input, "-o", output};
  std::optional<llvm::StringRef> redirects[] = {
      std::nullopt, llvm::StringRef(messages), llvm::StringRef(messages)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt,
                                         redirects, 0, 0, &message);
  auto text = llvm::MemoryBuffer::getFile(messages);
  if (text)
    code.report = (*text)->getBuffer().str();
  if (status != 0)
    return llvm::createStringError("'%s' failed: %s%s", ptxas.c_str(),
                                   message.c_str(), code.report.c_str());
  auto binary = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!binary)
    return llvm::createStringError("'%s' wrote nothing", ptxas.c_str());
  code.binary = (*binary)->getBuffer().str();
  return llvm::Error::success();
}

llvm::Expected<DeviceCode> pp::emitDeviceCode(mlir::ModuleOp program,
                                              llvm::StringRef chip) {
  auto device = program.lookupSymbol<mlir::gpu::GPUModuleOp>(deviceModuleName);
  if (!device)
    return llvm::createStringError("the program has no kernels for a GPU");
  mlir::MLIRContext &context = *program.getContext();
  mlir::registerBuiltinDialectTranslation(context);
  mlir::registerGPUDialectTranslation(context);
  mlir::registerLLVMDialectTranslation(context);
  mlir::registerNVVMDialectTranslation(context);
  DeviceCode code;
  auto assembly = emitAssembly(device, chip);
  if (!assembly)
    return assembly.takeError();
  code.assembly = std::move(*assembly);
  std::string ptxas = findPtxas();
  if (!ptxas.empty())
    if (llvm::Error error = assemble(code, ptxas, chip))
      return std::move(error);
  return code;
}
