//===- OutputFile.h - Files that appear whole or not at all -----*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_OUTPUTFILE_H
#define PP_TOOLS_PP_PLAN_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// Writes a file, "-" for the standard output. Nothing is left behind on
/// errors.
llvm::Error writeFile(llvm::StringRef path,
                      llvm::function_ref<void(llvm::raw_ostream &)> write);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_OUTPUTFILE_H
