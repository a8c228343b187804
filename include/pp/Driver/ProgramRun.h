//===- ProgramRun.h - Programs that tools make and run ----------*- C++ -*-===//

#ifndef PP_DRIVER_PROGRAMRUN_H
#define PP_DRIVER_PROGRAMRUN_H

#include "pp/Driver/Compiler.h"

#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/JSON.h"

namespace pp {

/// A temporary file that goes away with the object.
struct TemporaryFile {
  llvm::SmallString<128> path;
  llvm::FileRemover remove;

  /// `tool` begins its name.
  llvm::Error create(llvm::StringRef tool);
};

/// The arguments that link with the runtime of this build: pprt.link, in lib
/// beside the folder of the tool that runs, or where it is installed. Not a
/// path of the build, which a cache of compilations would take from another
/// one.
std::string defaultLinkFile();

/// Compiles a model into the program `path`. `linkFile` has the arguments that
/// link with the runtime.
llvm::Error makeProgram(const CompileOptions &options, ModelImport &import,
                        llvm::StringRef path, llvm::StringRef linkFile,
                        mlir::MLIRContext &context);

/// Runs a program, which says on stderr what goes wrong; its output goes to
/// this process's, or into the file `output`. Returns the most memory that it
/// had, in bytes. Fails with the program's exit code and `what`, a sentence.
llvm::Expected<uint64_t>
runProgram(llvm::StringRef path, llvm::ArrayRef<llvm::StringRef> arguments,
           const llvm::Twine &what,
           std::optional<llvm::StringRef> output = std::nullopt);

/// The object in a file that a program wrote.
llvm::Expected<llvm::json::Object> readJsonObject(llvm::StringRef path);

} // namespace pp

#endif // PP_DRIVER_PROGRAMRUN_H
