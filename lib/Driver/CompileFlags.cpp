//===- CompileFlags.cpp - Command-line flags of a compilation -------------===//

#include "pp/Driver/CompileFlags.h"
#include "cpu/Processor.h"
#include "pp/Dialect/NN/Transforms/AddedLoss.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ImportFlags.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pprt/pprt.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cfloat>
#include <cmath>
#include <numeric>

using namespace pp;
namespace cl = llvm::cl;

namespace {

/// How it is pipelined.
/// The flags are bound to the fields of `options`, whose defaults they show.
struct ModelFlags {
  CompileOptions options;

  cl::OptionCategory machine{"Machine options"};
  cl::OptionCategory training{"Training options"};

  /// A flag for a field of `options`.
  template <typename T> using Bound = cl::opt<T, /*ExternalStorage=*/true>;

  Bound<std::string> costFile{
      "cost-file", cl::desc("Measured kernel times (JSON)"),
      cl::location(options.cost.costFile), cl::cat(machine)};
  Bound<std::string> tuningFile{
      "tuning-file",
      cl::desc(
          "Measured times (JSON of pp-profile --tune) by which kernels and "
          "layouts are chosen; results have other last bits"),
      cl::value_desc("file"), cl::location(options.tuningFile),
      cl::cat(machine)};
  Bound<std::string> cpu{"cpu", cl::desc("Processor to compile for"),
                         cl::location(options.cpu), cl::init(options.cpu),
                         cl::cat(machine)};
  Bound<nn::Precision> precision{
      "precision",
      cl::desc("Of matrix products and convolutions (sums and everything else "
               "stay f32)"),
      cl::location(options.precision), cl::init(options.precision),
      cl::cat(machine)};
  Bound<AttentionFusion> fuseAttention{
      "fuse-attention", cl::desc("Attention as one kernel"),
      cl::location(options.fuseAttention), cl::init(options.fuseAttention),
      cl::cat(machine)};
  Bound<nn::ConvolutionChoice> convolutions{
      "convolutions",
      cl::desc(
          "Algorithms of 3 x 3 convolutions on the processor (results have "
          "other last bits)"),
      cl::location(options.convolutions.convolutions),
      cl::init(options.convolutions.convolutions), cl::cat(machine)};
  Bound<nn::LayoutChoice> layouts{
      "layouts",
      cl::desc("Where the channels of convolutions' tensors lie beside the "
               "plain layout (of the processor; results have other last bits)"),
      cl::location(options.layouts.layouts), cl::init(options.layouts.layouts),
      cl::cat(machine)};
  Bound<NormKernels> norms{
      "norms", cl::desc("What runs batch norms on the processor"),
      cl::location(options.norms), cl::init(options.norms), cl::cat(machine)};
  Bound<nn::PackWeightsMode> packWeights{
      "pack-weights",
      cl::desc("Whether products read weights in the library's own layout, of "
               "which a stage keeps copies; for the processor"),
      cl::location(options.packWeights.mode),
      cl::init(options.packWeights.mode), cl::cat(machine)};
  cl::opt<std::string> target{
      "target",
      cl::desc("cpu, cuda:sm_NN for a GPU (cuda alone is cuda:sm_90), or mock, "
               "a GPU whose kernels the processor runs"),
      cl::init("cpu"), cl::cat(machine)};

  Bound<bool> markKernels{
      "mark-kernels",
      cl::desc(
          "Let the program take the time of each kernel (bench --kernels)"),
      cl::location(options.lower.markKernels), cl::cat(machine)};

