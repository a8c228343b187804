//===- TrainCommand.cpp - `train` -----------------------------------------===//
#include "cli/Buckets.h"
#include "cli/Evaluation.h"
#include "cli/ExportReport.h"
#include "cli/Progress.h"
#include "cli/RunOnAllProcesses.h"
#include "cli/SameContents.h"
#include "cli/Session.h"
#include "cli/Trainer.h"
#include "device/OpenDevice.h"
#include "exec/Shuffle.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "support/FileLock.h"
#include "support/Hash.h"
#include "support/Print.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>

using namespace pp::runtime;

namespace {

/// The inference program on the weights of the training program.
class Evaluator {
public:
  Evaluator(const pp_binary &binary, const TrainOptions &options,
            const Plan &trainingPlan, Device &device, ProcessGroup &group)
      : buckets(binary, /*isTraining=*/false, {}),
        arrays(readNpz(options.evalData)), fit(buckets.choose(arrays)),
        program(*fit.program, device, group), metrics(options.metrics),
        averages(options.averages) {
    const PlanPort *port = trainingPlan.findTarget();
    std::string name = port ? port->name : "";
    auto it = arrays.find(name);
    if (name.empty() || it == arrays.end())
      failInput("--eval-data '{}': no array '{}' with the targets",
                options.evalData, name);
    output = port->compared;
    if (output.empty() && program.getPlan().fetches.size() != 1)
      failUsage("--eval-data: the model has {} outputs, evaluation needs one",
                program.getPlan().fetches.size());
    target = it->second;
    checkIndices(*port, target);
    ignoreIndex = port->ignoreIndex;
    data.emplace(program.getPlan(), buckets.pad(std::move(arrays), fit.number),
                 /*allowOthers=*/true, normalizationsOf(options));
    compareData(group, program.getPlan(), *data, "--eval-data",
                options.evalData, {});
    compareArray(group, name, target, "--eval-data", options.evalData);
    if (options.pin)
      program.pin();
    program.allocate(options.weights, !options.noVerifyWeights);
    Executor::Options executorSettings =
        executorOptions(options, program.getPlan());
    executorSettings.trace = false;
    executor.emplace(program, executorSettings);
  }

  /// Nothing in other processes than the first.
  std::vector<Metric> run(const Program &training) {
    program.copyWeightsFrom(training, averages);
    auto result = runInference(program.getPlan(), *data, *executor);
    if (!program.getGroup().isFirst())
      return {};
    auto outputs = buckets.cutFetches(std::move(result.fetches), fit.length);
    const Array &prediction =
        output.empty() ? outputs.begin()->second : outputs.at(output);
    if (metrics.empty())
      return {evaluate(prediction, target, ignoreIndex)};
    return evaluate(prediction, target, ignoreIndex, metrics);
  }

private:
  Buckets buckets;
  Buckets::Arrays arrays; // moved from once it was read
  Buckets::Fit fit;
  Program program;
  std::vector<std::string> metrics;
  bool averages;
  Array target;
  std::string output; // what is measured; empty: the only one
  std::optional<int64_t> ignoreIndex;
  std::optional<DataSet> data;
  std::optional<Executor> executor;
};

/// One training run.
class Training {
public:
  Training(const pp_binary &binary, const Buckets &buckets,
           const Buckets::Fit &fit, Buckets::Arrays arrays,
           const TrainOptions &options, ProcessGroup &group);
  int run();

private:
  void choosePartOfEpoch();
  uint64_t lastStep() const;
  void submit();
  void finishStep(Progress &progress);
  bool isEvaluationDue() const;
  uint64_t nextEvaluation(uint64_t index) const;
  void evaluateNow(Progress &progress);
  void judge(const std::vector<Metric> &metrics, Progress &progress);
  void save(const std::string &path, Progress &progress);
  void exportModel(Progress &progress);

  const TrainOptions &options;
  ProcessGroup &group;
  // Where this process writes --save and --keep-best.
  std::optional<FileLock> saveLock, bestLock;
  std::shared_ptr<Device> device;
  Program program;
  const Plan &plan;
  DataSet data;
  uint64_t stepsPerEpoch = 0;
  uint64_t samplesDone = 0; // in this run
  std::optional<Evaluator> evaluator;
  std::optional<ModelExport> modelExport; // in the first process
  Trainer trainer;
  TrainingPosition &position; // the trainer's
  std::vector<uint64_t> order;
  std::optional<uint64_t> orderEpoch; // that `order` is of
  bool isStopping = false; // a process was interrupted; the same in all
  bool isOver = false;     // nothing has become better; the same in all
};

} // namespace

