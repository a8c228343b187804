//===- pp-profile.cpp - Measures the kernels of a model -------------------===//
//
// Writes a cost file for `pp-compile --cost-file` and `pp-plan --cost-file`:
// the time of every kernel, of the library or generated, on this machine. The
// model runs as a pipeline while its kernels are timed, so each finds the
// caches as its predecessors leave them, and all cores busy.
//
// What measures is a program of its own (`profile` of runtime/cli), made like
// any other but with marked kernels. So a machine without this compiler can
// measure too.
//
//===----------------------------------------------------------------------===//

#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ToolContext.h"
#include "pp/Target/ObjectEmitter.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <cstdlib>
#include <thread>

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory category{"Profile options"};
  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<model.onnx>"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("The cost file to write"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> emitProgram{
      "emit-program",
      cl::desc("Do not measure: write the program that does, for a machine "
               "without this compiler (FILE profile -o costs.json)"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<unsigned> repetitions{
      "repetitions", cl::desc("Steps to run; the middle half counts"),
      cl::init(50), cl::cat(category)};
  cl::opt<std::string> linkFile{
      "link-file", cl::desc("Arguments that link with the runtime"),
      cl::init(PP_LINK_FILE), cl::Hidden, cl::cat(category)};
};

/// The plugin of the runtime that programs are linked with, unless the user
/// names another.
void nameCudaPlugin(llvm::StringRef linkFile) {
  llvm::SmallString<128> plugin = llvm::sys::path::parent_path(linkFile);
  llvm::sys::path::append(plugin, "libpp_cuda.so");
  if (llvm::sys::fs::exists(plugin))
    setenv("PP_CUDA_PLUGIN", plugin.c_str(), /*overwrite=*/0);
}

/// The program says on stderr what goes wrong.
llvm::Error run(llvm::StringRef program, const Flags &flags) {
  std::string repetitions =
      std::to_string(std::max(4U, flags.repetitions.getValue()));
  std::string message;
  llvm::outs().flush();
  int code = llvm::sys::ExecuteAndWait(
      program,
      {program, "profile", "-o", flags.output, "--repetitions", repetitions},
      /*Env=*/std::nullopt, /*Redirects=*/{},
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  if (code == 0)
    return llvm::Error::success();
  return makeError(code > 0 ? static_cast<ExitCode>(code) : exitUnsupported,
                   llvm::Twine("the model cannot be measured") +
                       (message.empty() ? message : ": " + message));
}

/// Faults that would show only after the work is done.
llvm::Error checkFlags(const Flags &flags) {
  if (flags.output.empty() == flags.emitProgram.empty())
    return makeError(exitUsage, "either -o, the cost file to write, or "
                                "--emit-program is needed");
  llvm::StringRef path =
      flags.output.empty() ? flags.emitProgram : flags.output;
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder))
    return makeError(exitInputOutput, "cannot write '" + path +
                                          "': there is no folder '" + folder +
                                          "'");
  return llvm::Error::success();
}

llvm::Error profile(const Flags &flags, mlir::MLIRContext &context) {
  if (auto error = checkFlags(flags))
    return error;
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  options->lower.markKernels = true;
  if (options->partition.stages == 0 && !options->plan) {
    // The most that can be hoped for in every model; more than cores would
    // take turns, and stages on one GPU do.
    bool isCpu = options->target.isCpu();
    options->partition.stages =
        isCpu && std::thread::hardware_concurrency() > 1 ? 2 : 1;
    options->partition.ignoreHints = true;
  }
  Compilation compilation(&context, *options);
  if (auto error = compilation.readOnnx(flags.input))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Lower,
                                   [](mlir::PassManager &) {}))
    return error;
  auto object = compilation.emit();
  if (!object)
    return object.takeError();
  auto link = [&](llvm::StringRef path) -> llvm::Error {
    std::vector<std::string> devices;
    if (options->target.isMock())
      devices.push_back("mock");
    if (auto error = linkBinary(*object, path, flags.linkFile, devices))
      return makeError(exitInputOutput, llvm::toString(std::move(error)));
    return llvm::Error::success();
  };
  if (!flags.emitProgram.empty())
    return link(flags.emitProgram);
  llvm::SmallString<128> program;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("pp-profile", "", program))
    return makeError(exitInputOutput,
                     "cannot make a temporary file: " + code.message());
  llvm::FileRemover remove(program);
  if (auto error = link(program))
    return error;
  nameCudaPlugin(flags.linkFile);
  return run(program, flags);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Flags flags;
  registerCompileFlags();
  ToolContext tool(argc, argv, flags.category,
                   "pp-profile: measures the kernels of a model\n");
  return tool.run(
      [&](mlir::MLIRContext &context) { return profile(flags, context); });
}
