//===- ToolContext.cpp - The main of a tool -------------------------------===//

#include "pp/Driver/ToolContext.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/InitAll.h"
#include "pp/Driver/Version.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"

using namespace pp;

namespace {

/// The context reads flags when it is made, so they must be parsed before.
mlir::DialectRegistry parseFlags(int argc, char **argv,
                                 llvm::cl::OptionCategory &own,
                                 llvm::StringRef overview) {
  llvm::SmallVector<const llvm::cl::OptionCategory *> categories = {&own};
  llvm::append_range(categories, getCompileCategories());
  llvm::cl::HideUnrelatedOptions(categories);
  setVersionOf(overview.split(':').first);
  if (!llvm::cl::ParseCommandLineOptions(argc, argv, overview, &llvm::errs()))
    std::exit(exitUsage);
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  return registry;
}

} // namespace

ToolContext::ToolContext(int argc, char **argv, llvm::cl::OptionCategory &own,
                         llvm::StringRef overview)
    : context(parseFlags(argc, argv, own, overview)),
      printer(&context, llvm::errs()) {
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
}

int ToolContext::run(
    llvm::function_ref<llvm::Error(mlir::MLIRContext &)> work) {
  if (llvm::Error error = work(context))
    return reportError(std::move(error));
  return exitSuccess;
}
