//===- Flags.cpp ----------------------------------------------------------===//
#include "cli/Flags.h"
#include "device/DeviceRegistry.h"
#include "support/Error.h"

#include <cfloat>
#include <charconv>
#include <cstdlib>

using namespace pp::runtime;

const CLI::Validator pp::runtime::natural(
    [](std::string &text) {
      uint64_t value = 0;
      const char *end = text.data() + text.size();
      auto [next, code] = std::from_chars(text.data(), end, value);
      if (code == std::errc::result_out_of_range)
        return fmt::format("'{}' is too large", text);
      return code == std::errc() && next == end
                 ? std::string()
                 : "'" + text + "' is not an integer of at least 0";
    },
    "UINT");

CLI::Validator pp::runtime::realNumber(double least, double most,
                                       const std::string &range) {
  return CLI::Validator(
      [=](std::string &text) {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        bool isGood = !text.empty() && !*end && value >= least && value <= most;
        return isGood ? std::string()
                      : fmt::format("'{}' is not a number {}", text, range);
      },
      "FLOAT");
}

static std::string deviceNames() {
  std::string names;
  for (const DeviceKind &kind : deviceKinds())
    names += (names.empty() ? "" : ", ") + std::string(kind.usage);
  return names;
}

void pp::runtime::addWeightFlags(CLI::App &command, std::string &weights,
                                 bool &noVerifyWeights) {
  command
      .add_option("--weights", weights,
                  "Directory to look up the weight files in, by file name")
      ->type_name("DIR");
  command.add_flag("--no-verify-weights", noVerifyWeights,
                   "Take weight files of the same size whatever they hold");
}

void pp::runtime::addDeviceFlags(CLI::App &command, RunOptions &options) {
  addWeightFlags(command, options.weights, options.noVerifyWeights);
  command
      .add_option("--watchdog", options.watchdog,
                  "Give up when no action completes, or another process gives "
                  "no sign of life, for that long; 0: never")
      ->type_name("SECONDS")
      ->check(realNumber(0, mostSeconds, "from 0 to 1e9"));
  command
      .add_option("--device", options.device,
                  deviceNames() +
                      "; by default what the model was compiled for")
      ->type_name("NAME");
  command.add_flag("--pin", options.pin,
                   "A core of its own for each thread that computes, with its "
                   "memory near it");
  command.add_flag("--no-graphs", options.noGraphs,
                   "Launch kernels one by one where the device has graphs");
}

void pp::runtime::addNormalizationFlags(CLI::App &command,
                                        RunOptions &options) {
  command
      .add_option("--input-scale", options.inputScales,
                  "An input is numbers times that, such as bytes times 1/255; "
                  "may be repeated")
      ->type_name("NAME=X");
  command
      .add_option("--input-mean", options.inputMeans,
                  "Then less the mean, of all or of each channel (axis 1, or "
                  "the last); may be repeated")
      ->type_name("NAME=X,...");
  command
      .add_option("--input-std", options.inputDeviations,
                  "Then divided by the standard deviation, likewise; may be "
                  "repeated")
      ->type_name("NAME=X,...");
}

CLI::Option *pp::runtime::addAverages(CLI::App &command, bool &averages) {
  return command.add_flag("--ema", averages,
                          "Take the averages of parameters that a training "
                          "with --ema-decay keeps");
}

void pp::runtime::addPads(CLI::App &command, std::vector<std::string> &pads) {
  command
      .add_option("--pad", pads,
                  "Of a program for several sizes of a dimension: what to pad "
                  "an input with, by default 0; may be repeated")
      ->type_name("NAME=VALUE");
}

/// --lr-schedule and its numbers, whose ranges the schedule knows.
static void addSchedule(CLI::App &command, TrainOptions &options) {
  std::vector<std::string> kinds(LearningRateSchedule::kindNames.begin(),
                                 LearningRateSchedule::kindNames.end());
  command
      .add_option("--lr-schedule", options.schedule.kind,
                  "How the learning rate changes from step to step")
      ->check(CLI::IsMember(kinds));
  command
      .add_option("--lr-file", options.scheduleFile,
                  "The schedule as a JSON object, instead of flags")
      ->type_name("FILE.json")
      ->excludes("--lr-schedule");
  for (const auto &parameter : LearningRateSchedule::parameters)
    command
        .add_option_function<double>(
            parameter.flag,
            [&options, name = parameter.name](const double &value) {
              options.schedule.values[name] = value;
            },
            parameter.help)
        ->check(realNumber(
            parameter.least, parameter.most,
            fmt::format("from {:g} to {:g}", parameter.least, parameter.most)))
        ->excludes("--lr-file");
}

void pp::runtime::addTrainingFlags(CLI::App &command, TrainOptions &options) {
  command.add_option("--lr", options.learningRate, "Learning rate")
      ->check(realNumber(0, FLT_MAX, "of at least 0 that a float holds"));
  addSchedule(command, options);
  command
      .add_option("--clip-gradient-norm", options.clipNorm,
                  "Scale all gradients down where their norm is larger; 0: no")
      ->check(realNumber(0, FLT_MAX, "of at least 0 that a float holds"));
  command
      .add_option("--clip-gradient-value", options.clipValue,
                  "Bring each number of a gradient into [-X, X], before that; "
                  "0: no")
      ->check(realNumber(0, FLT_MAX, "of at least 0 that a float holds"));
  command.add_flag("--log-gradient-norm", options.logGradientNorm,
                   "Print the norm of all gradients, before it is clipped");
  command
      .add_option("--group", options.groups,
                  "Values of the optimizer for the parameters that have these "
                  "names (with * and ?); the first group that has one counts; "
                  "may be repeated")
      ->type_name("PATTERN,...:lr_factor=X,NAME=X,frozen");
  command
      .add_option("--on-nan", options.onNan,
                  "What to do at a step whose loss or gradients are not "
                  "finite: stop before the update, skip the step, or continue "
                  "as if nothing were (default: stop; with a loss scale: skip)")
      ->check(CLI::IsMember({"stop", "skip", "continue"}))
      ->type_name("WHAT");
  command
      .add_option("--set", options.set,
                  "Set a value of the optimizer; may be repeated")
      ->type_name("NAME=VALUE");
  command
      .add_option("--seed", options.seed,
                  "Seed of the order of samples and of random numbers "
                  "(default 0)")
      ->check(natural);
  command.add_option("--annealed-steps", options.annealedSteps,
                     "Of a program whose weights are delayed (pipemare): begin "
                     "with the learning rate divided by a stage's delay in "
                     "updates, and reach the full one after N steps");
}

TrainOptions
pp::runtime::parseProgramFlags(const std::vector<std::string> &flags,
                               bool trains) {
  TrainOptions options;
  CLI::App app;
  app.set_help_flag();
  app.option_defaults()->always_capture_default(false);
  addDeviceFlags(app, options);
  addPads(app, options.pads);
  addNormalizationFlags(app, options);
  addAverages(app, options.averages);
  if (trains)
    addTrainingFlags(app, options);
  std::vector<std::string> reversed(flags.rbegin(), flags.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError &error) {
    failUsage("{}", error.what());
  }
  return options;
}
