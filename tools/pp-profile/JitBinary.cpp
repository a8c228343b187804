//===- JitBinary.cpp - A pipeline binary in this process ------------------===//

#include "JitBinary.h"
#include "ProgramRun.h"
#include "pp/Conversion/Passes.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/Support/TargetSelect.h"

using namespace pp;

llvm::Expected<JitBinary> JitBinary::load(llvm::StringRef object) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  llvm::orc::JITDylib &library = (*jit)->getMainJITDylib();
  // Functions of this program are not visible to the dynamic linker.
  auto symbol = [](auto *function) {
    return llvm::orc::ExecutorSymbolDef(
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable);
  };
  if (llvm::Error error = library.define(llvm::orc::absoluteSymbols(
          {{(*jit)->mangleAndIntern("pp_execute_kernel"),
            symbol(&pp_execute_kernel)},
           {(*jit)->mangleAndIntern(markFunctionName), symbol(&markKernel)}})))
    return std::move(error);
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  library.addGenerator(std::move(*process));
  if (llvm::Error error = (*jit)->addObjectFile(
          llvm::MemoryBuffer::getMemBufferCopy(object, "pipeline")))
    return std::move(error);
  auto address = (*jit)->lookup("pp_binary_table");
  if (!address)
    return address.takeError();
  JitBinary result;
  result.jit = std::move(*jit);
  result.binary = address->toPtr<const pp_binary *>();
  return result;
}
