//===- Trainer.cpp --------------------------------------------------------===//
#include "cli/Trainer.h"
#include "cli/NonFiniteReport.h"
#include "cli/SameContents.h"
#include "support/Error.h"
#include "support/MappedFile.h"
#include "support/Print.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace pp::runtime;

static double parseNumber(const std::string &text, const std::string &flag) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  // The optimizer computes with floats.
  if (text.empty() || *end || !std::isfinite(static_cast<float>(value)))
    failUsage("{}: '{}' is not a number that a float holds", flag, text);
  return value;
}

Trainer::Trainer(Program &program, const TrainOptions &options)
    : program(program), options(options), plan(program.getPlan()),
      group(program.getGroup()), scalars(plan.optimizer),
      hasLossScale(plan.scalesLoss()) {}

void Trainer::choose(std::optional<uint64_t> lastStep) {
  submitted = position.step;
  applySettings();
  scalars.setStepsBefore(position.optimizerSteps);
  chooseSchedule(lastStep);
  if (plan.findLossScale())
    startLossScale();
  choosePolicy();
  clipping = chooseClipping();
  chooseGroups();
}

void Trainer::start(Executor::Options settings) {
  settings.annealedSteps = options.annealedSteps;
  settings.clipping = clipping;
  settings.groups = groups;
  settings.skipsNonFinite = options.onNan != "continue";
  executor.reset();
  steps.clear();
  executor.emplace(program, settings);
  for (unsigned i = 0; i < executor->stepsToEnd() + 2; ++i)
    steps.emplace_back(plan);
}

void Trainer::applySettings() {
  for (const auto &[name, value] : position.scalars)
    scalars.set(name, value);
  if (options.learningRate)
    scalars.set("lr", *options.learningRate);
  for (const std::string &setting : options.set) {
    size_t equals = setting.find('=');
    if (equals == std::string::npos)
      failUsage("--set {}: expected NAME=VALUE", setting);
    scalars.set(setting.substr(0, equals),
                parseNumber(setting.substr(equals + 1), "--set " + setting));
  }
  position.scalars = scalars.settings();
}

/// Weights of another training, and its optimizer's state where it fits.
void Trainer::loadStart(const std::string &path) {
  compareFiles(group, "the weights of --load", {path});
  LoadedStart loaded =
      loadWeightsForTraining(path, program, options.allowNotFinite);
  position.optimizerSteps = loaded.optimizerSteps;
  if (!group.isFirst())
    return;
  std::string state = "the optimizer has none";
  if (!loaded.missing.empty())
    state = fmt::format("of the optimizer, {}: it begins anew", loaded.missing);
  else if (!plan.optimizer.states.empty())
    state = fmt::format("and the optimizer's state after {} steps ({})",
                        loaded.optimizerSteps,
                        fmt::join(plan.optimizer.states, ", "));
  printMessage("note: weights of '{}'; {}\n", path, state);
  if (loaded.others)
    printMessage("note: {} tensors of '{}' are not in the model\n",
                 loaded.others, path);
}

/// That of the flags, of the file or, where there is none, of the training that
/// is resumed.
void Trainer::chooseSchedule(std::optional<uint64_t> lastStep) {
  std::string text = position.schedule;
  if (!options.scheduleFile.empty()) {
    compareFiles(group, "the schedule of --lr-file", {options.scheduleFile});
    text = MappedFile(options.scheduleFile).view();
  }
  LearningRateSchedule::Settings settings = options.schedule;
  if (settings.empty() && text.empty())
    return;
  if (settings.empty())
    settings = LearningRateSchedule::fromJson(
        text,
        options.scheduleFile.empty()
            ? fmt::format("'{}': __metadata__.lr_schedule", options.resume)
            : fmt::format("'{}'", options.scheduleFile));
  LearningRateSchedule schedule(settings, lastStep);
  scalars.setSchedule(schedule);
  position.schedule = schedule.toJson();
  if (group.isFirst())
    printMessage("note: learning rate: {}\n", position.schedule);
}

/// As the flags say, or, where they say nothing, as the training that is
/// resumed has done.
GradientClipping Trainer::chooseClipping() {
  position.clipNorm = options.clipNorm.value_or(position.clipNorm);
  position.clipValue = options.clipValue.value_or(position.clipValue);
  GradientClipping clipping;
  if (position.clipNorm > 0)
    clipping.norm = position.clipNorm;
  if (position.clipValue > 0)
    clipping.value = position.clipValue;
  clipping.logsNorm = options.logGradientNorm;
  if (!clipping.empty() && !plan.findLossScale())
    failUsage("{}: {}",
              clipping.norm    ? "--clip-gradient-norm"
              : clipping.value ? "--clip-gradient-value"
                               : "--log-gradient-norm",
              plan.flushes ? "the model was compiled with --loss-scale=none, "
                             "so its ranks do not meet before an update"
                           : "the ranks of a program without a flush do not "
                             "meet before an update");
  return clipping;
}