  /// `output:NAME` says which output, too.
  struct LossParser : cl::parser<nn::Loss> {
    using cl::parser<nn::Loss>::parser;
    // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): cl::opt's
    bool parse(cl::Option &option, llvm::StringRef flag, llvm::StringRef text,
               nn::Loss &value) {
      if (!text.consume_front((getName(nn::Loss::Output) + ":").str()))
        return cl::parser<nn::Loss>::parse(option, flag, text, value);
      if (text.empty())
        return option.error("expected output:NAME");
      value = nn::Loss::Output;
      output = text;
      return false;
    }
    std::string output;
  };
  cl::opt<nn::Loss, /*ExternalStorage=*/true, LossParser> loss{
      "loss",
      cl::desc("What is trained; without it, only inference is compiled"),
      cl::location(options.loss.loss), cl::cat(training)};
  Bound<std::string> lossOutput{
      "loss-output", cl::desc("Model output the loss is computed from"),
      cl::location(options.loss.output), cl::cat(training)};
  cl::list<std::string> addedLosses{
      "add-loss",
      cl::desc("A loss of another output, times a weight, that is added; "
               "several may be given. Its targets are those named, else "
               "target.OUTPUT"),
      cl::value_desc("[WEIGHT*]LOSS:OUTPUT[=TARGET]"), cl::CommaSeparated,
      cl::cat(training)};
  Bound<bool> averagesMeans{
      "mean-of-microbatches",
      cl::desc(
          "--loss=output:NAME, where that is a mean over what counts: take "
          "the mean over micro-batches of it"),
      cl::location(options.averagesMeans), cl::cat(training)};
  Bound<int64_t> classAxis{"class-axis",
                           cl::desc("Axis of the classes in that output"),
                           cl::location(options.loss.classAxis),
                           cl::init(options.loss.classAxis), cl::cat(training)};
  Bound<int64_t> ignoreIndex{
      "ignore-index",
      cl::desc("Label that cross_entropy leaves out, as PyTorch's"),
      cl::location(options.loss.ignoreIndex),
      cl::init(options.loss.ignoreIndex), cl::cat(training)};
  Bound<double> labelSmoothing{
      "label-smoothing",
      cl::desc("Cross entropies: what all classes share of a label"),
      cl::location(options.loss.labelSmoothing), cl::cat(training)};
  cl::list<double> classWeights{
      "class-weights",
      cl::desc("cross_entropy: what each class counts; the mean is over what "
               "the labels count, as PyTorch's"),
      cl::value_desc("w,..."), cl::CommaSeparated, cl::cat(training)};
  Bound<double> huberDelta{"huber-delta",
                           cl::desc("From where on the loss huber is linear"),
                           cl::location(options.loss.delta),
                           cl::init(options.loss.delta), cl::cat(training)};
  Bound<int64_t> ctcBlank{"ctc-blank",
                          cl::desc("ctc: the class between labels"),
                          cl::location(options.loss.ctcBlank),
                          cl::init(options.loss.ctcBlank), cl::cat(training)};
  Bound<int64_t> ctcTargetLength{
      "ctc-target-length",
      cl::desc("ctc: the most labels of a sample, which is the size of the "
               "targets (default: half as many as frames)"),
      cl::location(options.loss.ctcTargetLength), cl::cat(training)};
  Bound<bool> ctcFrames{
      "ctc-frames",
      cl::desc("ctc: let the program take an input 'frames', the number of "
               "each sample's frames"),
      cl::location(options.loss.ctcFrames), cl::cat(training)};
  Bound<std::string> lossScale{
      "loss-scale",
      cl::desc(
          "What the gradient of the loss is multiplied by: a number, or "
          "dynamic, which is halved when gradients overflow (default: dynamic "
          "for --precision=f16, else 1). With none, the program does not look "
          "for gradients that are not finite"),
      cl::location(options.optimizer.lossScale), cl::cat(training)};
  Bound<nn::Optimizer> optimizer{
      "optimizer", cl::desc("How parameters follow gradients"),
      cl::location(options.optimizer.optimizer),
      cl::init(options.optimizer.optimizer), cl::cat(training)};
  Bound<double> learningRate{"learning-rate", cl::desc("Learning rate"),
                             cl::location(options.optimizer.learningRate),
                             cl::init(options.optimizer.learningRate),
                             cl::cat(training)};
  Bound<double> momentum{
      "momentum",
      cl::desc("Momentum of sgd, lars, rmsprop and muon (default: 0; muon: "
               "0.95)"),
      cl::location(options.optimizer.momentum), cl::cat(training)};
  Bound<double> weightDecay{"weight-decay", cl::desc("Weight decay"),
                            cl::location(options.optimizer.weightDecay),
                            cl::init(options.optimizer.weightDecay),
                            cl::cat(training)};
  Bound<bool> nesterov{
      "nesterov", cl::desc("sgd: look a step of momentum ahead"),
      cl::location(options.optimizer.nesterov), cl::cat(training)};
  Bound<bool> centered{"centered", cl::desc("rmsprop: subtract the mean"),
                       cl::location(options.optimizer.centered),
                       cl::cat(training)};
  Bound<double> trustCoefficient{
      "trust-coefficient",
      cl::desc("lars: share of a parameter's norm that a step of rate 1 has"),
      cl::location(options.optimizer.trustCoefficient),
      cl::init(options.optimizer.trustCoefficient), cl::cat(training)};
  Bound<double> beta1{"beta1",
                      cl::desc("adam, adamw, lamb, lion: decay of the mean"),
                      cl::location(options.optimizer.beta1),
                      cl::init(options.optimizer.beta1), cl::cat(training)};
  Bound<double> beta2{
      "beta2",
      cl::desc("adam, adamw, lamb, rmsprop: decay of the square; lion: of the "
               "mean (default: 0.999; lion, rmsprop: 0.99)"),
      cl::location(options.optimizer.beta2), cl::cat(training)};
  Bound<double> emaDecay{
      "ema-decay",
      cl::desc("Keep an average of each parameter's values, of which that much "
               "is left after a step, such as 0.999 (default: none); the "
               "program's --ema takes it"),
      cl::location(options.optimizer.emaDecay), cl::cat(training)};
  Bound<double> epsilon{
      "epsilon",
      cl::desc("Added to the root (default: 1e-8; adagrad: 1e-10, lamb: 1e-6)"),
      cl::location(options.optimizer.epsilon), cl::cat(training)};
};

llvm::ManagedStatic<ModelFlags> modelFlags;

/// "gpipe, 1f1b, ... or auto"
std::string scheduleHelp() {
  std::string names;
  for (std::string_view name : planner::trainingScheduleNames())
    names += std::string(name) + ", ";
  for (std::string_view name : planner::rollingScheduleNames())
    names += std::string(name) + " (with --allow-stale), ";
  return names + "auto (searched for the predicted times), or FILE.csv (of "
                 "torch.distributed.pipelining)";
}

struct PipelineFlags {
  CompileOptions &options = modelFlags->options;
  std::string scheduleText = scheduleHelp();

