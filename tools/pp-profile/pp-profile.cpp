//===- pp-profile.cpp - Measures the kernels of a model -------------------===//
//
// Writes a cost file for `pp-compile --cost-file` and `pp-plan --cost-file`:
// the time of every kernel, of the library or generated, on this machine. The
// model runs while its kernels are timed, so each finds the caches as its
// predecessors leave them: once with the machine for itself, and once while
// copies of it keep all other cores busy, as the stages of a pipeline do.
//
// What measures is a program of its own (`profile` of runtime/cli), made like
// any other but with marked kernels. So a machine without this compiler can
// measure too.
//
// With --links it measures the machines instead: the runtime's command `links`,
// which each program has as well.
//
//===----------------------------------------------------------------------===//

#include "Measurement.h"
#include "Tuning.h"

#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ProgramRun.h"
#include "pp/Driver/ToolContext.h"

#include "cli/CommandLine.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
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
      "repetitions",
      cl::desc("Steps to run; the middle half counts (default: what takes five "
               "seconds, from 8 to 50, or with --tune two, from 3 to 50)"),
      cl::cat(category)};
  cl::opt<bool> tune{
      "tune",
      cl::desc("Measure what passes choose among (layouts, packed weights, "
               "algorithms of convolutions) and write a --tuning-file; what it "
               "has already of this processor is not measured again"),
      cl::cat(category)};
  cl::opt<bool> links{
      "links",
      cl::desc("Measure no model, but how fast values go between the processes "
               "of a job, and write a cluster file (--links --help)"),
      cl::cat(category)};
  cl::opt<std::string> linkFile{
      "link-file", cl::desc("Arguments that link with the runtime"),
      cl::init(defaultLinkFile()), cl::Hidden, cl::cat(category)};

  MeasureOptions measureOptions() const {
    return {.repetitions = repetitions.getNumOccurrences() ? repetitions : 50U,
            .linkFile = linkFile};
  }
};

/// The plugin of the runtime that programs are linked with, unless the user
/// names another.
void nameCudaPlugin(llvm::StringRef linkFile) {
  llvm::SmallString<128> plugin = llvm::sys::path::parent_path(linkFile);
  llvm::sys::path::append(plugin, "libpp_cuda.so");
  if (llvm::sys::fs::exists(plugin))
    setenv("PP_CUDA_PLUGIN", plugin.c_str(), /*overwrite=*/0);
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
  if (flags.tune && (flags.microbatches.size() > 1 || !flags.threads.empty() ||
                     !flags.emitProgram.empty()))
    return makeError(exitUsage,
                     "--tune takes one number of --microbatches, no "
                     "--threads-per-stage (a choice must not depend on it) and "
                     "no --emit-program");
  for (int64_t count : flags.microbatches)
    if (llvm::Error error = checkCount("microbatches", count))
      return error;
  return llvm::Error::success();
}

constexpr llvm::StringLiteral latencyField = "transfer_latency_seconds";

/// Measures one number of micro-batches and of threads, as often as
/// `repetitions` says, or as there is time for.
class Profiler {
public:
  Profiler(const CompileOptions &options, ModelImport &import,
           const Flags &flags, mlir::MLIRContext &context)
      : options(options), import(import), context(context),
        settings(flags.measureOptions()),
        isFixed(flags.repetitions.getNumOccurrences() > 0) {}

  /// The pipeline that the options describe.
  llvm::Expected<llvm::json::Object> measureGiven() {
    if (!isFixed)
      settings.repetitions = fewest;
    auto costs = measure(options, import, settings, context, &peakBytes);
    if (!costs || isFixed)
      return costs;
    double step = std::max(stepOf(*costs), 1e-6);
    settings.repetitions = static_cast<unsigned>(
        std::clamp(5 / step, double(fewest), double(most)));
    return settings.repetitions == fewest
               ? std::move(costs)
               : measure(options, import, settings, context);
  }

