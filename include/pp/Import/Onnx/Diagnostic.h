//===- Diagnostic.h - What the ONNX reader has to say ---------------------===//
#ifndef PP_IMPORT_ONNX_DIAGNOSTIC_H
#define PP_IMPORT_ONNX_DIAGNOSTIC_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace pp::onnx {

enum class Severity { Error, Warning, Note };

/// Tools map these to exit codes: 1, 3 and 4.
enum class Category { Invalid, Unsupported, InputOutput };

struct Diagnostic {
  Severity severity = Severity::Error;
  Category category = Category::Invalid;
  /// As the user gave it.
  std::string file;
  /// The node at fault. `nodeIndex` is its position in the file's list of
  /// nodes, -1 where no node is at fault.
  std::string nodeName;
  std::string nodeOp;
  int64_t nodeIndex = -1;
  std::string message;
  /// What to do about it; may be empty.
  std::string help;

  /// One line, `file:node "name" (Op, #index): error: message`, and a second
  /// one, `  help: ...`, if there is help. Names are escaped and cut to 200
  /// characters: they come from the file.
  void print(llvm::raw_ostream &os) const;
};

/// A name from the file in quotes, safe to print: escaped, at most 200
/// characters.
std::string quoted(llvm::StringRef name);
/// The first of many texts: "'a', 'b' and 30 more".
std::string listed(llvm::ArrayRef<std::string> texts);

/// The error of readModel: at least one Diagnostic with severity Error, in the
/// order found, and the warnings among them.
class ReadError : public llvm::ErrorInfo<ReadError> {
public:
  static char ID;
  explicit ReadError(std::vector<Diagnostic> diagnostics)
      : diagnostics(std::move(diagnostics)) {}

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

  std::vector<Diagnostic> diagnostics;
};

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_DIAGNOSTIC_H
