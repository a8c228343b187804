//===- Waves.cpp - Wave synchronous parallelism ---------------------------===//
#include "pp/Planner/Schedule/Asynchronous.h"
#include <algorithm>
#include <limits>
#include <map>

using namespace pp::planner;

int WaveRule::localVersion(int minibatch) const {
  return std::max(minibatch - localStaleness, 0);
}

int WaveRule::requiredClock(int minibatch) const {
  return std::max(localVersion(minibatch) / waveSize() - clockDistance, 0);
}

int WaveRule::stalenessBound() const {
  return (clockDistance + 1) * (localStaleness + 1) + localStaleness - 1;
}

Result<std::vector<WaveStart>>
pp::planner::simulateWaves(const WaveRule &rule,
                           const std::vector<double> &secondsPerMinibatch,
                           int stages, int minibatches) {
  size_t workers = secondsPerMinibatch.size();
  if (workers == 0 || stages < 1 || minibatches < 0 ||
      rule.localStaleness < 0 || rule.clockDistance < 0)
    return Failure{"waves need at least one worker and one stage, and no "
                   "negative numbers"};
  for (double seconds : secondsPerMinibatch)
    if (!(seconds > 0))
      return Failure{"a worker takes " + std::to_string(seconds) +
                     " seconds per mini-batch"};
  struct Worker {
    int next = 0;
    double free = 0;            // When the first stage is free.
    std::vector<double> finish; // By mini-batch.
  };
  std::vector<Worker> state(workers);
  // When all workers have finished wave c; unknown ones are not in the list.
  auto waveEnd = [&](int clock) {
    double end = 0;
    for (const Worker &worker : state) {
      size_t last = size_t(clock) * rule.waveSize();
      if (last > worker.finish.size())
        return std::numeric_limits<double>::infinity();
      if (last > 0)
        end = std::max(end, worker.finish[last - 1]);
    }
    return end;
  };
  std::vector<WaveStart> starts;
  while (true) {
    // The worker that can start first.
    double earliest = std::numeric_limits<double>::infinity();
    size_t chosen = workers;
    for (size_t w = 0; w < workers; ++w) {
      const Worker &worker = state[w];
      if (worker.next == minibatches)
        continue;
      double at =
          std::max(worker.free, waveEnd(rule.requiredClock(worker.next)));
      if (int local = rule.localVersion(worker.next); local > 0)
        at = std::max(at, worker.finish[local - 1]);
      if (at < earliest) {
        earliest = at;
        chosen = w;
      }
    }
    if (chosen == workers)
      break;
    Worker &worker = state[chosen];
    int clock = 0;
    while (waveEnd(clock + 1) <= earliest)
      ++clock;
    starts.push_back({static_cast<int>(chosen), worker.next,
                      rule.localVersion(worker.next), clock, earliest});
    worker.free = earliest + secondsPerMinibatch[chosen];
    double end = earliest + secondsPerMinibatch[chosen] * stages;
    // One pipeline finishes in order.
    worker.finish.push_back(
        worker.finish.empty() ? end : std::max(end, worker.finish.back()));
    ++worker.next;
  }
  return starts;
}

std::vector<std::string>
pp::planner::verifyWaves(const WaveRule &rule,
                         const std::vector<WaveStart> &starts) {
  std::vector<std::string> errors;
  std::map<int, int> next;
  for (const WaveStart &start : starts) {
    std::string name = "mini-batch " + std::to_string(start.minibatch) +
                       " of worker " + std::to_string(start.worker);
    int &expected = next[start.worker];
    if (start.minibatch != expected) {
      errors.push_back(name + " comes instead of " + std::to_string(expected));
      continue;
    }
    ++expected;
    if (start.localVersion < rule.localVersion(start.minibatch))
      errors.push_back(name + " reads " + std::to_string(start.localVersion) +
                       " of its worker's own, not " +
                       std::to_string(rule.localVersion(start.minibatch)));
    if (start.globalClock < rule.requiredClock(start.minibatch))
      errors.push_back(name + " starts at the clock " +
                       std::to_string(start.globalClock) + " of all, before " +
                       std::to_string(rule.requiredClock(start.minibatch)));
    int missing = start.minibatch - start.globalClock * rule.waveSize();
    if (missing > rule.stalenessBound())
      errors.push_back(name + " misses " + std::to_string(missing) +
                       " mini-batches, more than " +
                       std::to_string(rule.stalenessBound()));
  }
  return errors;
}
