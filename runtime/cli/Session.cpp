//===- Session.cpp --------------------------------------------------------===//
#include "cli/Session.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "support/Print.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

using namespace pp::runtime;

std::map<std::string, Array>
pp::runtime::readArrays(const RunOptions &options) {
  std::map<std::string, Array> arrays;
  if (!options.data.empty())
    arrays = readNpz(options.data);
  for (const std::string &input : options.inputs) {
    size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0 ||
        equals + 1 == input.size())
      failUsage("--input {}: expected NAME=FILE.npy", input);
    arrays[input.substr(0, equals)] = readNpy(input.substr(equals + 1));
  }
  return arrays;
}

Normalizations pp::runtime::normalizationsOf(const RunOptions &options) {
  return {options.inputScales, options.inputMeans, options.inputDeviations};
}

Executor::Options pp::runtime::executorOptions(const RunOptions &options,
                                               const Plan &plan) {
  Executor::Options result;
  result.trace = !options.trace.empty();
  result.graphs = !options.noGraphs;
  double longest = 0;
  for (const PlanStage &stage : plan.stages)
    longest = std::max({longest, stage.forwardSeconds, stage.backwardSeconds});
  // Who says a time means it.
  result.watchdogFactor = options.watchdog ? 0 : 20;
  result.watchdogSeconds =
      options.watchdog.value_or(std::max(30.0, 20 * longest));
  result.onSlow = [](const std::string &text) {
    printMessage("note: {}\n", text);
  };
  result.onHang = [](const std::string &text) {
    printMessage("error: {}\n", text);
    std::fflush(nullptr);
    std::_Exit(static_cast<int>(ErrorKind::Internal));
  };
  return result;
}

RunSummary::RunSummary(const Program &program, const Executor &executor,
                       double seconds, uint64_t steps, uint64_t samples,
                       std::optional<LossScaleState> lossScale)
    : program(program), executor(executor), seconds(seconds), steps(steps),
      samples(samples), lossScale(lossScale), statistics(executor.statistics()),
      traffic(executor.traffic()) {
  for (const StageMemory &memory : program.getMemories())
    memoryBytes.push_back(memory.getBytes());
  program.getGroup().addUp(memoryBytes);
}

void RunSummary::print() const {
  const Plan &plan = program.getPlan();
  if (!program.getGroup().isFirst())
    return;
  printMessage("{:<12} {:>14} {:>14} {:>11} {:>14} {:>14}\n", "stage",
               "planned bytes", "memory bytes", "busy", "sent bytes",
               "received bytes");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    uint64_t sent = 0, received = 0;
    for (size_t c = 0; c < plan.channels.size(); ++c) {
      if (plan.channels[c].from == s)
        sent += traffic[c].sentBytes;
      if (plan.channels[c].to == s)
        received += traffic[c].receivedBytes;
    }
    printMessage("{:<12} {:>14} {:>14} {:>9.1f} % {:>14} {:>14}\n",
                 plan.stages[s].name, plan.stages[s].memoryBytes,
                 memoryBytes[s],
                 seconds > 0 ? 100 * statistics[s].busySeconds / seconds : 0.0,
                 sent, received);
  }
  if (lossScale)
    printMessage("loss scale {:g}, {} steps skipped\n", lossScale->scale,
                 lossScale->skippedSteps);
}

std::string RunSummary::toJson() const {
  const Plan &plan = program.getPlan();
  nlohmann::ordered_json json;
  json["model"] = plan.model;
  json["mode"] = plan.mode;
  json["plan"] = plan.hash;
  json["steps"] = steps;
  json["samples"] = samples;
  json["seconds"] = seconds;
  json["samples_per_second"] = seconds > 0 ? samples / seconds : 0.0;
  if (lossScale) {
    json["loss_scale"] = lossScale->scale;
    json["skipped_steps"] = static_cast<uint64_t>(lossScale->skippedSteps);
  }
  json["stages"] = nlohmann::ordered_json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s)
    json["stages"].push_back(
        {{"name", plan.stages[s].name},
         {"planned_bytes", plan.stages[s].memoryBytes},
         {"memory_bytes", memoryBytes[s]},
         {"busy_seconds", statistics[s].busySeconds},
         {"utilisation",
          seconds > 0 ? statistics[s].busySeconds / seconds : 0.0},
         {"actions", statistics[s].actions}});
  json["channels"] = nlohmann::ordered_json::array();
  for (size_t c = 0; c < plan.channels.size(); ++c)
    json["channels"].push_back({{"name", plan.channels[c].name},
                                {"kind", plan.channels[c].kind},
                                {"from", plan.channels[c].from},
                                {"to", plan.channels[c].to},
                                {"messages", traffic[c].messages},
                                {"sent_bytes", traffic[c].sentBytes},
                                {"received_bytes", traffic[c].receivedBytes}});
  return json.dump(2) + "\n";
}

void pp::runtime::writeOutputs(const RunOptions &options,
                               const RunSummary &summary) {
  bool isFirst = summary.getProgram().getGroup().isFirst();
  if (!options.trace.empty()) {
    std::string trace = summary.getExecutor().trace();
    if (isFirst)
      writeFileAtomically(options.trace, trace);
  }
  if (!options.report.empty() && isFirst)
    writeFileAtomically(options.report, summary.toJson());
}

static volatile std::sig_atomic_t arrivedSignal = 0;
static constexpr int interrupts[] = {SIGINT, SIGTERM, SIGHUP};

static void onSignal(int number) {
  // A second signal ends the process the ordinary way.
  arrivedSignal = number;
  std::signal(number, SIG_DFL);
}

InterruptFlag::InterruptFlag() {
  arrivedSignal = 0;
  for (int signal : interrupts)
    if (std::signal(signal, onSignal) == SIG_IGN && signal == SIGHUP)
      std::signal(signal, SIG_IGN); // nohup
}

InterruptFlag::~InterruptFlag() {
  for (int signal : interrupts)
    if (std::signal(signal, SIG_DFL) == SIG_IGN && signal == SIGHUP)
      std::signal(signal, SIG_IGN);
}

int InterruptFlag::get() { return arrivedSignal; }
