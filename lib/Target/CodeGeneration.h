//===- CodeGeneration.h - From LLVM's IR to object files ------------------===//
#ifndef PP_LIB_TARGET_CODEGENERATION_H
#define PP_LIB_TARGET_CODEGENERATION_H

#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Triple.h"

#include <string>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace pp {

/// The processor that code is generated for.
struct CodeTarget {
  llvm::Triple triple;
  std::string cpu, features;

  /// "native" is the processor of this machine.
  static CodeTarget of(llvm::StringRef cpu);

  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> makeMachine() const;
};

/// Optimises a module and makes objects of it that are to be linked together:
/// one for each of its parts (ModuleParts.h), on the threads of `threads`. The
/// bytes do not depend on their number. `module` is good for nothing
/// afterwards.
llvm::Expected<std::vector<std::string>>
generateCode(llvm::Module &module, const CodeTarget &target,
             mlir::MLIRContext &threads);

} // namespace pp

#endif // PP_LIB_TARGET_CODEGENERATION_H
