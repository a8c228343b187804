//===- pp-opt.cpp - Runs passes on .onnx and .mlir files ------------------===//
//
// mlir-opt with the dialects and passes of pp-mlir. An input whose name ends in
// .onnx is imported first; its operations carry the ONNX node names as
// locations (print them with --mlir-print-debuginfo).
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/AsmState.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ImportFlags.h"
#include "pp/Driver/InitAll.h"
#include "pp/Driver/Version.h"
#include "pp/Import/Operators.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

/// The module behind an ONNX file as text, with locations.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
importAsText(llvm::StringRef path, const DialectRegistry &registry) {
  MLIRContext context(registry);
  auto options = pp::getImportOptions();
  if (!options)
    return options.takeError();
  auto module = pp::importOnnx(&context, path, *options, &llvm::errs());
  if (!module)
    return module.takeError();
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo();
  (*module)->print(os, flags);
  return llvm::MemoryBuffer::getMemBufferCopy(text, path);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  DialectRegistry registry;
  pp::registerAllDialects(registry);
  pp::registerAllPasses();
  pp::registerImportFlags();
  llvm::cl::opt<bool> showOperators(
      "show-onnx-operators",
      llvm::cl::desc("Print which ONNX operators are imported, as a table"));
  pp::setVersionOf("pp-opt");
  auto [input, output] =
      registerAndParseCLIOptions(argc, argv, "pp-mlir pass driver\n", registry);

  if (showOperators) {
    pp::printOperators(llvm::outs());
    return pp::exitSuccess;
  }
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  if (llvm::StringRef(input).ends_with(".onnx")) {
    auto imported = importAsText(input, registry);
    if (!imported)
      return pp::reportError(imported.takeError());
    buffer = std::move(*imported);
  } else {
    std::string message;
    buffer = openInputFile(input, &message);
    if (!buffer) {
      llvm::errs() << message << "\n";
      return pp::exitInputOutput;
    }
  }
  std::string message;
  auto file = openOutputFile(output, &message);
  if (!file) {
    llvm::errs() << message << "\n";
    return pp::exitInputOutput;
  }
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (failed(MlirOptMain(file->os(), std::move(buffer), registry, config)))
    return pp::exitInvalid;
  file->keep();
  return pp::exitSuccess;
}
