//===- BenchCommand.cpp - `bench` -----------------------------------------===//
#include "cli/RunOnAllProcesses.h"
#include "cli/SameContents.h"
#include "cli/Session.h"
#include "device/OpenDevice.h"
#include "exec/OptimizerScalars.h"
#include "support/Error.h"
#include "support/Print.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

using namespace pp::runtime;

static int bench(const pp_program &functions, const BenchOptions &options,
                 ProcessGroup &group) {
  std::shared_ptr<Device> device =
      openDevice(options.device, functions, group.getLaunch().localProcess);
  Program program(functions, *device, group);
  const Plan &plan = program.getPlan();
  bool synthetic = options.data.empty() && options.inputs.empty();
  DataSet data(
      plan, synthetic ? syntheticData(plan, plan.batch) : readArrays(options),
      /*allowOthers=*/true);
  compareData(group, plan, data, "--data",
              synthetic ? "synthetic data" : options.data, options.inputs);
  program.allocate(options.weights, !options.noVerifyWeights);
  compareWeights(program, options.weights);
  Step steps[2] = {Step(plan), Step(plan)};
  Executor executor(program, executorOptions(options, plan));
  OptimizerScalars scalars(plan.optimizer);
  std::vector<uint64_t> order(data.getSamples());
  std::iota(order.begin(), order.end(), 0);
  for (Step &step : steps)
    data.fill(step, order, 0);
  // Steps overlap as in a real run, so a step's time is the distance between
  // two completions.
  std::vector<double> times;
  using Clock = std::chrono::steady_clock;
  uint64_t total = options.warmup + options.steps;
  Clock::time_point last = Clock::now(), start = last;
  auto submit = [&](uint64_t index) {
    Step &step = steps[index % 2];
    step.number = index + 1;
    step.scalars = scalars.evaluate(index + 1);
    executor.submit(step);
  };
  for (uint64_t index = 0; index < total; ++index) {
    // The first step, and the first measured one, find an idle pipeline:
    // statistics may only be reset when nothing runs.
    if (index == options.warmup) {
      executor.resetStatistics();
      start = last = Clock::now();
    }
    if (index == 0 || index == options.warmup)
      submit(index);
    if (index + 1 < total && index + 1 != options.warmup)
      submit(index + 1);
    executor.wait(steps[index % 2]);
    Clock::time_point now = Clock::now();
    if (index >= options.warmup)
      times.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  }
  double seconds = std::chrono::duration<double>(last - start).count();
  std::sort(times.begin(), times.end());
  double median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  RunSummary summary(program, executor, seconds, options.steps,
                     options.steps * plan.batch);
  if (!group.isFirst()) {
    // The first one prints.
  } else if (options.json) {
    auto json = nlohmann::ordered_json::parse(summary.toJson());
    json["median_step_seconds"] = median;
    json["minimum_step_seconds"] = times.front();
    json["maximum_step_seconds"] = times.back();
    json["samples_per_second"] = median > 0 ? plan.batch / median : 0.0;
    printOutput("{}\n", json.dump(2));
  } else {
    printOutput("{} {}: median step {:.6f} s ({:.6f} to {:.6f}), {:.1f} "
                "samples/s over {} steps\n",
                plan.model, plan.mode, median, times.front(), times.back(),
                median > 0 ? plan.batch / median : 0.0, options.steps);
    summary.print();
  }
  writeOutputs(options, summary);
  return 0;
}

int pp::runtime::runBench(const pp_binary &binary,
                          const BenchOptions &options) {
  bool train = options.mode.empty() ? binary.training != nullptr
                                    : options.mode == "train";
  if (train && !binary.training)
    failUsage("--mode train: the model was compiled without a loss");
  std::string agreed =
      fmt::format("bench trace {} report {} mode {} steps {} warmup {}",
                  !options.trace.empty(), !options.report.empty(), train,
                  options.steps, options.warmup);
  const pp_program *program = train ? binary.training : binary.inference;
  return runOnAllProcesses(
      binary, options, {program}, agreed,
      [&](ProcessGroup &group) { return bench(*program, options, group); });
}