  /// One stage, alone and while the other cores do the same, then, if wanted, a
  /// transfer between two. On a GPU, one stage: what several would do on it is
  /// to take turns.
  llvm::Expected<llvm::json::Object> measureStage(bool wantsLatency) {
    options.partition.stages = 1;
    auto alone = measureGiven();
    int64_t others =
        std::thread::hardware_concurrency() / options.schedule.threads - 1;
    if (!alone || !options.target.isCpu() || others < 1)
      return alone;
    settings.copies = countCopies(static_cast<unsigned>(others), peakBytes);
    auto costs =
        settings.copies > 0
            ? measure(options, import, settings, context)
            : llvm::Expected<llvm::json::Object>(llvm::json::Object(*alone));
    if (!costs)
      return costs;
    settings.copies = 0;
    markAlone(*alone);
    mergeCosts(*costs, std::move(*alone));
    return wantsLatency ? addLatency(std::move(*costs)) : std::move(costs);
  }

private:
  /// A model that cannot be cut has no transfers.
  llvm::Expected<llvm::json::Object> addLatency(llvm::json::Object costs) {
    options.partition.stages = 2;
    settings.repetitions = std::min(settings.repetitions, fewest);
    mlir::ScopedDiagnosticHandler quiet(
        &context, [](mlir::Diagnostic &) { return mlir::success(); });
    auto two = measure(options, import, settings, context);
    if (!two) {
      llvm::consumeError(two.takeError());
      return std::move(costs);
    }
    if (auto latency = two->getNumber(latencyField))
      costs[latencyField] = *latency;
    return std::move(costs);
  }

  static constexpr unsigned fewest = 8, most = 50;
  CompileOptions options;
  ModelImport &import;
  mlir::MLIRContext &context;
  MeasureOptions settings;
  bool isFixed;
  uint64_t peakBytes = 0;
};

llvm::Error write(llvm::json::Object costs, llvm::StringRef path) {
  auto error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    os << llvm::formatv("{0:1}\n", llvm::json::Value(std::move(costs)));
    return llvm::Error::success();
  });
  if (error)
    return makeError(exitInputOutput, "cannot write '" + path + "': " +
                                          llvm::toString(std::move(error)));
  return llvm::Error::success();
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
  if (flags.tune && options->target.isGpu())
    return makeError(exitUsage, "--tune and --target=" + options->target.str() +
                                    ": it is for the processor's kernels");
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
      options->partition.stages = 1;
  };
  choose(counts.front(), threads.front());
  if (!flags.emitProgram.empty())
    return makeProgram(*options, *import, flags.emitProgram, flags.linkFile,
                       context);
  nameCudaPlugin(flags.linkFile);
  if (flags.tune) {
    auto costs = tune(*options, *import, flags.output, flags.measureOptions(),
                      flags.repetitions.getNumOccurrences() > 0, context);
    return costs ? write(std::move(*costs), flags.output) : costs.takeError();
  }
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
      Profiler profiler(*options, *import, flags, context);
      auto measured =
          choosesStages
              ? profiler.measureStage(!costs || !costs->get(latencyField))
              : profiler.measureGiven();
      if (!measured)
        return measured.takeError();
      if (costs)
        mergeCosts(*costs, std::move(*measured));
      else
        costs = std::move(*measured);
    }
  return write(std::move(*costs), flags.output);
}

} // namespace

/// `--links`: no model, and the options of the runtime's own command. Returns
/// nothing where it is not among the arguments.
static std::optional<int> measureLinks(int argc, char **argv) {
  llvm::SmallVector<const char *> rest(argv, argv + argc);
  auto *found = llvm::find(rest, llvm::StringRef("--links"));
  if (found == rest.end())
    return std::nullopt;
  rest.erase(found);
  return runtime::runLinksCommandLine(static_cast<int>(rest.size()),
                                      rest.data());
}

int main(int argc, char **argv) {
  if (std::optional<int> code = measureLinks(argc, argv))
    return *code;
  llvm::InitLLVM init(argc, argv);
  registerCompileFlags(/*counts=*/false);
  Flags flags;
  ToolContext tool(argc, argv, flags.category,
                   "pp-profile: measures the kernels of a model\n");
  return tool.run(
      [&](mlir::MLIRContext &context) { return profile(flags, context); });
}
