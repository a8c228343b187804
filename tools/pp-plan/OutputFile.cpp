//===- OutputFile.cpp - Files that appear whole or not at all -------------===//

#include "OutputFile.h"
#include "pp/Driver/Errors.h"
#include "llvm/Support/FileUtilities.h"

using namespace pp;

llvm::Error pp::writeFile(llvm::StringRef path,
                          llvm::function_ref<void(llvm::raw_ostream &)> write) {
  if (llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
        write(os);
        return llvm::Error::success();
      }))
    return makeError(exitInputOutput, "cannot write '" + path + "': " +
                                          llvm::toString(std::move(error)));
  return llvm::Error::success();
}
