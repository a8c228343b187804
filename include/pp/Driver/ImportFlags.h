//===- ImportFlags.h - Command-line flags of the ONNX importer --*- C++ -*-===//

#ifndef PP_DRIVER_IMPORTFLAGS_H
#define PP_DRIVER_IMPORTFLAGS_H

#include "pp/Import/OnnxImporter.h"

namespace llvm::cl {
class OptionCategory;
}

namespace pp {

/// Registers --training, --batch-norm, --dim, --batch and
/// --allow-hardlinks. Call once, before the command line is parsed.
void registerImportFlags();

/// The category of the flags, for --help.
llvm::cl::OptionCategory &getImportCategory();

/// True if the command line has --batch.
bool isBatchGiven();

/// What the flags say; fails if a flag has a malformed value.
llvm::Expected<ImportOptions> getImportOptions();

} // namespace pp

#endif // PP_DRIVER_IMPORTFLAGS_H
