//===- CompileFlags.cpp - Command-line flags of a compilation -------------===//

#include "pp/Driver/CompileFlags.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ImportFlags.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Target/DeviceEmitter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cfloat>
#include <cmath>

using namespace pp;
namespace cl = llvm::cl;

namespace {

/// How it is pipelined.
struct PipelineFlags {
  cl::OptionCategory main{"Pipeline options"};

  cl::opt<int64_t> stages{
      "stages",
      cl::desc("Number of stages (default: as the model's pipeline_stage "
               "annotations say, else 1)"),
      cl::init(0), cl::cat(main)};
  cl::opt<int64_t> microbatches{"microbatches",
                                cl::desc("Micro-batches of a step"),
                                cl::init(1), cl::cat(main)};
  cl::opt<int64_t> replicas{
      "replicas",
      cl::desc("Copies of the pipeline that run side by side, each on its "
               "share of the micro-batches (data parallelism)"),
      cl::init(1), cl::cat(main)};
  cl::opt<std::string> schedule{
      "schedule",
      cl::desc(
          "gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb-h1, "
          "zb-h2, zb-v, v-half, v-min, dualpipev or auto (searched for the "
          "predicted times)"),
      cl::init("1f1b"), cl::cat(main)};
  cl::opt<int64_t> ranks{
      "ranks",
      cl::desc("Threads that share the stages in training (default: half as "
               "many as stages "
               "for those that go there and back, else one per stage)"),
      cl::init(0), cl::cat(main)};
  cl::opt<int64_t> memory{
      "memory",
      cl::desc("With --schedule=auto: bytes that a rank may keep from forward "
               "to backward passes (default: no limit)"),
      cl::value_desc("bytes"), cl::init(0), cl::cat(main)};
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
  cl::opt<std::string> plan{
      "plan",
      cl::desc("A plan of pp-plan (JSON): stages, schedule and recompute"),
      cl::value_desc("file"), cl::cat(main)};
};

/// What is computed, and for which machine.
struct ModelFlags {
  cl::OptionCategory machine{"Machine options"};
  cl::OptionCategory training{"Training options"};

