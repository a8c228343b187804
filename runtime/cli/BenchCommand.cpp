//===- BenchCommand.cpp - `bench` -----------------------------------------===//
#include "cli/KernelTable.h"
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

namespace {

/// Times of steps, which overlap as in a real run: a step's time is the
/// distance between two completions.
class StepTimes {
public:
  StepTimes(Executor &executor, const Plan &plan, const DataSet &data,
            std::vector<Step> &steps)
      : executor(executor), plan(plan), scalars(plan.optimizer),
        batch(plan.batch), data(data), order(data.getSamples()), steps(steps) {
    std::iota(order.begin(), order.end(), 0);
  }

  /// Runs `count` steps, or as many as `duration` seconds take if that is not
  /// 0. The first one finds an idle pipeline.
  void run(uint64_t count, double duration) {
    times.clear();
    Clock::time_point start = Clock::now(), last = start;
    uint64_t submitted = 0;
    bool isOver = count == 0;
    auto hasNext = [&] { return duration > 0 ? !isOver : submitted < count; };
    for (uint64_t done = 0; done < submitted || hasNext(); ++done) {
      while (hasNext() && submitted < done + steps.size())
        submit(submitted++);
      if (!hasNext())
        executor.flush();
      Clock::time_point now = Clock::now();
      bool wantsToStop =
          duration > 0 &&
          std::chrono::duration<double>(now - start).count() >= duration;
      // Of several processes, the first whose time is over ends all.
      isOver |= executor.wait(steps[done % steps.size()], wantsToStop);
      now = Clock::now();
      times.push_back(std::chrono::duration<double>(now - last).count());
      last = now;
    }
    seconds = std::chrono::duration<double>(last - start).count();
    std::ranges::sort(times);
  }

  size_t size() const { return times.size(); }
  double getSeconds() const { return seconds; }
  double getMinimum() const { return times.front(); }
  double getMaximum() const { return times.back(); }
  /// The time that `share` of the steps keep, between two of them where it
  /// falls there.
  double quantile(double share) const {
    double place = share * static_cast<double>(times.size() - 1);
    size_t below = static_cast<size_t>(place);
    size_t above = std::min(below + 1, times.size() - 1);
    double part = place - static_cast<double>(below);
    return times[below] + part * (times[above] - times[below]);
  }

private:
  using Clock = std::chrono::steady_clock;

  void submit(uint64_t index) {
    Step &step = steps[index % steps.size()];
    uint64_t first =
        number % std::max<uint64_t>(order.size() / batch, 1) * batch;
    step.number = ++number;
    data.fill(step, order, first);
    // Whole batches are measured, whatever the data have.
    step.rows = batch;
    scalars.setIn(step, plan, number);
    executor.submit(step);
  }

  Executor &executor;
  const Plan &plan;
  OptimizerScalars scalars;
  uint64_t batch;
  const DataSet &data;
  std::vector<uint64_t> order; // of the samples; batches take turns
  std::vector<Step> &steps;
  uint64_t number = 0; // of the last step that was submitted
  std::vector<double> times;
  double seconds = 0;
};

} // namespace

static void print(const BenchOptions &options, const Plan &plan,
                  const StepTimes &times, const RunSummary &summary,
                  const KernelTable *kernels) {
  double median = times.quantile(0.5);
  double rate = median > 0 ? plan.batch / median : 0.0;
  if (options.json) {
    auto json = nlohmann::ordered_json::parse(summary.toJson());
    json["median_step_seconds"] = median;
    json["minimum_step_seconds"] = times.getMinimum();
    json["maximum_step_seconds"] = times.getMaximum();
    json["p90_step_seconds"] = times.quantile(0.9);
    json["p99_step_seconds"] = times.quantile(0.99);
    json["samples_per_second"] = rate;
    if (kernels)
      json["kernels"] = kernels->toJson(options.kernels);
    printOutput("{}\n", json.dump(2));
    return;
  }
  printOutput("{} {}: median step {:.6f} s ({:.6f} to {:.6f}, 90 % within "
              "{:.6f}, 99 % within {:.6f}), {:.1f} samples/s over {} steps\n",
              plan.model, plan.mode, median, times.getMinimum(),
              times.getMaximum(), times.quantile(0.9), times.quantile(0.99),
              rate, times.size());
  if (kernels)
    printOutput("{}", kernels->toText(options.kernels));
  summary.print();
}

/// Of one batch, a model soon knows every label: gradients vanish, and the
/// times are no longer those of a training.
static uint64_t syntheticBatches(const Plan &plan) {
  constexpr uint64_t most = 16, bytes = 64 << 20;
  uint64_t ofBatch = 1;
  for (const PlanPort &port : plan.feeds)
    ofBatch += port.bytes * (port.batched ? plan.microbatches : 1);
  return plan.isTraining() ? std::clamp<uint64_t>(bytes / ofBatch, 1, most) : 1;
}

static int bench(const pp_pipeline &functions, const BenchOptions &options,
                 ProcessGroup &group) {
  std::shared_ptr<Device> device =
      openDevice(options.device, functions, group.getLaunch().localProcess);
  Program program(functions, *device, group);
  const Plan &plan = program.getPlan();
  if (options.kernels && plan.marks.empty())
    failUsage("--kernels: the program does not mark its kernels; compile it "
              "with --mark-kernels");
  bool synthetic = options.data.empty() && options.inputs.empty();
  DataSet data(plan,
               synthetic
                   ? syntheticData(plan, syntheticBatches(plan) * plan.batch)
                   : readArrays(options),
               /*allowOthers=*/true);
  compareData(group, plan, data, "--data",
              synthetic ? "synthetic data" : options.data, options.inputs);
  if (options.pin)
    program.pin();
  program.allocate(options.weights, !options.noVerifyWeights);
  compareWeights(program, options.weights);
  Executor::Options forExecutor = executorOptions(options, plan);
  forExecutor.timeKernels = options.kernels != 0;
  std::vector<Step> steps; // outlive the executor, whose ranks use them
  Executor executor(program, forExecutor);
  for (unsigned i = 0; i < executor.stepsToEnd() + 2; ++i)
    steps.emplace_back(plan);
  StepTimes times(executor, plan, data, steps);
  times.run(options.warmup, /*duration=*/0);
  executor.resetStatistics();
  times.run(options.steps, options.duration);
  RunSummary summary(program, executor, times.getSeconds(), times.size(),
                     times.size() * plan.batch);
  std::optional<KernelTable> kernels;
  if (options.kernels)
    kernels.emplace(plan, executor, times.size(), plan.target == "cpu");
  if (group.isFirst())
    print(options, plan, times, summary, kernels ? &*kernels : nullptr);
  writeOutputs(options, summary);
  return 0;
}

int pp::runtime::runBench(const pp_binary &binary,
                          const BenchOptions &options) {
  bool train = options.mode.empty() ? binary.training != nullptr
                                    : options.mode == "train";
  if (train && !binary.training)
    failUsage("--mode train: the model was compiled without a loss");
  std::string agreed = fmt::format(
      "bench trace {} report {} mode {} steps {} duration {} "
      "kernels {} warmup {}",
      !options.trace.empty(), !options.report.empty(), train, options.steps,
      options.duration, options.kernels, options.warmup);
  const pp_pipeline *program = train ? binary.training : binary.inference;
  return runOnAllProcesses(
      binary, options, {program}, agreed,
      [&](ProcessGroup &group) { return bench(*program, options, group); });
}