/// Whether this process shall end training, with what it has.
static bool wantsToStop() {
  return InterruptFlag::get() != 0 || outputFailure() != 0;
}

Training::Training(const pp_binary &binary, const Buckets &buckets,
                   const Buckets::Fit &fit, Buckets::Arrays arrays,
                   const TrainOptions &options, ProcessGroup &group)
    : options(options), group(group),
      device(openDevice(options.device, *fit.program,
                        group.getLaunch().localProcess)),
      program(*fit.program, *device, group), plan(program.getPlan()),
      data(plan,
           buckets.size() == 0 ? readArrays(options)
                               : buckets.pad(std::move(arrays), fit.number),
           /*allowOthers=*/false, normalizationsOf(options)),
      trainer(program, options), position(trainer.position) {
  if (!options.save.empty() && group.isFirst()) {
    saveLock.emplace(options.save);
    removeAbandonedFiles(options.save);
  }
  if (!options.keepBest.empty() && group.isFirst()) {
    bestLock.emplace(options.keepBest);
    removeAbandonedFiles(options.keepBest);
  }
  compareData(group, plan, data, "--data", options.data, options.inputs);
  // Also before a resume: constants are not in a snapshot.
  if (options.pin)
    program.pin();
  program.allocate(options.weights, !options.noVerifyWeights);
  compareWeights(program, options.weights);
  if (!options.resume.empty()) {
    // Each process reads the file: it may not be the same on all machines.
    compareFiles(group, "the snapshot of --resume", {options.resume});
    position = loadSnapshot(options.resume, program,
                            {options.allowOtherModel, options.allowNotFinite});
    if (position.samples == 0)
      failInput("--resume '{}': a program gave the run its batches one by one; "
                "--load takes its weights and the optimizer's state",
                options.resume);
    if (position.samples != data.getSamples())
      failInput("--resume '{}': the run had {} samples, --data has {}",
                options.resume, position.samples, data.getSamples());
    if (options.seed && *options.seed != position.seed)
      failUsage("--seed {}: the run of --resume had {}", *options.seed,
                position.seed);
    if (options.noShuffle && position.shuffle)
      failUsage("--no-shuffle: the run of --resume shuffled");
    if (options.dropLast && !position.dropsLast)
      failUsage(
          "--drop-last: the run of --resume has trained the last, smaller "
          "batches of its epochs");
  } else {
    position.seed = options.seed.value_or(0);
    position.shuffle = !options.noShuffle;
    position.samples = data.getSamples();
    position.dropsLast = options.dropLast || !plan.wholeBatches.empty();
  }
  if (!options.load.empty())
    trainer.loadStart(options.load);
  choosePartOfEpoch();
  group.compare("the step to resume from", position.step);
  trainer.choose(lastStep());
  // What cannot be written at the end is better known before.
  if (!options.exportTo.empty() && group.isFirst())
    modelExport.emplace(
        plan, ModelExport::trainedTensors(plan),
        ModelExportPaths{options.exportTo, options.model, options.weights},
        !options.noVerifyWeights);
  if (!options.evalData.empty())
    evaluator.emplace(binary, options, plan, *device, group);
  if (options.flushedSteps && plan.flushes)
    failUsage("--flushed-steps: each step of this program has a flush: its "
              "schedule is '{}'",
              plan.schedule);
  if (!options.dumpGradients.empty() && plan.clockDistance && plan.replicas > 1)
    failUsage("--dump-gradients: each of the {} virtual workers of this "
              "program has gradients of its own: its schedule is '{}'",
              plan.replicas, plan.schedule);
  bool isDelayed =
      std::any_of(plan.stages.begin(), plan.stages.end(),
                  [](const PlanStage &stage) { return stage.delay > 0; });
  if (options.averages && !plan.optimizer.averageState())
    failUsage("--ema: this program keeps no averages of its parameters; "
              "pp-compile --ema-decay=0.999 makes one that does");
  if (options.annealedSteps && !isDelayed)
    failUsage(
        "--annealed-steps: no gradient of this program is late beside its "
        "weights: its schedule is '{}', not pipemare",
        plan.schedule);
  trainer.start(executorOptions(options, plan));
}

