//===- Diagnostic.cpp - What the ONNX reader has to say -------------------===//
#include "pp/Import/Onnx/Diagnostic.h"
#include "llvm/ADT/StringExtras.h"

using namespace pp::onnx;

char ReadError::ID = 0;

static void printName(llvm::raw_ostream &os, llvm::StringRef name) {
  constexpr size_t longest = 200;
  llvm::printEscapedString(name.take_front(longest), os);
  if (name.size() > longest)
    os << "...";
}

std::string pp::onnx::quoted(llvm::StringRef name) {
  std::string out = "'";
  llvm::raw_string_ostream os(out);
  printName(os, name);
  os << '\'';
  return out;
}

std::string pp::onnx::listed(llvm::ArrayRef<std::string> texts) {
  constexpr size_t mostNamed = 8;
  std::string list = llvm::join(texts.take_front(mostNamed), ", ");
  if (texts.size() > mostNamed)
    list += " and " + std::to_string(texts.size() - mostNamed) + " more";
  return list;
}

void Diagnostic::print(llvm::raw_ostream &os) const {
  os << file << ':';
  if (nodeIndex >= 0) {
    os << "node \"";
    printName(os, nodeName);
    os << "\" (";
    printName(os, nodeOp);
    os << ", #" << nodeIndex << "):";
  }
  switch (severity) {
  case Severity::Error:
    os << " error: ";
    break;
  case Severity::Warning:
    os << " warning: ";
    break;
  case Severity::Note:
    os << " note: ";
    break;
  }
  os << message << '\n';
  if (!help.empty())
    os << "  help: " << help << '\n';
}

void ReadError::log(llvm::raw_ostream &os) const {
  for (const Diagnostic &diagnostic : diagnostics)
    diagnostic.print(os);
}

std::error_code ReadError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}
