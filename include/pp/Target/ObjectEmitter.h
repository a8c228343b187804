//===- ObjectEmitter.h - From the code module to an object file -*- C++ -*-===//

#ifndef PP_TARGET_OBJECTEMITTER_H
#define PP_TARGET_OBJECTEMITTER_H

#include "pp/Support/NamedEnum.h"
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
/// first. Of large programs, several objects, which are made side by side and
/// are to be linked together. The same input gives the same bytes.
llvm::Expected<std::vector<std::string>>
emitObjects(llvm::ArrayRef<ProgramPair> buckets, const ObjectOptions &options);

/// What becomes of the objects.
enum class BinaryKind { Program, Library };

template <> struct EnumNames<BinaryKind> {
  static constexpr NamedValue<BinaryKind> values[] = {
      {BinaryKind::Program, "program", "a program, which needs nothing else"},
      {BinaryKind::Library, "library",
       "a shared object that pp_program_open of libpp_runtime opens"}};
};

/// Links objects with the runtime into a binary at `path`, which appears
/// whole or not at all. `linkFile` lists the linker's arguments for a program,
/// one per line; `pp_runtime.link` is next to it, for a library. Of each of
/// `devices`, so is the library `libpprt_<device>.a`, for programs.
llvm::Error linkBinary(llvm::ArrayRef<std::string> objects,
                       llvm::StringRef path, llvm::StringRef linkFile,
                       llvm::ArrayRef<std::string> devices = {},
                       BinaryKind kind = BinaryKind::Program);

} // namespace pp

#endif // PP_TARGET_OBJECTEMITTER_H