/// How many steps an epoch has.
void Training::choosePartOfEpoch() {
  uint64_t samples = data.getSamples(), left = samples % plan.batch;
  stepsPerEpoch = stepsOfEpoch(samples, plan.batch, position.dropsLast);
  if (left && !position.dropsLast && !plan.wholeBatches.empty())
    failInput("--resume '{}': the run has trained smaller batches, but this "
              "program takes whole batches of {} only: {}",
              options.resume, plan.batch, plan.wholeBatches);
  bool mayTrain = plan.wholeBatches.empty();
  if (stepsPerEpoch == 0)
    failInput("data: {} samples are fewer than a batch of {}{}", samples,
              plan.batch,
              mayTrain ? ""
                       : fmt::format(", and this program takes whole batches "
                                     "only: {}",
                                     plan.wholeBatches));
}

uint64_t Training::lastStep() const {
  uint64_t byEpochs = UINT64_MAX, bySteps = UINT64_MAX;
  if (options.steps)
    bySteps = *options.steps;
  if (options.epochs || !options.steps) {
    uint64_t epochs = options.epochs.value_or(1);
    // Steps count from the start of the training, as epochs do.
    if (__builtin_mul_overflow(epochs, stepsPerEpoch, &byEpochs))
      byEpochs = UINT64_MAX;
  }
  return std::max(std::min(byEpochs, bySteps), position.step);
}

/// Queues the next step.
void Training::submit() {
  uint64_t index = trainer.countSubmitted();
  uint64_t ahead = position.stepInEpoch + (index - position.step);
  uint64_t epoch = position.epoch + ahead / stepsPerEpoch;
  if (epoch != orderEpoch) {
    if (position.shuffle) {
      order = shuffledOrder(position.seed, epoch, data.getSamples());
    } else {
      order.resize(data.getSamples());
      std::iota(order.begin(), order.end(), 0);
    }
    orderEpoch = epoch;
  }
  data.fill(trainer.next(), order, ahead % stepsPerEpoch * plan.batch);
  trainer.submit();
  if (index < options.flushedSteps)
    trainer.getExecutor().flush();
}

void Training::finishStep(Progress &progress) {
  Trainer::Outcome outcome = trainer.finish(wantsToStop());
  const Step &step = *outcome.step;
  isStopping |= outcome.wantsToStop;
  std::optional<uint64_t> bits;
  if (options.logBits)
    bits = hashBytes(step.losses.data(), step.losses.bytes());
  bool hasLossScale = trainer.scalesLoss();
  if (outcome.isSkipped && !hasLossScale && group.isFirst())
    printMessage("warning: step {} was skipped: its loss or a gradient is not "
                 "finite\n",
                 position.step);
  if (group.isFirst())
    progress.step({position.step, position.epoch + 1, step.rows, step.loss(),
                   bits, hasLossScale ? trainer.getLossScale() : std::nullopt,
                   outcome.learningRate, outcome.gradientNorm});
  samplesDone += step.rows;
  if (++position.stepInEpoch == stepsPerEpoch) {
    position.stepInEpoch = 0;
    ++position.epoch;
  }
  trainer.limitSkips();
}

/// Whether the training stands where one evaluates.
bool Training::isEvaluationDue() const {
  if (!evaluator)
    return false;
  if (options.evalSteps)
    return position.step % options.evalSteps == 0;
  return options.evalEvery && position.stepInEpoch == 0 &&
         position.epoch % options.evalEvery == 0;
}

/// The first step after `index` that may be followed by an evaluation.
uint64_t Training::nextEvaluation(uint64_t index) const {
  if (!evaluator || (!options.evalSteps && !options.evalEvery))
    return UINT64_MAX;
  uint64_t step = options.evalSteps;
  return step ? (index / step + 1) * step
              : index + stepsPerEpoch - position.stepInEpoch;
}

void Training::evaluateNow(Progress &progress) {
  std::vector<Metric> metrics = evaluator->run(program);
  if (!metrics.empty()) {
    progress.finish();
    printOutput("{{\"step\":{},\"epoch\":{},{}}}\n", position.step,
                position.epoch, describe(metrics));
  }
  if (!options.keepBest.empty() || options.patience)
    judge(metrics, progress);
}