  cl::OptionCategory main{"Pipeline options"};

  template <typename T> using Bound = cl::opt<T, /*ExternalStorage=*/true>;

  Bound<int64_t> stages{
      "stages",
      cl::desc("Number of stages (default: as the model's pipeline_stage "
               "annotations say, else 1)"),
      cl::location(options.partition.stages), cl::cat(main)};
  Bound<int64_t> microbatches{"microbatches",
                              cl::desc("Micro-batches of a step"),
                              cl::location(options.microbatches),
                              cl::init(options.microbatches), cl::cat(main)};
  cl::list<int64_t> replicas{
      "replicas",
      cl::desc("Copies of the pipeline that run side by side, each on its "
               "share of the micro-batches (data parallelism); or of each "
               "stage, as in 3,1"),
      cl::value_desc("n,..."), cl::CommaSeparated, cl::cat(main)};
  Bound<int64_t> threads{
      "threads-per-stage",
      cl::desc("Threads that compute each kernel of a stage together, on as "
               "many cores. Not one bit depends on it"),
      cl::location(options.schedule.threads),
      cl::init(options.schedule.threads), cl::cat(main)};
  Bound<int64_t> weightsTogether{
      "weights-together",
      cl::desc("Micro-batches whose gradients of weights a stage computes in "
               "one pass over these. It keeps as many micro-batches more, less "
               "one. Not one bit depends on it"),
      cl::value_desc("number"),
      cl::location(options.schedule.weightsTogether),
      cl::init(options.schedule.weightsTogether),
      cl::cat(main)};
  Bound<int64_t> lanes{
      "gradient-lanes",
      cl::desc("Sums that gradients are added in before these are added up, a "
               "power of two: the number of replicas, up to this one, then "
               "changes no bit. One replica keeps them all"),
      cl::location(options.schedule.lanes), cl::init(options.schedule.lanes),
      cl::cat(main)};
  Bound<double> correction{
      "correct-discrepancy",
      cl::desc("pipemare: correct the weights of backward passes by the mean "
               "of their latest changes; how much of the mean is left after as "
               "many updates as a gradient is late, between 0 and 1, such as "
               "0.135 (default: 0, which does not)"),
      cl::location(options.schedule.correction),
      cl::init(options.schedule.correction), cl::cat(main)};
  Bound<int64_t> clockDistance{
      "clock-distance",
      cl::desc("wsp: how many waves the weights that the virtual workers, the "
               "replicas, share may be behind: a worker can be that far ahead "
               "of another (default: 0)"),
      cl::value_desc("waves"),
      cl::location(options.schedule.clockDistance),
      cl::init(options.schedule.clockDistance),
      cl::cat(main)};
  cl::list<std::string> workerStages{
      "worker-stages",
      cl::desc("wsp: of each virtual worker how many stages each of its ranks "
               "has: 2+2,1+1+2 are two workers of 2 and of 3 ranks for 4 "
               "stages (default: one stage per rank)"),
      cl::value_desc("numbers"), cl::CommaSeparated, cl::cat(main)};
  Bound<std::string> schedule{"schedule", cl::desc(scheduleText),
                              cl::location(options.schedule.schedule),
                              cl::init(options.schedule.schedule),
                              cl::cat(main)};
  Bound<bool> allowStale{
      "allow-stale",
      cl::desc(
          "Allow schedules without a flush, whose passes read weights that "
          "are some updates old: another training than the model's"),
      cl::location(options.schedule.allowStale), cl::cat(main)};
  Bound<int64_t> ranks{
      "ranks",
      cl::desc("Threads that share the stages in training (default: half as "
               "many as stages for schedules of V placement, else one per "
               "stage)"),
      cl::location(options.schedule.ranks), cl::cat(main)};
  Bound<int64_t> memory{
      "memory",
      cl::desc("With --schedule=auto: bytes that a rank may keep from forward "
               "to backward passes (default: no limit)"),
      cl::value_desc("bytes"), cl::location(options.schedule.memory),
      cl::cat(main)};
  Bound<CheckpointMode> checkpoint{
      "checkpoint", cl::desc("What is recomputed in the backward pass"),
      cl::location(options.checkpoint.mode), cl::init(options.checkpoint.mode),
      cl::cat(main)};
  Bound<pipeline::PartitionObjective> objective{
      "objective", cl::desc("What stages have in equal parts"),
      cl::location(options.partition.objective),
      cl::init(options.partition.objective), cl::cat(main)};
  cl::list<std::string> cuts{"cuts",
                             cl::desc("ONNX nodes that begin stages 1, 2, ..."),
                             cl::CommaSeparated, cl::cat(main)};
  Bound<bool> ignoreHints{
      "ignore-hints", cl::desc("Ignore the model's pipeline_stage"),
      cl::location(options.partition.ignoreHints), cl::cat(main)};
  cl::opt<std::string> plan{
      "plan",
      cl::desc("A plan of pp-plan (JSON): stages, schedule and recompute"),
      cl::value_desc("file"), cl::cat(main)};
};

llvm::ManagedStatic<PipelineFlags> pipelineFlags;

bool hasPipelineFlags = false;

llvm::Error checkOneOf(llvm::StringRef flag, llvm::StringRef value,
                       llvm::ArrayRef<llvm::StringRef> known) {
  if (llvm::is_contained(known, value))
    return llvm::Error::success();
  return makeError(exitUsage, "--" + flag + "=" + value + ": expected " +
                                  llvm::join(known, ", "));
}

llvm::Error checkReal(llvm::StringRef flag, double value, double most,
                      const llvm::Twine &range) {
  if (value >= 0 && value <= most)
    return llvm::Error::success();
  return makeError(exitUsage, "--" + flag + "=" +
                                  llvm::formatv("{0}", value).str() +
                                  ": must be " + range);
}

/// The ranges of PyTorch.
llvm::Error checkOptimizer(const nn::AttachOptimizerOptions &options) {
  auto isGiven = [](const cl::Option &flag) {
    return flag.getNumOccurrences() > 0;
  };
  const ModelFlags &flags = *modelFlags;
  for (auto [flag, value] :
       {std::pair("learning-rate", options.learningRate),
        std::pair("momentum", isGiven(flags.momentum) ? options.momentum : 0),
        std::pair("weight-decay", options.weightDecay),
        std::pair("trust-coefficient", options.trustCoefficient),
        std::pair("epsilon", isGiven(flags.epsilon) ? options.epsilon : 0)})
    if (auto e = checkReal(flag, value, FLT_MAX,
                           "a number of at least 0 that a float holds"))
      return e;
  for (auto [flag, value] :
       {std::pair("ema-decay", options.emaDecay),
        std::pair("beta1", options.beta1),
        std::pair("beta2", isGiven(flags.beta2) ? options.beta2 : 0)})
    if (auto e = checkReal(flag, value, std::nextafter(1.0F, 0.0F),
                           "a number of at least 0 and less than 1"))
      return e;
  if (options.nesterov &&
      (options.optimizer != nn::Optimizer::SGD || !(options.momentum > 0)))
    return makeError(exitUsage, "--nesterov: is for --optimizer=sgd with a "
                                "--momentum above 0");
  if (options.centered && options.optimizer != nn::Optimizer::RMSprop)
    return makeError(exitUsage, "--centered: is for --optimizer=rmsprop");
  if (isGiven(flags.trustCoefficient) &&
      options.optimizer != nn::Optimizer::LARS)
    return makeError(exitUsage, "--trust-coefficient: is for "
                                "--optimizer=lars");
  llvm::StringRef scale = options.lossScale;
  if (scale == "none" || scale == "dynamic" || nn::isLossScale(scale))
    return llvm::Error::success();
  return makeError(exitUsage, "--loss-scale=" + scale +
                                  ": expected none, dynamic or a positive "
                                  "number");
}

/// Losses that take what they are given, and devices what they can.
llvm::Error checkTraining(const CompileOptions &options) {
  const ModelFlags &flags = *modelFlags;
  if (auto e = checkReal("label-smoothing", options.loss.labelSmoothing, 1,
                         "a number from 0 to 1"))
    return e;
  if (!(options.loss.delta > 0 && options.loss.delta <= FLT_MAX))
    return makeError(exitUsage, "--huber-delta: must be a number above 0");
  llvm::SmallVector<nn::Loss> losses{options.loss.loss};
  std::string wrong;
  for (const std::string &text : options.loss.addedLosses) {
    if (auto added = nn::parseAddedLoss(text))
      losses.push_back(added->loss);
    else
      wrong += (wrong.empty() ? "'" : ", '") + text + "'";
  }
  if (!wrong.empty())
    return makeError(exitUsage, "--add-loss: cannot read " + wrong +
                                    ": expected " + nn::addedLossText +
                                    ", with a positive weight and a loss "
                                    "that has targets");
  if (losses.size() > 1 && !options.hasTraining)
    return makeError(exitUsage, "--add-loss: adds to a --loss; give that");
  auto has = [&](nn::Loss loss) { return llvm::is_contained(losses, loss); };
  bool isCrossEntropy =
      has(nn::Loss::CrossEntropy) || has(nn::Loss::SoftCrossEntropy);
  if (flags.labelSmoothing.getNumOccurrences() && !isCrossEntropy)
    return makeError(exitUsage, "--label-smoothing: is for cross entropies, "
                                "not for --loss=" +
                                    getName(options.loss.loss));
  if (!options.loss.classWeights.empty() && !has(nn::Loss::CrossEntropy))
    return makeError(exitUsage, "--class-weights: is for cross_entropy, not "
                                "for --loss=" +
                                    getName(options.loss.loss));
  for (double number : options.loss.classWeights)
    if (!(number >= 0 && number <= FLT_MAX))
      return makeError(exitUsage,
                       "--class-weights: must be numbers that are 0 or more");
  if (options.averagesMeans && options.loss.loss != nn::Loss::Output)
    return makeError(exitUsage,
                     "--mean-of-microbatches: is for --loss=output:NAME");
  if (flags.huberDelta.getNumOccurrences() && !has(nn::Loss::Huber))
    return makeError(exitUsage, "--huber-delta: is for --loss=huber");
  for (const cl::Option *flag :
       {static_cast<const cl::Option *>(&flags.ctcBlank),
        static_cast<const cl::Option *>(&flags.ctcTargetLength),
        static_cast<const cl::Option *>(&flags.ctcFrames)})
    if (flag->getNumOccurrences() && !has(nn::Loss::ConnectionistTemporal))
      return makeError(exitUsage,
                       "--" + flag->ArgStr.str() + ": is for --loss=ctc");
  if (options.loss.ctcTargetLength < 0)
    return makeError(exitUsage,
                     "--ctc-target-length: must be a positive number");
  if (options.target.isGpu() &&
      (options.optimizer.optimizer == nn::Optimizer::Adafactor ||
       options.optimizer.optimizer == nn::Optimizer::Muon))
    return makeError(exitUsage,
                     "--optimizer=" + getName(options.optimizer.optimizer) +
                         " and --target=" + options.target.str() +
                         ": it makes its steps of all gradients of a "
                         "parameter, which only programs for the processor "
                         "do");
  return llvm::Error::success();
}

llvm::Error checkPrecision(const CompileOptions &options) {
  auto refuse = [&](const llvm::Twine &why) {
    return makeError(exitUsage, "--precision=" + getName(options.precision) +
                                    " with --target=" + options.target.str() +
                                    ": " + why);
  };
  std::optional<unsigned> number = options.target.getArchitecture();
  bool isTF32 = options.precision == nn::Precision::TF32;
  if (number && *number < 80 &&
      (isTF32 || options.precision == nn::Precision::BF16))
    return refuse("GPUs have it from sm_80 on");
  if (isTF32 && !number)
    return refuse("only GPUs have TF32; compile for cuda");
  if (options.precision == nn::Precision::F16 && options.target.isCpu())
    return refuse("the processor's library has no products of f16; take bf16");
  return llvm::Error::success();
}

llvm::Error checkPackWeights(const CompileOptions &options) {
  if (options.packWeights.mode != nn::PackWeightsMode::Always ||
      options.target.isCpu())
    return llvm::Error::success();
  return makeError(
      exitUsage, "--pack-weights=always with --target=" + options.target.str() +
                     ": only the processor's library has layouts "
                     "of its own");
}

llvm::Error checkFuseAttention(const CompileOptions &options) {
  std::optional<unsigned> number = options.target.getArchitecture();
  if (options.fuseAttention != AttentionFusion::Always || !number)
    return llvm::Error::success();
  auto refuse = [&](const llvm::Twine &with, const llvm::Twine &why) {
    return makeError(exitUsage,
                     "--fuse-attention=always with " + with + ": " + why);
  };
  if (*number < 80)
    return refuse("--target=" + options.target.str(),
                  "GPUs have it from sm_80 on");
  if (options.precision != nn::Precision::BF16 &&
      options.precision != nn::Precision::F16)
    return refuse("--precision=" + getName(options.precision) +
                      " and --target=" + options.target.str(),
                  "GPUs have it in 16 bits only; take --precision=bf16 or f16");
  return llvm::Error::success();
}

llvm::Error checkWeightsTogether(const CompileOptions &options) {
  const int64_t together = options.schedule.weightsTogether;
  if (together == 1)
    return llvm::Error::success();
  auto refuse = [&](const llvm::Twine &why) {
    return makeError(exitUsage, "--weights-together=" + llvm::Twine(together) +
                                    ": " + why);
  };
  if (together < 1 || together > PP_MOST_TOGETHER)
    return refuse("must be from 1 to " + llvm::Twine(PP_MOST_TOGETHER));
  if (modelFlags->loss.getNumOccurrences() == 0)
    return refuse("is for training; add --loss");
  if (planner::weightRuleOf(options.schedule.schedule))
    return refuse("--schedule=" + options.schedule.schedule +
                  " has no flush, after which its W could all have run");
  if (pipelineFlags->memory.getNumOccurrences())
    return refuse("--memory is what the searched order keeps, and W that wait "
                  "for each other would keep more");
  return llvm::Error::success();
}

llvm::Error checkPipelineFlags() {
  const PipelineFlags &flags = *pipelineFlags;
  const CompileOptions &options = flags.options;
  if (flags.stages.getNumOccurrences())
    if (auto e = checkCount("stages", options.partition.stages))
      return e;
  if (auto e = checkCount("microbatches", options.microbatches))
    return e;
  for (int64_t count : flags.replicas)
    if (auto e = checkCount("replicas", count))
      return e;
  if (auto e = checkCount("gradient-lanes", options.schedule.lanes))
    return e;
  if (flags.ranks.getNumOccurrences())
    if (auto e = checkCount("ranks", options.schedule.ranks))
      return e;
  llvm::SmallVector<llvm::StringRef> schedules;
  for (std::string_view name : planner::trainingScheduleNames())
    schedules.push_back(name);
  for (std::string_view name : planner::rollingScheduleNames())
    schedules.push_back(name);
  schedules.push_back("auto");
  if (!planner::isScheduleFile(options.schedule.schedule))
    if (auto e = checkOneOf("schedule", options.schedule.schedule, schedules))
      return e;
  if (planner::weightRuleOf(options.schedule.schedule) &&
      !options.schedule.allowStale)
    return makeError(
        exitUsage,
        "--schedule=" + options.schedule.schedule +
            ": without a flush, passes read weights that are some updates old, "
            "which is another training than the model's; --allow-stale allows "
            "it (docs/schedules/asynchronous.md)");
  bool hasWorkers = planner::weightRuleOf(options.schedule.schedule) ==
                    planner::WeightRule::Waves;
  if (flags.clockDistance.getNumOccurrences()) {
    if (!hasWorkers)
      return makeError(exitUsage,
                       "--clock-distance is for --schedule=wsp only");
    if (options.schedule.clockDistance < 0 ||
        options.schedule.clockDistance > 1024)
      return makeError(
          exitUsage,
          "--clock-distance=" + llvm::Twine(options.schedule.clockDistance) +
              ": must be from 0 to 1024");
  }
  if (auto e = checkWeightsTogether(options))
    return e;
  if (hasWorkers && !llvm::all_equal(flags.replicas))
    return makeError(exitUsage,
                     "--schedule=wsp: its replicas are virtual workers, whole "
                     "pipelines with the same stages; give --replicas one "
                     "number, and --worker-stages where their ranks differ");
  if (!hasWorkers && flags.workerStages.getNumOccurrences())
    return makeError(exitUsage, "--worker-stages is for --schedule=wsp only");
  if (flags.memory.getNumOccurrences()) {
    if (options.schedule.memory < 1)
      return makeError(exitUsage,
                       "--memory=" + llvm::Twine(options.schedule.memory) +
                           ": must be 1 or more bytes");
    if (options.schedule.schedule != "auto")
      return makeError(exitUsage,
                       "--memory is a limit for --schedule=auto only");
  }
  if (flags.plan.empty())
    return llvm::Error::success();
  // cl::list has an operator& of its own.
  for (const cl::Option *other : std::initializer_list<const cl::Option *>{
           &flags.stages, &flags.microbatches, std::addressof(flags.replicas),
           &flags.threads, &flags.ranks, &flags.schedule, &flags.memory,
           &flags.checkpoint, &flags.objective, std::addressof(flags.cuts),
           &flags.ignoreHints, &flags.clockDistance, &flags.weightsTogether,
           std::addressof(flags.workerStages)})
    if (other->getNumOccurrences())
      return makeError(exitUsage, "--" + other->ArgStr +
                                      " cannot be given together with --plan, "
                                      "which decides about it");
  return llvm::Error::success();
}

/// A number of replicas for each stage.
llvm::Error dealStages(CompileOptions &options,
                       llvm::ArrayRef<int64_t> counts) {
  options.replicas = 1;
  options.stageReplicas.assign(counts.begin(), counts.end());
  // Without a flush, the fewest that all can share equally.
  if (planner::weightRuleOf(options.schedule.schedule) &&
      !pipelineFlags->microbatches.getNumOccurrences()) {
    int64_t least = 1;
    for (int64_t count : counts)
      least = std::lcm(least, std::clamp<int64_t>(count, 1, 1 << 10));
    options.microbatches = std::min<int64_t>(least, 1 << 20);
  }
  for (int64_t count : counts)
    if (count > options.microbatches)
      return makeError(exitUsage, "--replicas: " + llvm::Twine(count) +
                                      " copies of a stage cannot share " +
                                      llvm::Twine(options.microbatches) +
                                      " micro-batches; change --microbatches");
  return llvm::Error::success();
}

/// One number for all stages, or one for each.
llvm::Error readReplicas(CompileOptions &options) {
  const PipelineFlags &flags = *pipelineFlags;
  const auto &counts = flags.replicas;
  if (counts.empty())
    return llvm::Error::success();
  options.replicas = counts.front();
  int64_t &stages = options.partition.stages;
  // Without a flush, replicas are of stages; wsp's are other pipelines.
  auto rule = planner::weightRuleOf(options.schedule.schedule);
  bool areOfStages = rule && *rule != planner::WeightRule::Waves;
  if (counts.size() == 1 && areOfStages && counts.front() > 1 && stages > 0)
    return dealStages(options,
                      llvm::SmallVector<int64_t>(stages, counts.front()));
  if (counts.size() == 1)
    return llvm::Error::success();
  auto size = static_cast<int64_t>(counts.size());
  if (flags.stages.getNumOccurrences() && stages != size)
    return makeError(exitUsage, "--replicas has " + llvm::Twine(size) +
                                    " numbers, but there are " +
                                    llvm::Twine(stages) +
                                    " stages: give one for all, or for each");
  stages = size;
  if (llvm::all_equal(counts) && (!areOfStages || counts.front() == 1))
    return llvm::Error::success();
  return dealStages(options,
                    llvm::SmallVector<int64_t>(counts.begin(), counts.end()));
}

/// Virtual workers that are not alike.
llvm::Error readWorkers(CompileOptions &options) {
  const PipelineFlags &flags = *pipelineFlags;
  auto workers = static_cast<int64_t>(flags.workerStages.size());
  int64_t &stages = options.partition.stages;
  for (const std::string &worker : flags.workerStages) {
    auto refuse = [&](const llvm::Twine &why) {
      return makeError(exitUsage,
                       "--worker-stages: '" + llvm::Twine(worker) + "' " + why);
    };
    int64_t all = 0;
    for (llvm::StringRef part : llvm::split(worker, '+')) {
      int64_t count = 0;
      if (part.getAsInteger(10, count) || count < 1 || count > (1 << 20))
        return refuse("is no list of numbers from 1 on, such as 2+1+1");
      all += count;
    }
    bool isFirst = &worker == &flags.workerStages[0];
    if (isFirst && !flags.stages.getNumOccurrences())
      stages = all;
    if (all != stages)
      return refuse("has " + llvm::Twine(all) + " stages, but there are " +
                    llvm::Twine(stages));
    options.schedule.workerStages.push_back(worker);
  }
  if (workers && flags.replicas.getNumOccurrences() &&
      options.replicas != workers)
    return makeError(exitUsage, "--worker-stages has " + llvm::Twine(workers) +
                                    " virtual workers, but --replicas says " +
                                    llvm::Twine(options.replicas));
  if (workers)
    options.replicas = workers;
  return llvm::Error::success();
}

/// What a file for --schedule says beside the order of the actions.
llvm::Error readScheduleFile(CompileOptions &options) {
  const PipelineFlags &flags = *pipelineFlags;
  llvm::StringRef path = options.schedule.schedule;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  auto read = planner::importComputation((*buffer)->getBuffer().str());
  if (!read)
    return makeError(exitInvalid, "'" + path + "': " + read.error());
  const planner::Schedule &order = read->schedule;
  if (!order.isTraining() || !options.hasTraining)
    return makeError(exitUsage,
                     "'" + path +
                         (options.hasTraining
                              ? "' has no backward passes; remove --loss, and "
                                "--schedule, which is for training"
                              : "' is a schedule for training; add --loss"));
  auto settle = [&](const cl::Option &flag, int64_t &value,
                    int64_t number) -> llvm::Error {
    if (flag.getNumOccurrences() && value != number)
      return makeError(exitUsage, "--" + flag.ArgStr + "=" +
                                      llvm::Twine(value) + ": '" + path +
                                      "' is for " + llvm::Twine(number));
    value = number;
    return llvm::Error::success();
  };
  if (auto e = settle(flags.stages, options.partition.stages, order.stages))
    return e;
  if (auto e = settle(flags.ranks, options.schedule.ranks,
                      static_cast<int64_t>(order.ranks.size())))
    return e;
  if (auto e = settle(flags.microbatches, options.microbatches,
                      order.microbatches * options.replicas))
    return e;
  for (const std::string &note : read->notes)
    llvm::errs() << "note: '" << path << "': " << note << "\n";
  return llvm::Error::success();
}

/// What the plan says, instead of the flags.
llvm::Error readPlan(CompileOptions &options, const std::string &path) {
  auto plan = readPlanFile(path);
  if (!plan)
    return plan.takeError();
  if (plan->training != options.hasTraining)
    return makeError(
        exitUsage, "'" + path +
                       (plan->training ? "' is for training; add --loss"
                                       : "' is for inference; remove --loss"));
  if (options.batch != 0 && options.batch != plan->batch)
    return makeError(exitUsage, "--batch=" + llvm::Twine(options.batch) +
                                    ": '" + path + "' is for a batch of " +
                                    llvm::Twine(plan->batch));
  applyPlan(options,
            {path, std::make_shared<const planner::PipelinePlan>(*plan)});
  return llvm::Error::success();
}

} // namespace

