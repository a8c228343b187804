//===- Errors.h - How tools report errors -----------------------*- C++ -*-===//

#ifndef PP_DRIVER_ERRORS_H
#define PP_DRIVER_ERRORS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace pp {

/// Exit codes of all tools.
enum ExitCode {
  exitSuccess = 0,
  exitInvalid = 1,     ///< The input is wrong.
  exitUsage = 2,       ///< The command line is wrong.
  exitUnsupported = 3, ///< The input is right, but more than we can do.
  exitInputOutput = 4, ///< A file cannot be read or written.
  exitInternal = 70,   ///< A fault of ours.
};

/// Prints the error, all lines of it, and returns the exit code for it.
int reportError(llvm::Error error);

/// An error with an exit code.
class ToolError : public llvm::ErrorInfo<ToolError> {
public:
  static char ID;
  ToolError(ExitCode code, std::string message)
      : code(code), message(std::move(message)) {}

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

  ExitCode code;
  std::string message;
};

/// Prints the diagnostics of passes as clang does, with the ONNX node: `node
/// "/conv1/Conv": error: ...`. Lives as long as diagnostics may come.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &os);
};

llvm::Error makeError(ExitCode code, const llvm::Twine &message);

} // namespace pp

#endif // PP_DRIVER_ERRORS_H
