//===- ProgramRun.cpp - Programs that tools make and run ------------------===//

#include "pp/Driver/ProgramRun.h"
#include "pp/Driver/Errors.h"
#include "pp/Target/ObjectEmitter.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace pp;

llvm::Error TemporaryFile::create(llvm::StringRef tool) {
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(tool, "", path))
    return makeError(exitInputOutput,
                     "cannot make a temporary file: " + code.message());
  remove.setFile(path);
  return llvm::Error::success();
}

std::string pp::defaultLinkFile() {
  std::string tool = llvm::sys::fs::getMainExecutable(
      nullptr, reinterpret_cast<void *>(&defaultLinkFile));
  llvm::SmallString<128> path =
      llvm::sys::path::parent_path(llvm::sys::path::parent_path(tool));
  llvm::SmallString<128> installed = path;
  llvm::sys::path::append(path, "lib", "pprt.link");
  llvm::sys::path::append(installed, PP_INSTALLED_LINK_FILE);
  return std::string(llvm::sys::fs::exists(installed) ? installed : path);
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
  auto objects = emit(&compilation);
  if (!objects)
    return objects.takeError();
  std::vector<std::string> devices;
  if (options.target.isMock())
    devices.push_back("mock");
  if (auto error = linkBinary(*objects, path, linkFile, devices))
    return makeError(exitInputOutput, llvm::toString(std::move(error)));
  return llvm::Error::success();
}

llvm::Expected<uint64_t>
pp::runProgram(llvm::StringRef path, llvm::ArrayRef<llvm::StringRef> arguments,
               const llvm::Twine &what, std::optional<llvm::StringRef> output) {
  llvm::SmallVector<llvm::StringRef> command{path};
  llvm::append_range(command, arguments);
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, output,
                                                std::nullopt};
  std::string message;
  std::optional<llvm::sys::ProcessStatistics> statistics;
  llvm::outs().flush();
  int code = llvm::sys::ExecuteAndWait(
      path, command, /*Env=*/std::nullopt,
      output ? llvm::ArrayRef(redirects)
             : llvm::ArrayRef<std::optional<llvm::StringRef>>(),
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message,
      /*ExecutionFailed=*/nullptr, &statistics);
  constexpr uint64_t kibibyte = 1024;
  if (code == 0)
    return statistics ? statistics->PeakMemory * kibibyte : 0;
  return makeError(code > 0 ? static_cast<ExitCode>(code) : exitUnsupported,
                   what + (message.empty() ? message : ": " + message));
}

llvm::Expected<llvm::json::Object> pp::readJsonObject(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  auto json = llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return json.takeError();
  if (!json->getAsObject())
    return makeError(exitInternal, "'" + path + "': expected an object");
  return std::move(*json->getAsObject());
}