llvm::Error pp::checkCount(llvm::StringRef flag, int64_t value) {
  if (value >= 1 && value <= (1 << 20))
    return llvm::Error::success();
  return makeError(exitUsage, "--" + flag + "=" + llvm::Twine(value) +
                                  ": must be from 1 to 1048576");
}

llvm::Error pp::checkThreads(int64_t threads, const Target &target) {
  if (threads < 1 || threads > PP_MOST_THREADS)
    return makeError(exitUsage, "--threads-per-stage=" + llvm::Twine(threads) +
                                    ": must be from 1 to " +
                                    llvm::Twine(PP_MOST_THREADS));
  if (threads > 1 && target.isGpu())
    return makeError(exitUsage, "--threads-per-stage=" + llvm::Twine(threads) +
                                    " and --target=" + target.str() +
                                    ": a stage has one thread per GPU");
  return llvm::Error::success();
}

void pp::registerModelFlags() {
  registerImportFlags();
  *modelFlags;
}

void pp::registerCompileFlags(bool counts) {
  registerModelFlags();
  *pipelineFlags;
  if (!counts) {
    pipelineFlags->microbatches.removeArgument();
    pipelineFlags->threads.removeArgument();
  }
  hasPipelineFlags = true;
}

llvm::SmallVector<cl::OptionCategory *> pp::getCompileCategories() {
  llvm::SmallVector<cl::OptionCategory *> categories = {
      &modelFlags->training, &modelFlags->machine, &getImportCategory()};
  if (hasPipelineFlags)
    categories.insert(categories.begin(), &pipelineFlags->main);
  return categories;
}

