//===- ImportFlags.h - Command-line flags of the ONNX importer --*- C++ -*-===//

#ifndef PP_DRIVER_IMPORTFLAGS_H
#define PP_DRIVER_IMPORTFLAGS_H

#include "pp/Import/OnnxImporter.h"

namespace pp {

/// Registers --training, --batch-norm, --dim, --batch and
/// --allow-hardlinks. Call once, before the command line is parsed.
void registerImportFlags();

/// What the flags say; fails if a flag has a malformed value.
llvm::Expected<ImportOptions> getImportOptions();

} // namespace pp

#endif // PP_DRIVER_IMPORTFLAGS_H
