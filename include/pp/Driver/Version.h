//===- Version.h - What --version prints ----------------------------------===//
#ifndef PP_DRIVER_VERSION_H
#define PP_DRIVER_VERSION_H

#include "llvm/ADT/StringRef.h"

namespace pp {

/// Lets llvm::cl answer `--version` of a tool with its name, our version and
/// build type, and the versions of the libraries that results depend on.
void setVersionOf(llvm::StringRef tool);

} // namespace pp

#endif // PP_DRIVER_VERSION_H