  cl::opt<std::string> costFile{
      "cost-file", cl::desc("Measured kernel times (JSON)"), cl::cat(machine)};
  cl::opt<std::string> cpu{"cpu", cl::desc("Processor to compile for"),
                           cl::init("native"), cl::cat(machine)};
  cl::opt<std::string> precision{
      "precision",
      cl::desc("Of matrix products and convolutions: f32, bf16, or for GPUs "
               "tf32 or f16 (sums and everything else stay f32)"),
      cl::init("f32"), cl::cat(machine)};
  cl::opt<std::string> fuseAttention{
      "fuse-attention",
      cl::desc("Attention as one kernel: always, never or auto (for GPUs, with "
               "--precision=bf16 or f16)"),
      cl::init("auto"), cl::cat(machine)};
  cl::opt<std::string> target{
      "target",
      cl::desc("cpu, cuda:sm_NN for a GPU (cuda alone is cuda:sm_90), or mock, "
               "which emulates a GPU's kernels on the processor"),
      cl::init("cpu"), cl::cat(machine)};

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
  cl::opt<int64_t> ignoreIndex{
      "ignore-index",
      cl::desc("Label that cross_entropy leaves out, as PyTorch's"),
      cl::init(-100), cl::cat(training)};
  cl::opt<std::string> lossScale{
      "loss-scale",
      cl::desc(
          "What the gradient of the loss is multiplied by: a number, or "
          "dynamic, which is halved when gradients overflow (default: dynamic "
          "for --precision=f16, else 1). With none, the program does not look "
          "for gradients that are not finite"),
      cl::cat(training)};
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

llvm::ManagedStatic<PipelineFlags> pipelineFlags;
llvm::ManagedStatic<ModelFlags> modelFlags;

bool hasPipelineFlags = false;

llvm::Error checkOneOf(llvm::StringRef flag, llvm::StringRef value,
                       llvm::ArrayRef<llvm::StringRef> known) {
  if (llvm::is_contained(known, value))
    return llvm::Error::success();
  return makeError(exitUsage, "--" + flag + "=" + value + ": expected " +
                                  llvm::join(known, ", "));
}

llvm::Error checkPositive(llvm::StringRef flag, int64_t value) {
  if (value >= 1 && value <= (1 << 20))
    return llvm::Error::success();
  return makeError(exitUsage, "--" + flag + "=" + llvm::Twine(value) +
                                  ": must be from 1 to 1048576");
}

/// Refuses NaN and infinity as well.
llvm::Error checkReal(llvm::StringRef flag, double value, double most,
                      const llvm::Twine &range) {
  if (value >= 0 && value <= most)
    return llvm::Error::success();
  return makeError(exitUsage, "--" + flag + "=" +
                                  llvm::formatv("{0}", value).str() +
                                  ": must be " + range);
}

/// The ranges of PyTorch.
llvm::Error checkOptimizerFlags() {
  const ModelFlags &flags = *modelFlags;
  for (auto [flag, value] :
       {std::pair<llvm::StringRef, double>{"learning-rate", flags.learningRate},
        {"momentum", flags.momentum},
        {"weight-decay", flags.weightDecay},
        {"epsilon", flags.epsilon}})
    if (auto e = checkReal(flag, value, FLT_MAX,
                           "a number of at least 0 that a float holds"))
      return e;
  for (auto [flag, value] :
       {std::pair<llvm::StringRef, double>{"beta1", flags.beta1},
        {"beta2", flags.beta2}})
    if (auto e = checkReal(flag, value, std::nextafter(1.0F, 0.0F),
                           "a number of at least 0 and less than 1"))
      return e;
  return llvm::Error::success();
}

/// Faults that passes would find too, but with the name of the flag.
llvm::Error checkModelFlags() {
  const ModelFlags &flags = *modelFlags;
  if (auto e = checkOneOf("optimizer", flags.optimizer, {"sgd", "adamw"}))
    return e;
  if (!flags.loss.empty())
    if (auto e = checkOneOf("loss", flags.loss, {"cross_entropy", "mse"}))
      return e;
  if (auto e = checkOptimizerFlags())
    return e;
  llvm::StringRef scale = flags.lossScale;
  if (scale.empty() || scale == "none" || scale == "dynamic" ||
      nn::isLossScale(scale))
    return llvm::Error::success();
  return makeError(exitUsage, "--loss-scale=" + scale +
                                  ": expected none, dynamic or a positive "
                                  "number");
}

/// Whether the libraries of the target have products of that precision.
llvm::Error checkPrecision(llvm::StringRef precision, llvm::StringRef target) {
  if (auto e =
          checkOneOf("precision", precision, {"f32", "tf32", "bf16", "f16"}))
    return e;
  auto refuse = [&](const llvm::Twine &why) {
    return makeError(exitUsage, "--precision=" + precision +
                                    " with --target=" + target + ": " + why);
  };
  std::optional<unsigned> number = getGpuArchitecture(target);
  if (number && *number < 80 && (precision == "tf32" || precision == "bf16"))
    return refuse("GPUs have it from sm_80 on");
  if (precision == "tf32" && !number)
    return refuse("only GPUs have TF32; compile for cuda");
  if (precision == "f16" && target == "cpu")
    return refuse("the processor's library has no products of f16; take bf16");
  return llvm::Error::success();
}

/// Whether the library of the target has attention of that precision.
llvm::Error checkFuseAttention(const CompileOptions &options) {
  if (auto e = checkOneOf("fuse-attention", options.fuseAttention,
                          {"auto", "always", "never"}))
    return e;
  std::optional<unsigned> number = getGpuArchitecture(options.target);
  if (options.fuseAttention != "always" || !number)
    return llvm::Error::success();
  auto refuse = [&](const llvm::Twine &with, const llvm::Twine &why) {
    return makeError(exitUsage,
                     "--fuse-attention=always with " + with + ": " + why);
  };
  if (*number < 80)
    return refuse("--target=" + options.target, "GPUs have it from sm_80 on");
  if (options.precision != "bf16" && options.precision != "f16")
    return refuse("--precision=" + options.precision +
                      " and --target=" + options.target,
                  "GPUs have it in 16 bits only; take --precision=bf16 or f16");
  return llvm::Error::success();
}

llvm::Error checkPipelineFlags() {
  const PipelineFlags &flags = *pipelineFlags;
  if (flags.stages.getNumOccurrences())
    if (auto e = checkPositive("stages", flags.stages))
      return e;
  if (auto e = checkPositive("microbatches", flags.microbatches))
    return e;
  if (auto e = checkPositive("replicas", flags.replicas))
    return e;
  if (flags.ranks.getNumOccurrences())
    if (auto e = checkPositive("ranks", flags.ranks))
      return e;
  llvm::SmallVector<llvm::StringRef> schedules;
  for (std::string_view name : planner::scheduleNames())
    if (name != "inference")
      schedules.push_back(name);
  schedules.push_back("auto");
  if (auto e = checkOneOf("schedule", flags.schedule, schedules))
    return e;
  if (flags.memory.getNumOccurrences()) {
    if (flags.memory < 1)
      return makeError(exitUsage, "--memory=" + llvm::Twine(flags.memory) +
                                      ": must be 1 or more bytes");
    if (flags.schedule != "auto")
      return makeError(exitUsage,
                       "--memory is a limit for --schedule=auto only");
  }
  if (auto e = checkOneOf("checkpoint", flags.checkpoint,
                          {"always", "except_last", "never"}))
    return e;
  if (auto e = checkOneOf("objective", flags.objective, {"time", "memory"}))
    return e;
  if (flags.plan.empty())
    return llvm::Error::success();
  // cl::list has an operator& of its own.
  for (const cl::Option *other : std::initializer_list<const cl::Option *>{
           &flags.stages, &flags.microbatches, &flags.replicas, &flags.ranks,
           &flags.schedule, &flags.memory, &flags.checkpoint, &flags.objective,
           std::addressof(flags.cuts), &flags.ignoreHints})
    if (other->getNumOccurrences())
      return makeError(exitUsage, "--" + other->ArgStr +
                                      " cannot be given together with --plan, "
                                      "which decides about it");
  return llvm::Error::success();
}

/// What the plan says, instead of the flags.
llvm::Error readPlan(CompileOptions &options) {
  auto plan = readPlanFile(options.plan);
  if (!plan)
    return plan.takeError();
  if (plan->training == options.loss.empty())
    return makeError(
        exitUsage, "'" + options.plan +
                       (plan->training ? "' is for training; add --loss"
                                       : "' is for inference; remove --loss"));
  if (options.batch != 0 && options.batch != plan->batch)
    return makeError(exitUsage, "--batch=" + llvm::Twine(options.batch) +
                                    ": '" + options.plan +
                                    "' is for a batch of " +
                                    llvm::Twine(plan->batch));
  applyPlan(options, *plan);
  return llvm::Error::success();
}

} // namespace

void pp::registerModelFlags() {
  registerImportFlags();
  *modelFlags;
}

void pp::registerCompileFlags() {
  registerModelFlags();
  *pipelineFlags;
  hasPipelineFlags = true;
}

llvm::SmallVector<cl::OptionCategory *> pp::getCompileCategories() {
  llvm::SmallVector<cl::OptionCategory *> categories = {
      &modelFlags->training, &modelFlags->machine, &getImportCategory()};
  if (hasPipelineFlags)
    categories.insert(categories.begin(), &pipelineFlags->main);
  return categories;
}

llvm::Expected<planner::Plan> pp::readPlanFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  auto plan = planner::Plan::fromJson((*buffer)->getBuffer());
  if (!plan)
    return makeError(exitInvalid, "'" + path + "': " + plan.error());
  return *plan;
}

