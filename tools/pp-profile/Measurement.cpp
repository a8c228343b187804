//===- Measurement.cpp - Times of the kernels of a program ----------------===//

#include "Measurement.h"

#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Driver/Errors.h"
#include "pp/Target/ObjectEmitter.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace pp;

/// Lets the program write the cost file `output`. It says on stderr what goes
/// wrong.
static llvm::Error run(llvm::StringRef program, llvm::StringRef output,
                       const MeasureOptions &settings) {
  std::string repetitions = std::to_string(std::max(3U, settings.repetitions));
  std::string message;
  llvm::outs().flush();
  int code = llvm::sys::ExecuteAndWait(
      program, {program, "profile", "-o", output, "--repetitions", repetitions},
      /*Env=*/std::nullopt, /*Redirects=*/{},
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  if (code == 0)
    return llvm::Error::success();
  return makeError(code > 0 ? static_cast<ExitCode>(code) : exitUnsupported,
                   llvm::Twine("the model cannot be measured") +
                       (message.empty() ? message : ": " + message));
}

llvm::Error pp::makeProgram(const CompileOptions &options, ModelImport &import,
                            llvm::StringRef path, llvm::StringRef linkFile,
                            mlir::MLIRContext &context) {
  Compilation compilation(&context, options);
  if (auto error = compilation.readOnnx(import))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Lower,
                                   [](mlir::PassManager &) {}))
    return error;
  auto object = emit(&compilation);
  if (!object)
    return object.takeError();
  std::vector<std::string> devices;
  if (options.target.isMock())
    devices.push_back("mock");
  if (auto error = linkBinary(*object, path, linkFile, devices))
    return makeError(exitInputOutput, llvm::toString(std::move(error)));
  return llvm::Error::success();
}

namespace {
/// A temporary file that goes away with the object.
struct TemporaryFile {
  llvm::SmallString<128> path;
  llvm::FileRemover remove;

  llvm::Error create() {
    if (std::error_code code =
            llvm::sys::fs::createTemporaryFile("pp-profile", "", path))
      return makeError(exitInputOutput,
                       "cannot make a temporary file: " + code.message());
    remove.setFile(path);
    return llvm::Error::success();
  }
};
} // namespace

llvm::Expected<llvm::json::Object> pp::measure(const CompileOptions &options,
                                               ModelImport &import,
                                               const MeasureOptions &settings,
                                               mlir::MLIRContext &context) {
  TemporaryFile program, costs;
  for (TemporaryFile *file : {&program, &costs})
    if (auto error = file->create())
      return std::move(error);
  if (auto error = makeProgram(options, import, program.path, settings.linkFile,
                               context))
    return std::move(error);
  if (auto error = run(program.path, costs.path, settings))
    return std::move(error);
  auto buffer = llvm::MemoryBuffer::getFile(costs.path);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + costs.path +
                                          "': " + buffer.getError().message());
  auto json = llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return json.takeError();
  return std::move(*json->getAsObject());
}

llvm::Expected<std::vector<std::string>>
pp::listKernels(const CompileOptions &options, ModelImport &import,
                mlir::MLIRContext &context) {
  Compilation compilation(&context, options);
  if (auto error = compilation.readOnnx(import))
    return std::move(error);
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Kernels,
                                   [](mlir::PassManager &) {}))
    return std::move(error);
  std::vector<std::string> keys;
  compilation.getModule().walk(
      [&](nn::KernelOp kernel) { keys.push_back(kernel.getCostKey()); });
  llvm::sort(keys);
  keys.erase(llvm::unique(keys), keys.end());
  return keys;
}

void pp::mergeCosts(llvm::json::Object &costs, llvm::json::Object more) {
  for (auto &[key, value] : more) {
    llvm::json::Object *known = costs.getObject(key),
                       *added = value.getAsObject();
    if (known && added)
      mergeCosts(*known, std::move(*added));
    else
      costs.try_emplace(key, std::move(value));
  }
}
