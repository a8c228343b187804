//===- Profile.cpp - Times of a program's kernels -------------------------===//
#include "exec/Profile.h"
#include "exec/DataSet.h"
#include "exec/Executor.h"
#include "exec/OptimizerScalars.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;

namespace {

class MeasuredRun {
public:
  MeasuredRun(Program &program, unsigned steps)
      : plan(program.getPlan()), steps(steps) {
    Executor::Options options;
    options.trace = true;
    options.timeKernels = true;
    options.preparesInEachStep = true;
    executor = std::make_unique<Executor>(program, options);
  }

  Profile run() {
    std::vector<Step> ring;
    for (unsigned i = 0; i < executor->stepsToEnd() + 2; ++i)
      ring.emplace_back(plan);
    DataSet data(plan, syntheticData(plan, plan.batch));
    std::vector<uint64_t> order(plan.batch);
    std::iota(order.begin(), order.end(), 0);
    for (Step &step : ring)
      data.fill(step, order, 0);
    runSteps(ring, warmup);
    std::vector<double> seconds = runSteps(ring, steps);
    Profile times;
    times.step = median(seconds);
    addKernels(times);
    addTraced(times);
    return times;
  }

private:
  static double median(std::vector<double> values) {
    if (values.empty())
      return 0;
    auto middle =
        values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  /// As many steps are in flight as in a real run. Returns the distances
  /// between their ends.
  std::vector<double> runSteps(std::vector<Step> &ring, unsigned count) {
    OptimizerScalars scalars(plan.optimizer);
    auto submit = [&](unsigned index) {
      Step &step = ring[index % ring.size()];
      step.number = ++submitted;
      scalars.setIn(step, plan, submitted);
      executor->submit(step);
    };
    std::vector<double> seconds;
    unsigned next = 0;
    if (count)
      submit(next++);
    Clock::time_point last = Clock::now();
    for (unsigned index = 0; index < count; ++index) {
      while (next < count && next < index + ring.size())
        submit(next++);
      if (next == count)
        executor->flush();
      executor->wait(ring[index % ring.size()]);
      Clock::time_point now = Clock::now();
      seconds.push_back(std::chrono::duration<double>(now - last).count());
      last = now;
    }
    return seconds;
  }

  void addKernels(Profile &times) const {
    size_t kernelCount = plan.marks.size();
    // A stage that recomputes runs its kernels more often in a step.
    std::vector<std::vector<double>> ofStep(kernelCount,
                                            std::vector<double>(steps));
    std::vector<std::vector<unsigned>> runs(kernelCount,
                                            std::vector<unsigned>(steps));
    std::vector<std::pair<double, size_t>> total(steps);
    for (size_t step = 0; step < steps; ++step)
      total[step].second = step;
    std::vector<double> gaps;
    for (const KernelRun &run : executor->kernelRuns()) {
      if (run.step <= warmup)
        continue;
      size_t step = run.step - warmup - 1;
      ofStep.at(run.kernel).at(step) += run.seconds;
      ++runs[run.kernel][step];
      total[step].first += run.seconds;
      if (run.gapSeconds > 0)
        gaps.push_back(run.gapSeconds);
    }
    times.gap = median(gaps);
    std::sort(total.begin(), total.end());
    size_t first = steps / 4, last = std::max<size_t>(first + 1, steps * 3 / 4);
    for (size_t kernel = 0; kernel < kernelCount; ++kernel) {
      double sum = 0;
      size_t count = 0;
      for (size_t i = first; i < last; ++i) {
        size_t step = total[i].second;
        if (runs[kernel][step]) {
          sum += ofStep[kernel][step] / runs[kernel][step];
          ++count;
        }
      }
      std::optional<double> average;
      if (count)
        average = sum / static_cast<double>(count);
      times.kernels.push_back(average);
    }
  }

  /// What the trace tells: an arrow for each transfer follows its two slices.
  void addTraced(Profile &times) const {
    struct Slice {
      double begin = 0, end = 0;
      uint64_t step = 0;
    };
    Slice slice;
    std::map<uint64_t, Slice> sends, receives; // by number of the arrow
    std::map<unsigned, Slice> updates;         // by rank
    std::vector<std::vector<double>> between(plan.ranks.size());
    auto trace = nlohmann::json::parse(executor->trace());
    for (const auto &event : trace["traceEvents"]) {
      const auto &kind = event["ph"];
      if (kind == "s")
        sends[event["id"]] = slice;
      if (kind == "f")
        receives[event["id"]] = slice;
      if (kind != "X")
        continue;
      double begin = event["ts"].get<double>() * 1e-6;
      slice = {begin, begin + event["dur"].get<double>() * 1e-6,
               event["args"]["step"]};
      unsigned rank = rankOf(event["tid"].get<unsigned>() / 3);
      auto last = updates.find(rank);
      if (last != updates.end() && slice.step > warmup + 1) {
        between[rank].push_back(slice.begin - last->second.begin);
        updates.erase(last);
      }
      // The first update of a step: those of other stages follow it.
      if (event["name"].get<std::string>().ends_with("U"))
        updates.try_emplace(rank, slice);
    }
    for (const std::vector<double> &seconds : between)
      times.update += median(seconds);
    for (const PlanStage &stage : plan.stages)
      times.parameterBytes += static_cast<double>(stage.areas.parameters.bytes);
    std::vector<double> latencies;
    for (const auto &[number, send] : sends) {
      auto receive = receives.find(number);
      // Whoever waits for less does not sleep, but looks again and again.
      constexpr double sleep = 100e-6;
      if (receive != receives.end() && send.step > warmup &&
          receive->second.begin + sleep < send.end)
        latencies.push_back(receive->second.end - send.end);
    }
    if (!latencies.empty())
      times.latency = std::max(0.0, median(latencies));
  }

  unsigned rankOf(unsigned stage) const {
    for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
      for (unsigned own : plan.ranks[rank].stages)
        if (own == stage)
          return rank;
    return 0;
  }

  const Plan &plan;
  unsigned steps;
  /// Steps before those that count.
  unsigned warmup = std::clamp(steps / 4, 1U, 5U);
  std::unique_ptr<Executor> executor;
  uint64_t submitted = 0;
};

} // namespace

Profile pp::runtime::profileProgram(Program &program, unsigned steps) {
  return MeasuredRun(program, steps).run();
}