llvm::Expected<CompileOptions> pp::getCompileOptions() {
  if (llvm::Error error = checkModelFlags())
    return std::move(error);
  auto import = getImportOptions();
  if (!import)
    return import.takeError();
  CompileOptions options;
  options.import = *import;
  options.batch = isBatchGiven() ? import->batch : 0;
  const ModelFlags &model = *modelFlags;
  options.costFile = model.costFile;
  options.cpu = model.cpu;
  options.precision = model.precision;
  options.target =
      model.target == "cuda" ? "cuda:sm_90" : std::string(model.target);
  llvm::StringRef chip = options.target;
  if (options.target != "cpu" && options.target != "mock" &&
      !(chip.consume_front("cuda:") && isChipName(chip)))
    return makeError(exitUsage, "--target=" + model.target +
                                    ": expected cpu, mock, cuda or "
                                    "cuda:sm_NN with NN of at least 70");
  if (auto e = checkPrecision(options.precision, options.target))
    return std::move(e);
  options.fuseAttention = model.fuseAttention;
  if (auto e = checkFuseAttention(options))
    return std::move(e);
  options.loss = model.loss;
  options.lossScale = model.lossScale;
  if (options.lossScale.empty())
    options.lossScale = options.precision == "f16" ? "dynamic" : "1";
  options.output = model.lossOutput;
  options.classAxis = model.classAxis;
  options.ignoreIndex = model.ignoreIndex;
  options.optimizer = model.optimizer;
  options.learningRate = model.learningRate;
  options.momentum = model.momentum;
  options.weightDecay = model.weightDecay;
  options.beta1 = model.beta1;
  options.beta2 = model.beta2;
  options.epsilon = model.epsilon;
  if (!hasPipelineFlags)
    return options;
  if (llvm::Error error = checkPipelineFlags())
    return std::move(error);
  const PipelineFlags &flags = *pipelineFlags;
  options.microbatches = flags.microbatches;
  options.replicas = flags.replicas;
  options.stages = flags.stages;
  options.schedule = flags.schedule;
  options.ranks = flags.ranks;
  options.memory = flags.memory;
  options.checkpoint = flags.checkpoint;
  options.objective = flags.objective;
  options.cuts.assign(flags.cuts.begin(), flags.cuts.end());
  options.ignoreHints = flags.ignoreHints;
  options.plan = flags.plan;
  if (!options.plan.empty())
    if (llvm::Error error = readPlan(options))
      return std::move(error);
  return options;
}
