//===- SecureOpen.h - Open a file below a folder, and nothing else --------===//
#ifndef PP_LIB_IMPORT_ONNX_SECUREOPEN_H
#define PP_LIB_IMPORT_ONNX_SECUREOPEN_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace pp::onnx {

/// `location` without `.` and empty components. Fails for an empty or absolute
/// path, one with a null character and one with a `..` component anywhere:
/// whether `a/..` stays inside depends on what `a` is.
llvm::Expected<std::string> normalizeLocation(llvm::StringRef location);

/// Opens the normalised `location` below the open folder, read-only and
/// without blocking; no component may be a symbolic link. Uses openat2, or,
/// where the kernel lacks it or `withoutOpenat2` is set, opens one component
/// after the other. The caller closes the descriptor.
llvm::Expected<int> openBeneath(int folder, llvm::StringRef location,
                                bool withoutOpenat2 = false);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_SECUREOPEN_H
