//===- DiagnosticSink.h - Collects diagnostics of one file ----------------===//
#ifndef PP_LIB_IMPORT_ONNX_DIAGNOSTICSINK_H
#define PP_LIB_IMPORT_ONNX_DIAGNOSTICSINK_H

#include "pp/Import/Onnx/Model.h"
#include "llvm/ADT/Twine.h"

namespace pp::onnx {

class DiagnosticSink {
public:
  explicit DiagnosticSink(llvm::StringRef file) : file(file) {}

  Diagnostic &error(const llvm::Twine &message, const Node *node = nullptr) {
    failed = true;
    return add(Severity::Error, Category::Invalid, message, node);
  }
  Diagnostic &unsupported(const llvm::Twine &message,
                          const Node *node = nullptr) {
    failed = true;
    return add(Severity::Error, Category::Unsupported, message, node);
  }
  Diagnostic &warning(const llvm::Twine &message, const Node *node = nullptr) {
    return add(Severity::Warning, Category::Invalid, message, node);
  }
  Diagnostic &inputOutput(const llvm::Twine &message) {
    failed = true;
    return add(Severity::Error, Category::InputOutput, message, nullptr);
  }

  bool hasErrors() const { return failed; }
  std::vector<Diagnostic> take() { return std::move(diagnostics); }
  llvm::Error takeError() { return llvm::make_error<ReadError>(take()); }

private:
  Diagnostic &add(Severity severity, Category category,
                  const llvm::Twine &message, const Node *node) {
    Diagnostic diagnostic;
    diagnostic.severity = severity;
    diagnostic.category = category;
    diagnostic.file = file;
    if (node) {
      diagnostic.nodeName = node->name;
      diagnostic.nodeOp = node->opType;
      diagnostic.nodeIndex = node->index;
    }
    diagnostic.message = message.str();
    diagnostics.push_back(std::move(diagnostic));
    return diagnostics.back();
  }

  std::string file;
  std::vector<Diagnostic> diagnostics;
  bool failed = false;
};

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_DIAGNOSTICSINK_H