llvm::Expected<planner::PipelinePlan> pp::readPlanFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  auto plan = planner::PipelinePlan::fromJson((*buffer)->getBuffer());
  if (!plan)
    return makeError(exitInvalid, "'" + path + "': " + plan.error());
  return *plan;
}

llvm::Expected<CompileOptions> pp::getCompileOptions() {
  auto import = getImportOptions();
  if (!import)
    return import.takeError();
  const ModelFlags &flags = *modelFlags;
  CompileOptions options = flags.options;
  options.import = *import;
  options.import.hasIntegerProducts =
      options.target.isCpu() && runtime::hasIntegerProducts();
  options.import.hasBlockProducts = options.target.isCpu();
  options.batch = isBatchGiven() ? import->batch : 0;
  options.hasTraining = flags.loss.getNumOccurrences() > 0;
  options.loss.classWeights.assign(flags.classWeights.begin(),
                                   flags.classWeights.end());
  options.loss.addedLosses.assign(flags.addedLosses.begin(),
                                  flags.addedLosses.end());
  if (const std::string &output = modelFlags->loss.getParser().output;
      !output.empty())
    options.loss.output = output;
  auto target = Target::parse(flags.target);
  if (!target)
    return makeError(exitUsage, "--target=" + flags.target + ": expected " +
                                    Target::known);
  options.target = *target;
  if (options.optimizer.lossScale.empty() ||
      flags.lossScale.getNumOccurrences() == 0)
    options.optimizer.lossScale =
        options.precision == nn::Precision::F16 ? "dynamic"
        : planner::weightRuleOf(options.schedule.schedule)
            // No step can be skipped: its gradients are never together.
            ? "none"
            : "1";
  if (auto e = checkOptimizer(options.optimizer))
    return std::move(e);
  if (auto e = checkTraining(options))
    return std::move(e);
  if (auto e = checkPackWeights(options))
    return std::move(e);
  if (!options.tuningFile.empty() && options.target.isGpu())
    return makeError(exitUsage,
                     "--tuning-file and --target=" + options.target.str() +
                         ": it is for the processor's kernels");
  // What kernels were chosen by is also what they cost.
  if (options.cost.costFile.empty())
    options.cost.costFile = options.tuningFile;
  if (auto e = checkPrecision(options))
    return std::move(e);
  if (auto e = checkFuseAttention(options))
    return std::move(e);
  if (!hasPipelineFlags)
    return options;
  if (llvm::Error error = checkPipelineFlags())
    return std::move(error);
  if (llvm::Error error =
          checkThreads(options.schedule.threads, options.target))
    return std::move(error);
  if (llvm::Error error = readReplicas(options))
    return std::move(error);
  if (llvm::Error error = readWorkers(options))
    return std::move(error);
  if (planner::isScheduleFile(options.schedule.schedule) &&
      pipelineFlags->plan.empty())
    if (llvm::Error error = readScheduleFile(options))
      return std::move(error);
  options.partition.cuts.assign(pipelineFlags->cuts.begin(),
                                pipelineFlags->cuts.end());
  if (!pipelineFlags->plan.empty())
    if (llvm::Error error = readPlan(options, pipelineFlags->plan))
      return std::move(error);
  return options;
}