/// Whether an evaluation is the best so far, and what follows from that. Only
/// the first process has `metrics`.
void Training::judge(const std::vector<Metric> &metrics, Progress &progress) {
  std::string text;
  for (const Metric &metric : metrics)
    if (text.empty() || metric.name == options.bestOf)
      text = nlohmann::json{{"name", metric.name},
                            {"value", fmt::format("{:a}", metric.value)}}
                 .dump();
  auto judged = nlohmann::json::parse(group.broadcast(text));
  std::string name = judged["name"];
  double value = std::strtod(std::string(judged["value"]).c_str(), nullptr);
  BestEvaluation &best = position.best;
  if (!best.metric.empty() && best.metric != name)
    best = {}; // Of a training that had another one.
  bool isBetter =
      best.metric.empty() ||
      (isHigherBetter(name) ? value > best.value : value < best.value);
  // What is not a number is no better than anything.
  if (isBetter && std::isfinite(value)) {
    best = {name, value, position.step, 0};
    if (!options.keepBest.empty())
      save(options.keepBest, progress);
    return;
  }
  ++best.others;
  if (!options.patience || best.others < options.patience)
    return;
  isOver = true;
  if (group.isFirst())
    printMessage("note: stopped after step {}: the last {} evaluations were no "
                 "better than {}\n",
                 position.step, best.others,
                 best.metric.empty()
                     ? "none"
                     : fmt::format("{} {} after step {}", best.metric,
                                   best.value, best.step));
}

void Training::save(const std::string &path, Progress &progress) {
  saveSnapshot(path, program, position);
  if (!group.isFirst())
    return;
  progress.finish();
  printMessage("note: step {} saved in '{}'\n", position.step, path);
}

void Training::exportModel(Progress &progress) {
  TensorGatherer tensors(program, options.averages);
  std::string names;
  if (group.isFirst())
    names = nlohmann::json(modelExport->order()).dump();
  names = group.broadcast(names);
  if (!group.isFirst()) {
    tensors.serve(nlohmann::json::parse(names));
  } else {
    modelExport->write(
        [&](const std::string &name) { return tensors.get(name); });
    progress.finish();
    reportExport(*modelExport, options.exportTo, modelExport->order().size());
  }
  // Nobody goes on, or ends, before the file is there.
  group.barrier();
}

int Training::run() {
  uint64_t left = data.getSamples() % plan.batch;
  if (left && !plan.wholeBatches.empty() && group.isFirst())
    printMessage("note: {} of {} samples, behind the last whole batch of {}, "
                 "are left out of each epoch (others in each, if it "
                 "shuffles): {}\n",
                 left, data.getSamples(), plan.batch, plan.wholeBatches);
  uint64_t first = position.step, last = lastStep();
  InterruptFlag interrupt;
  Progress progress(first, last);
  double seconds = 0;
  uint64_t savedAt = UINT64_MAX;
  const uint64_t &index = position.step;
  bool evaluated = false;
  while (index < last) {
    isStopping |= group.any(wantsToStop());
    auto start = std::chrono::steady_clock::now();
    // Up to here the pipeline runs without a pause: evaluation and snapshots
    // need it idle.
    uint64_t stop = std::min(last, nextEvaluation(index));
    if (options.saveEvery && !options.save.empty())
      stop =
          std::min(stop, (index / options.saveEvery + 1) * options.saveEvery);
    while (!trainer.isIdle() || (index < stop && !isStopping)) {
      while (trainer.countSubmitted() < stop && !trainer.isFull() &&
             !isStopping)
        submit();
      if (trainer.isIdle())
        break;
      if (trainer.countSubmitted() == stop || isStopping)
        trainer.getExecutor().flush();
      finishStep(progress);
    }
    seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    evaluated = false;
    if (isStopping)
      break;
    // A snapshot says what the evaluation of its step was.
    if (isEvaluationDue()) {
      evaluateNow(progress);
      evaluated = true;
    }
    if (options.saveEvery && !options.save.empty() &&
        index % options.saveEvery == 0) {
      save(options.save, progress);
      savedAt = index;
    }
    if (isOver)
      break;
  }
  progress.finish();
  // That output is lost is an error at the end.
  if (isStopping && group.isFirst() && !outputFailure())
    printMessage("note: stopped by signal{} after step {}\n",
                 interrupt.get() ? fmt::format(" {}", interrupt.get())
                                 : " to another process",
                 position.step);
  if (!options.save.empty() && savedAt != index)
    save(options.save, progress);
  if (evaluator && !evaluated && !isStopping)
    evaluateNow(progress);
  if (!options.exportTo.empty())
    exportModel(progress);
  if (!options.dumpGradients.empty())
    saveGradients(options.dumpGradients, program);
  RunSummary summary(
      program, trainer.getExecutor(), seconds, index - first, samplesDone,
      trainer.scalesLoss() ? trainer.getLossScale() : std::nullopt);
  summary.print();
  writeOutputs(options, summary);
  return 0;
}

