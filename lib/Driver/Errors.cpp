//===- Errors.cpp - How tools report errors -------------------------------===//

#include "pp/Driver/Errors.h"
#include "pp/Import/Onnx/Diagnostic.h"
#include "llvm/Support/raw_ostream.h"

using namespace pp;

char ToolError::ID = 0;

void ToolError::log(llvm::raw_ostream &os) const { os << message; }

std::error_code ToolError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

/// The names in a location, without what MLIR puts around them.
static void printLocation(mlir::Location loc, llvm::raw_ostream &os) {
  if (auto file = loc->findInstanceOf<mlir::FileLineColLoc>()) {
    os << file.getFilename().getValue() << ":" << file.getLine() << ":"
       << file.getColumn() << ": ";
    return;
  }
  if (auto name = loc->findInstanceOf<mlir::NameLoc>()) {
    os << "node \"";
    os.write_escaped(name.getName().getValue());
    os << "\": ";
  }
}

pp::DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext *context,
                                         llvm::raw_ostream &os)
    : ScopedDiagnosticHandler(context) {
  setHandler([&os](mlir::Diagnostic &diagnostic) {
    auto print = [&os](mlir::Diagnostic &each) {
      printLocation(each.getLocation(), os);
      switch (each.getSeverity()) {
      case mlir::DiagnosticSeverity::Error:
        os << "error: ";
        break;
      case mlir::DiagnosticSeverity::Warning:
        os << "warning: ";
        break;
      case mlir::DiagnosticSeverity::Note:
      case mlir::DiagnosticSeverity::Remark:
        os << "note: ";
        break;
      }
      os << each << "\n";
    };
    print(diagnostic);
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      print(note);
    return mlir::success();
  });
}

llvm::Error pp::makeError(ExitCode code, const llvm::Twine &message) {
  return llvm::make_error<ToolError>(code, message.str());
}

int pp::reportError(llvm::Error error) {
  int code = exitSuccess;
  auto raise = [&](int next) { code = code == exitSuccess ? next : code; };
  llvm::handleAllErrors(
      std::move(error),
      [&](const onnx::ReadError &readError) {
        for (const onnx::Diagnostic &diagnostic : readError.diagnostics) {
          diagnostic.print(llvm::errs());
          if (diagnostic.severity != onnx::Severity::Error)
            continue;
          switch (diagnostic.category) {
          case onnx::Category::Invalid:
            raise(exitInvalid);
            break;
          case onnx::Category::Unsupported:
            raise(exitUnsupported);
            break;
          case onnx::Category::InputOutput:
            raise(exitInputOutput);
            break;
          }
        }
      },
      [&](const ToolError &toolError) {
        llvm::errs() << "error: " << toolError.message << "\n";
        raise(toolError.code);
      },
      [&](const llvm::ErrorInfoBase &other) {
        llvm::errs() << "error: " << other.message() << "\n";
        raise(exitInvalid);
      });
  return code;
}
