//===- ImportFuzzer.cpp - Any bytes as an ONNX model ----------------------===//
//
// Imports them for inference and for training. A model that is accepted must
// verify and be read back from its text; one that is refused must say why.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "pp/Import/OnnxImporter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <memory>

using namespace mlir;

/// The folder of the model, with a file for external data, until the end.
class Folder {
public:
  Folder() {
    if (llvm::sys::fs::createUniqueDirectory("pp-fuzz", path))
      std::abort();
    write("weights.bin", std::string(64, '\0'));
  }
  ~Folder() { llvm::sys::fs::remove_directories(path); }

  /// The path of a file with these contents.
  std::string write(llvm::StringRef name, llvm::StringRef contents) {
    llvm::SmallString<128> file(path);
    llvm::sys::path::append(file, name);
    std::error_code error;
    llvm::raw_fd_ostream os(file, error);
    os << contents;
    os.close();
    if (error || os.has_error())
      std::abort();
    return std::string(file);
  }

private:
  llvm::SmallString<128> path;
};

/// A context for some hundred models: it keeps the attributes of all of them.
static MLIRContext &getContext() {
  static constexpr unsigned modelsOfContext = 500;
  static unsigned models = 0;
  static std::unique_ptr<MLIRContext> context;
  if (models++ % modelsOfContext == 0)
    context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  return *context;
}

[[noreturn]] static void fail(llvm::StringRef what, llvm::StringRef text) {
  llvm::errs() << "fault: " << what << "\n" << text << "\n";
  std::abort();
}

static void importModel(MLIRContext *context, llvm::StringRef path,
                        bool training) {
  std::string diagnostics;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    return success();
  });
  pp::ImportOptions options;
  options.training = training;
  options.batch = 2;
  llvm::raw_null_ostream warnings;
  llvm::Expected<OwningOpRef<ModuleOp>> module =
      pp::importOnnx(context, path, options, &warnings);
  if (!module) {
    std::string message = llvm::toString(module.takeError());
    if (message.empty() || !diagnostics.empty())
      fail("a refusal that is not the importer's own", message + diagnostics);
    return;
  }
  if (failed(verify(**module)))
    fail("an invalid module was imported", diagnostics);
  std::string text;
  llvm::raw_string_ostream os(text);
  (*module)->print(os, OpPrintingFlags().enableDebugInfo());
  if (!parseSourceString<ModuleOp>(text, context))
    fail("the module's text cannot be read back", diagnostics);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Folder folder;
  std::string path =
      folder.write("model.onnx",
                   llvm::StringRef(reinterpret_cast<const char *>(data), size));
  for (bool training : {false, true})
    importModel(&getContext(), path, training);
  return 0;
}