int pp::runtime::runTrain(const pp_binary &binary,
                          const TrainOptions &options) {
  if (!binary.training)
    failUsage("train: the model was compiled without a loss");
  if (options.data.empty() && options.inputs.empty())
    failUsage("train: --data FILE.npz or --input NAME=FILE.npy is required");
  if (options.saveEvery && options.save.empty())
    failUsage("--save-every needs --save FILE.safetensors");
  if (!options.model.empty() && options.exportTo.empty())
    failUsage("--model needs --export FILE.onnx");
  if (!options.metrics.empty() && options.evalData.empty())
    failUsage("--metrics needs --eval-data FILE.npz");
  if (options.evalEvery > 1 && options.evalData.empty())
    failUsage("--eval-every needs --eval-data FILE.npz");
  bool judges = !options.keepBest.empty() || options.patience;
  if ((judges || options.evalSteps) && options.evalData.empty())
    failUsage("{} needs --eval-data FILE.npz",
              options.evalSteps           ? "--eval-steps"
              : !options.keepBest.empty() ? "--keep-best"
                                          : "--patience");
  if (!options.keepBest.empty() && options.keepBest == options.save)
    failUsage("--keep-best and --save name one file, '{}'", options.save);
  if (!options.bestOf.empty() && !judges)
    failUsage("--best-metric is for --keep-best and --patience");
  if (!options.bestOf.empty() &&
      std::ranges::find(options.metrics, options.bestOf) ==
          options.metrics.end())
    failUsage("--best-metric {}: it is not among --metrics", options.bestOf);
  auto orNone = [](const auto &value) {
    return value ? fmt::format("{}", *value) : "none";
  };
  std::string agreed = fmt::format(
      "train epochs {} steps {} seed {} lr {} schedule {} {} clip {} {} {} "
      "groups {} on-nan {} set {} shuffle {} "
      "drop {} "
      "flushed {} annealed {} save {} {} "
      "resume {} load {} metrics {} eval {} {} {} best {} {} {} export {} "
      "gradients {} trace {} "
      "report {} ema {} inputs {}",
      orNone(options.epochs), orNone(options.steps), orNone(options.seed),
      orNone(options.learningRate), options.schedule.kind,
      nlohmann::json(options.schedule.values).dump(), orNone(options.clipNorm),
      orNone(options.clipValue), options.logGradientNorm,
      fmt::join(options.groups, " "), options.onNan,
      fmt::join(options.set, ","), !options.noShuffle, options.dropLast,
      options.flushedSteps, options.annealedSteps, !options.save.empty(),
      options.saveEvery, !options.resume.empty(), !options.load.empty(),
      fmt::join(options.metrics, ","), !options.evalData.empty(),
      options.evalEvery, options.evalSteps, !options.keepBest.empty(),
      options.bestOf, options.patience, !options.exportTo.empty(),
      !options.dumpGradients.empty(), !options.trace.empty(),
      !options.report.empty(), options.averages,
      normalizationsOf(options).describe());
  Buckets buckets(binary, /*isTraining=*/true, options.pads);
  Buckets::Arrays arrays;
  if (buckets.size() > 0)
    arrays = readArrays(options);
  Buckets::Fit fit = buckets.choose(arrays);
  std::vector<const pp_pipeline *> programs{fit.program};
  if (!options.evalData.empty())
    programs.push_back(binary.inference);
  return runOnAllProcesses(
      binary, options, programs, agreed, [&](ProcessGroup &group) {
        return Training(binary, buckets, fit, std::move(arrays), options, group)
            .run();
      });
}
