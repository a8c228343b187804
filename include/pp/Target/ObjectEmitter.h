//===- ObjectEmitter.h - From the code module to an object file -*- C++ -*-===//

#ifndef PP_TARGET_OBJECTEMITTER_H
#define PP_TARGET_OBJECTEMITTER_H

#include "pp/Target/DeviceEmitter.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace pp {

struct ObjectOptions {
  /// The processor to compile for; "native" is the one of this machine.
  std::string cpu = "native";
};

/// One compiled pipeline, with its plan.
struct ProgramSource {
  mlir::ModuleOp module;
  std::string plan;
  /// For a GPU: its kernels.
  std::optional<DeviceCode> device;
};

/// Makes object code for up to two programs and the table that the runtime
/// reads (pprt.h). `training` may have a null module. The same input gives the
/// same bytes.
llvm::Expected<std::string> emitObject(const ProgramSource &training,
                                       const ProgramSource &inference,
                                       const ObjectOptions &options);

/// Links an object with the runtime into an executable at `path`, which appears
/// whole or not at all. `linkFile` lists the linker's arguments, one per line.
/// Of each of `devices`, the library `libpprt_<device>.a` is next to that file.
llvm::Error linkBinary(llvm::StringRef object, llvm::StringRef path,
                       llvm::StringRef linkFile,
                       llvm::ArrayRef<std::string> devices = {});

} // namespace pp

#endif // PP_TARGET_OBJECTEMITTER_H
