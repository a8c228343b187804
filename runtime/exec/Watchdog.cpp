//===- Watchdog.cpp - Finds executors that hang ---------------------------===//
#include "exec/ExecutorState.h"
#include "support/Error.h"

#include <algorithm>
#include <chrono>
#include <ctime>

using namespace pp::runtime;

/// A rank that takes less of its time does not compute. What merely waits takes
/// a tenth of that; with many ranks on one processor, each still gets its part.
static constexpr double computingShare = 0.01;

double Executor::Rank::computedSeconds() const {
  timespec time{};
  if (!hasClock.load(std::memory_order_acquire) ||
      clock_gettime(computeClock, &time) != 0)
    return 0;
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

namespace {
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the ranks' processor time says between two looks.
class Computing {
public:
  explicit Computing(size_t ranks) : before(ranks), now(ranks) {}

  /// `seconds` has the processor time of each rank. Returns whether they have
  /// computed since the last call.
  bool look(std::vector<double> seconds) {
    double passed = secondsSince(lookedAt);
    lookedAt = Clock::now();
    before = std::move(now);
    now = std::move(seconds);
    double sum = 0;
    for (size_t i = 0; i < now.size(); ++i)
      sum += now[i] - before[i];
    return sum > computingShare * passed;
  }
  /// The one that computed most.
  size_t busiest() const {
    size_t result = 0;
    for (size_t i = 0; i < now.size(); ++i)
      if (now[i] - before[i] > now[result] - before[result])
        result = i;
    return result;
  }

private:
  std::vector<double> before, now;
  Clock::time_point lookedAt = Clock::now();
};
} // namespace

void Executor::State::watch() {
  auto completed = [&] {
    uint64_t sum = 0;
    for (const Rank &rank : ranks)
      sum += rank.completed->load(std::memory_order_relaxed);
    return sum;
  };
  auto computed = [&] {
    std::vector<double> seconds;
    for (const Rank &rank : ranks)
      seconds.push_back(rank.computedSeconds());
    return seconds;
  };
  ProcessGroup &group = program.getGroup();
  // Who has no limit still tells the others that it computes.
  bool hasLimit = options.watchdogSeconds > 0;
  auto period = std::chrono::duration<double>(
      hasLimit ? std::min(options.watchdogSeconds / 4, 1.0) : 1.0);
  Computing computing(ranks.size());
  computing.look(computed());
  uint64_t last = completed();
  // When an action was completed, and when a rank of any process was seen to
  // compute.
  auto since = Clock::now(), computedAt = since;
  double longest = 0; // pause between two actions
  bool hasTold = false;
  auto heard = group.lastHeartbeat();
  auto lookedAt = Clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  while (!ended.wait_for(lock, period,
                         [&] { return stopping || ranksRunning == 0; })) {
    // The whole job may have been stopped, as by a terminal, and goes on.
    bool wasStopped = secondsSince(lookedAt) > period.count() + 1;
    lookedAt = Clock::now();
    uint64_t current = completed();
    bool isComputing = computing.look(computed());
    bool isComputingElsewhere = group.lastHeartbeat() != heard;
    heard = group.lastHeartbeat();
    // Between two steps, the program saves its state or prints, which takes no
    // processor time where a disk or a reader is slow.
    bool isBetweenSteps = steps.empty() && !group.isWaiting();
    if (isComputing || current != last || isBetweenSteps ||
        (group.isFirst() && isComputingElsewhere))
      group.sendHeartbeat();
    // Without a step in flight nobody can make progress, and nobody has to.
    if (current != last || steps.empty()) {
      if (!steps.empty())
        longest = std::max(longest, secondsSince(since));
      last = current;
      since = computedAt = Clock::now();
      continue;
    }
    if (isComputing || isComputingElsewhere || wasStopped)
      computedAt = Clock::now();
    double seconds = secondsSince(since);
    double limit =
        std::max(options.watchdogSeconds, options.watchdogFactor * longest);
    if (seconds < limit || !hasLimit)
      continue;
    if (isComputing && !hasTold && options.onSlow) {
      hasTold = true;
      options.onSlow(fmt::format("slow: no action completed for {:.1f} s, but "
                                 "{} and still computes",
                                 seconds,
                                 ranks[computing.busiest()].describe()));
    }
    if (secondsSince(computedAt) < limit)
      continue;
    std::string text = fmt::format(
        "stuck: no action completed for {:.1f} s (step {}), and no {} computes",
        seconds, steps.front()->number, group.size() > 1 ? "process" : "rank");
    for (const Rank &rank : ranks)
      text += "\n  " + rank.describe();
    lock.unlock();
    if (options.onHang)
      options.onHang(text);
    fail(std::make_exception_ptr(Error(ErrorKind::Internal, text)));
    return;
  }
}
