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

/// The programs for one size of everything. `training` may have a null module.
struct ProgramPair {
  ProgramSource training, inference;
};

/// Makes object code for programs and the table that the runtime reads
/// (pprt.h). Of several sizes of a dimension, one pair for each, smallest
/// first. The same input gives the same bytes.
llvm::Expected<std::string> emitObject(llvm::ArrayRef<ProgramPair> buckets,
                                       const ObjectOptions &options);

/// Links an object with the runtime into an executable at `path`, which appears
/// whole or not at all. `linkFile` lists the linker's arguments, one per line.
/// Of each of `devices`, the library `libpprt_<device>.a` is next to that file.
llvm::Error linkBinary(llvm::StringRef object, llvm::StringRef path,
                       llvm::StringRef linkFile,
                       llvm::ArrayRef<std::string> devices = {});

} // namespace pp

#endif // PP_TARGET_OBJECTEMITTER_H
