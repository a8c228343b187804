//===- ToolContext.h - The main of a tool -----------------------*- C++ -*-===//

#ifndef PP_DRIVER_TOOLCONTEXT_H
#define PP_DRIVER_TOOLCONTEXT_H

#include "pp/Driver/Errors.h"

#include "mlir/IR/MLIRContext.h"

namespace llvm::cl {
class OptionCategory;
}

namespace pp {

/// What every tool that compiles does around its work: it reads the command
/// line, loads the dialects, and reports diagnostics and errors.
class ToolContext {
public:
  /// Reads the command line. All flags must be registered before, those of
  /// registerCompileFlags or registerModelFlags too. `--help` starts with
  /// `overview` and lists `own` and getCompileCategories(). Ends the process if
  /// a flag is unknown or malformed.
  ToolContext(int argc, char **argv, llvm::cl::OptionCategory &own,
              llvm::StringRef overview);

  /// Runs the tool and returns its exit code; prints the error if it has one.
  int run(llvm::function_ref<llvm::Error(mlir::MLIRContext &)> work);

private:
  mlir::MLIRContext context;
  DiagnosticPrinter printer;
};

} // namespace pp

#endif // PP_DRIVER_TOOLCONTEXT_H