void Trainer::chooseGroups() {
  if (!options.groups.empty())
    position.groups = options.groups;
  groups = ParameterGroups(position.groups, plan);
  for (size_t i = 0; i < groups.getGroups().size() && group.isFirst(); ++i)
    printMessage("note: {} parameters in the group {}\n", groups.countOf(i),
                 groups.getGroups()[i].text);
}

/// What happens at a step whose loss or gradients are not finite.
void Trainer::choosePolicy() {
  bool canLook = plan.findLossScale() != nullptr;
  if (!canLook && options.onNan == "skip")
    failUsage("--on-nan skip: the program does not look for numbers that are "
              "not finite before an update, {}",
              whyNotLooking());
  stopsAtLoss = !canLook && options.onNan != "continue";
  stopsAtNonFinite = canLook && (options.onNan == "stop" ||
                                 (options.onNan.empty() && !plan.scalesLoss()));
  scalars.setStopping(stopsAtNonFinite);
  // The snapshot may be of a training that went on.
  if (stopsAtNonFinite)
    forgetSkips();
}

/// Of a program that does not look for what is not finite.
const char *Trainer::whyNotLooking() const {
  return plan.flushes ? "since it was compiled with --loss-scale=none"
                      : "since without a flush its ranks do not meet there";
}

/// Lets later steps be made although earlier ones were not.
void Trainer::forgetSkips() {
  program.download();
  for (const StageMemory &memory : program.getMemories())
    if (memory.isHere())
      memory.lossScale()->skippedInARow = 0;
  program.upload();
}

/// Ends the training at a step that was not made. What is saved is what was
/// saved before it.
void Trainer::stopAt(uint64_t index) {
  Step &step = stepOf(index);
  Step &next = stepOf(index + 1);
  if (submitted > index + 1)
    executor->wait(next);
  double loss = step.loss();
  std::string why = describeNonFinite(plan, program, *executor, step);
  // Whoever has caught the error may go on with other data.
  submitted = position.step;
  forgetSkips();
  failInput("step {}: {}; {}. The step was not made{}. --on-nan skip leaves "
            "such steps out, --on-nan continue goes on with them",
            index + 1,
            std::isfinite(loss) ? "a gradient is not finite"
                                : fmt::format("the loss is {}", loss),
            why,
            options.save.empty()
                ? ""
                : ", and '" + options.save + "' is as it was before");
}

/// Ends the training at a step that was made, and maybe one behind it.
void Trainer::stopBehind(uint64_t index) {
  Step &step = stepOf(index);
  if (submitted > index + 1)
    executor->wait(stepOf(index + 1));
  position.step = submitted;
  std::string inData = describeNonFiniteData(plan, program, step);
  failInput("step {}: the loss is {}{}. The step was made, {}{}. --on-nan "
            "continue goes on with it",
            index + 1, step.loss(), inData.empty() ? "" : "; " + inData,
            whyNotLooking(),
            options.save.empty()
                ? ""
                : "; '" + options.save + "' is as it was before");
}

/// A resumed training keeps its scale unless the user says another.
void Trainer::startLossScale() {
  bool isSet = std::any_of(
      options.set.begin(), options.set.end(), [&](const std::string &setting) {
        return setting.rfind(plan.findLossScale()->name + "=", 0) == 0;
      });
  if (!isSet)
    return;
  program.download();
  double scale = *scalars.find(plan.findLossScale()->name);
  for (const StageMemory &memory : program.getMemories())
    if (memory.isHere())
      memory.lossScale()->scale = static_cast<float>(scale);
  program.upload();
}

Step &Trainer::next() {
  Step &step = stepOf(submitted);
  step.number = submitted + 1;
  step.seed = position.seed;
  return step;
}

void Trainer::submit() {
  Step &step = stepOf(submitted);
  uint64_t number = ++submitted;
  groups.setIn(step, plan, number, scalars);
  executor->submit(step);
}

Trainer::Outcome Trainer::finish(bool wantsToStop) {
  uint64_t index = position.step;
  Step &step = stepOf(index);
  Outcome outcome;
  outcome.step = &step;
  outcome.wantsToStop = executor->wait(step, wantsToStop);
  if (stopsAtNonFinite && step.lossScale.skippedInARow > 0)
    stopAt(index);
  if (stopsAtLoss && !std::isfinite(step.loss()))
    stopBehind(index);
  if (plan.findLossScale())
    lossScale = step.lossScale;
  outcome.isSkipped = lossScale && lossScale->skippedInARow > 0;
  if (!position.schedule.empty())
    outcome.learningRate = scalars.learningRate(index + 1);
  if (clipping.logsNorm)
    outcome.gradientNorm = step.gradientNorm;
  ++position.step;
  return outcome;
}

void Trainer::limitSkips() const {
  double limit = scalars.find("skip_limit").value_or(HUGE_VAL);
  if (lossScale && lossScale->skippedInARow >= limit)
    failInput("the last {} steps were skipped, because a gradient was not "
              "finite{}. The loss itself may be too large or NaN, or the "
              "learning rate too high; --set skip_limit=N allows more",
              lossScale->skippedInARow,
              hasLossScale ? fmt::format("; the loss scale is down to {:g}",
                                         lossScale->scale)
                           : "");
}
