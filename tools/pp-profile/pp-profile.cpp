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
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <cstdlib>
#include <optional>
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
  cl::list<int64_t> microbatches{
      "microbatches",
      cl::desc("Micro-batches of a step; of several numbers, one after the "
               "other is measured, for a pp-plan that compares them"),
      cl::CommaSeparated, cl::cat(category)};
  cl::list<int64_t> threads{
      "threads-per-stage",
      cl::desc("Threads that compute each kernel together; of several numbers, "
               "one after the other is measured"),
      cl::CommaSeparated, cl::cat(category)};
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

/// Lets the program write the cost file `output`. It says on stderr what goes
/// wrong.
llvm::Error run(llvm::StringRef program, llvm::StringRef output,
                const Flags &flags) {
  std::string repetitions =
      std::to_string(std::max(4U, flags.repetitions.getValue()));
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
  if ((flags.microbatches.size() > 1 || flags.threads.size() > 1) &&
      !flags.emitProgram.empty())
    return makeError(exitUsage,
                     "--emit-program writes a program for one number "
                     "of --microbatches and of --threads-per-stage");
  for (int64_t count : flags.microbatches)
    if (llvm::Error error = checkCount("microbatches", count))
      return error;
  return llvm::Error::success();
}

/// A program that marks its kernels, as `path`.
llvm::Error makeProgram(const CompileOptions &options, ModelImport &import,
                        llvm::StringRef path, const Flags &flags,
                        mlir::MLIRContext &context) {
  Compilation compilation(&context, options);
  if (auto error = compilation.readOnnx(import))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Lower,
                                   [](mlir::PassManager &) {}))
    return error;
  auto object = compilation.emit();
  if (!object)
    return object.takeError();
  std::vector<std::string> devices;
  if (options.target.isMock())
    devices.push_back("mock");
  if (auto error = linkBinary(*object, path, flags.linkFile, devices))
    return makeError(exitInputOutput, llvm::toString(std::move(error)));
  return llvm::Error::success();
}

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

/// Measures with the options' number of micro-batches.
llvm::Expected<llvm::json::Object> measure(const CompileOptions &options,
                                           ModelImport &import,
                                           const Flags &flags,
                                           mlir::MLIRContext &context) {
  TemporaryFile program, costs;
  for (TemporaryFile *file : {&program, &costs})
    if (auto error = file->create())
      return std::move(error);
  if (auto error = makeProgram(options, import, program.path, flags, context))
    return std::move(error);
  if (auto error = run(program.path, costs.path, flags))
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

/// Adds what only `more` has. What both have was measured twice.
void mergeCosts(llvm::json::Object &costs, llvm::json::Object more) {
  for (auto &[key, value] : more) {
    llvm::json::Object *known = costs.getObject(key),
                       *added = value.getAsObject();
    if (known && added)
      mergeCosts(*known, std::move(*added));
    else
      costs.try_emplace(key, std::move(value));
  }
}

/// As many stages as cores, at most 2: the most that can be hoped for in every
/// model; more than cores would take turns, and stages on one GPU do.
int64_t stagesToMeasure(const CompileOptions &options) {
  int64_t cores = std::thread::hardware_concurrency();
  bool hasRoom = cores >= 2 * options.schedule.threads;
  return options.target.isCpu() && hasRoom ? 2 : 1;
}

llvm::Error profile(const Flags &flags, mlir::MLIRContext &context) {
  if (auto error = checkFlags(flags))
    return error;
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  if (options->plan && !flags.microbatches.empty())
    return makeError(exitUsage, "--microbatches cannot be given together with "
                                "--plan, which decides about it");
  options->lower.markKernels = true;
  if (options->plan && !flags.threads.empty())
    return makeError(exitUsage, "--threads-per-stage cannot be given together "
                                "with --plan, which decides about it");
  bool choosesStages = options->partition.stages == 0 && !options->plan;
  options->partition.ignoreHints |= choosesStages;
  auto import = ModelImport::read(&context, flags.input, options->import,
                                  options->hasTraining);
  if (!import)
    return import.takeError();
  llvm::SmallVector<int64_t> counts(flags.microbatches.begin(),
                                    flags.microbatches.end());
  if (counts.empty())
    counts.push_back(options->microbatches);
  llvm::SmallVector<int64_t> threads(flags.threads.begin(),
                                     flags.threads.end());
  if (threads.empty())
    threads.push_back(options->schedule.threads);
  for (int64_t count : threads)
    if (llvm::Error error = checkThreads(count, options->target))
      return error;
  auto choose = [&](int64_t microbatches, int64_t team) {
    options->microbatches = microbatches;
    options->schedule.threads = team;
    if (choosesStages)
      options->partition.stages = stagesToMeasure(*options);
  };
  choose(counts.front(), threads.front());
  if (!flags.emitProgram.empty())
    return makeProgram(*options, *import, flags.emitProgram, flags, context);
  nameCudaPlugin(flags.linkFile);
  std::optional<llvm::json::Object> costs;
  for (int64_t team : threads)
    for (int64_t count : counts) {
      choose(count, team);
      if (counts.size() > 1 || threads.size() > 1) {
        llvm::outs() << count << " micro-batches";
        if (threads.size() > 1)
          llvm::outs() << ", " << team << " threads";
        llvm::outs() << "\n";
      }
      auto measured = measure(*options, *import, flags, context);
      if (!measured)
        return measured.takeError();
      if (costs)
        mergeCosts(*costs, std::move(*measured));
      else
        costs = std::move(*measured);
    }
  if (auto error =
          llvm::writeToOutput(flags.output, [&](llvm::raw_ostream &os) {
            os << llvm::formatv("{0:1}\n",
                                llvm::json::Value(std::move(*costs)));
            return llvm::Error::success();
          }))
    return makeError(exitInputOutput, "cannot write '" + flags.output + "': " +
                                          llvm::toString(std::move(error)));
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  registerCompileFlags(/*counts=*/false);
  Flags flags;
  ToolContext tool(argc, argv, flags.category,
                   "pp-profile: measures the kernels of a model\n");
  return tool.run(
      [&](mlir::MLIRContext &context) { return profile(flags, context); });
}
