//===- CompileFlags.cpp - Command-line flags of a compilation -------------===//

#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ImportFlags.h"
#include "pp/Planner/Schedule/Generators.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ManagedStatic.h"

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory main{"Pipeline options"};
  cl::OptionCategory training{"Training options"};

  cl::opt<int64_t> stages{
      "stages",
      cl::desc("Number of stages (default: as the model's pipeline_stage "
               "annotations say, else 1)"),
      cl::init(0), cl::cat(main)};
  cl::opt<int64_t> microbatches{"microbatches",
                                cl::desc("Micro-batches of a step"),
                                cl::init(1), cl::cat(main)};
  cl::opt<std::string> schedule{
      "schedule",
      cl::desc("gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-h2, zb-v or "
               "dualpipev"),
      cl::init("1f1b"), cl::cat(main)};
  cl::opt<int64_t> ranks{
      "ranks",
      cl::desc("Threads that share the stages in training (default: half as "
               "many as stages "
               "for zb-v and dualpipev, else one per stage)"),
      cl::init(0), cl::cat(main)};
  cl::opt<std::string> checkpoint{
      "checkpoint",
      cl::desc("What is recomputed: always, except_last or never"),
      cl::init("never"), cl::cat(main)};
  cl::opt<std::string> objective{"objective",
                                 cl::desc("Balance stages by time or memory"),
                                 cl::init("time"), cl::cat(main)};
  cl::list<std::string> cuts{"cuts",
                             cl::desc("ONNX nodes that begin stages 1, 2, ..."),
                             cl::CommaSeparated, cl::cat(main)};
  cl::opt<bool> ignoreHints{"ignore-hints",
                            cl::desc("Ignore the model's pipeline_stage"),
                            cl::cat(main)};
  cl::opt<std::string> costFile{
      "cost-file", cl::desc("Measured kernel times (JSON)"), cl::cat(main)};
  cl::opt<std::string> cpu{"cpu", cl::desc("Processor to compile for"),
                           cl::init("native"), cl::cat(main)};

  cl::opt<std::string> loss{
      "loss",
      cl::desc("cross_entropy or mse; without it, only inference is compiled"),
      cl::cat(training)};
  cl::opt<std::string> lossOutput{
      "loss-output", cl::desc("Model output the loss is computed from"),
      cl::cat(training)};
  cl::opt<int64_t> classAxis{"class-axis",
                             cl::desc("Axis of the classes in that output"),
                             cl::init(-1), cl::cat(training)};
  cl::opt<std::string> optimizer{"optimizer", cl::desc("sgd or adamw"),
                                 cl::init("sgd"), cl::cat(training)};
  cl::opt<double> learningRate{"learning-rate", cl::desc("Learning rate"),
                               cl::init(0.01), cl::cat(training)};
  cl::opt<double> momentum{"momentum", cl::desc("Momentum of sgd"), cl::init(0),
                           cl::cat(training)};
  cl::opt<double> weightDecay{"weight-decay", cl::desc("Weight decay"),
                              cl::init(0), cl::cat(training)};
  cl::opt<double> beta1{"beta1", cl::desc("adamw: decay of the mean"),
                        cl::init(0.9), cl::cat(training)};
  cl::opt<double> beta2{"beta2", cl::desc("adamw: decay of the square"),
                        cl::init(0.999), cl::cat(training)};
  cl::opt<double> epsilon{"epsilon", cl::desc("adamw: added to the root"),
                          cl::init(1e-8), cl::cat(training)};
};

llvm::ManagedStatic<Flags> flags;

/// Faults that passes would find too, but with the name of the flag.
llvm::Error checkFlags() {
  auto oneOf = [](llvm::StringRef flag, llvm::StringRef value,
                  llvm::ArrayRef<llvm::StringRef> known) -> llvm::Error {
    if (llvm::is_contained(known, value))
      return llvm::Error::success();
    return makeError(exitUsage, "--" + flag + "=" + value + ": expected " +
                                    llvm::join(known, ", "));
  };
  auto positive = [](llvm::StringRef flag, int64_t value) -> llvm::Error {
    if (value >= 1 && value <= (1 << 20))
      return llvm::Error::success();
    return makeError(exitUsage, "--" + flag + "=" + llvm::Twine(value) +
                                    ": must be from 1 to 1048576");
  };
  if (flags->stages.getNumOccurrences())
    if (auto e = positive("stages", flags->stages))
      return e;
  if (auto e = positive("microbatches", flags->microbatches))
    return e;
  if (flags->ranks.getNumOccurrences())
    if (auto e = positive("ranks", flags->ranks))
      return e;
  llvm::SmallVector<llvm::StringRef> schedules;
  for (std::string_view name : planner::scheduleNames())
    if (name != "inference")
      schedules.push_back(name);
  if (auto e = oneOf("schedule", flags->schedule, schedules))
    return e;
  if (auto e = oneOf("checkpoint", flags->checkpoint,
                     {"always", "except_last", "never"}))
    return e;
  if (auto e = oneOf("objective", flags->objective, {"time", "memory"}))
    return e;
  if (auto e = oneOf("optimizer", flags->optimizer, {"sgd", "adamw"}))
    return e;
  if (!flags->loss.empty())
    if (auto e = oneOf("loss", flags->loss, {"cross_entropy", "mse"}))
      return e;
  return llvm::Error::success();
}

} // namespace

void pp::registerCompileFlags() {
  registerImportFlags();
  *flags;
}

llvm::SmallVector<cl::OptionCategory *> pp::getCompileCategories() {
  return {&flags->main, &flags->training, &getImportCategory()};
}

llvm::Expected<CompileOptions> pp::getCompileOptions() {
  if (llvm::Error error = checkFlags())
    return std::move(error);
  auto import = getImportOptions();
  if (!import)
    return import.takeError();
  CompileOptions options;
  options.import = *import;
  options.batch = isBatchGiven() ? import->batch : 0;
  options.microbatches = flags->microbatches;
  options.stages = flags->stages;
  options.schedule = flags->schedule;
  options.ranks = flags->ranks;
  options.checkpoint = flags->checkpoint;
  options.objective = flags->objective;
  options.cuts.assign(flags->cuts.begin(), flags->cuts.end());
  options.ignoreHints = flags->ignoreHints;
  options.costFile = flags->costFile;
  options.cpu = flags->cpu;
  options.loss = flags->loss;
  options.output = flags->lossOutput;
  options.classAxis = flags->classAxis;
  options.optimizer = flags->optimizer;
  options.learningRate = flags->learningRate;
  options.momentum = flags->momentum;
  options.weightDecay = flags->weightDecay;
  options.beta1 = flags->beta1;
  options.beta2 = flags->beta2;
  options.epsilon = flags->epsilon;
  return options;
}
