//===- Executor.cpp -------------------------------------------------------===//
#include "core/Executor.h"
#include "core/ExecutorState.h"
#include "support/Error.h"
#include "transport/LocalTransport.h"

#include <algorithm>
#include <chrono>

using namespace pp::runtime;

void Executor::State::fail(std::exception_ptr exception) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!error)
      error = std::move(exception);
  }
  transport->abort();
  changed.notify_all();
}

void Executor::State::watch() {
  auto completed = [&] {
    uint64_t sum = 0;
    for (const Rank &rank : ranks)
      sum += rank.completed->load(std::memory_order_relaxed);
    return sum;
  };
  using Clock = std::chrono::steady_clock;
  auto period =
      std::chrono::duration<double>(std::min(options.watchdogSeconds / 4, 1.0));
  uint64_t last = completed();
  auto since = Clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, period,
                           [&] { return stopping || ranksRunning == 0; })) {
    uint64_t current = completed();
    // Without a step in flight nobody can make progress, and nobody has to.
    if (current != last || steps.empty()) {
      last = current;
      since = Clock::now();
      continue;
    }
    double seconds =
        std::chrono::duration<double>(Clock::now() - since).count();
    if (seconds < options.watchdogSeconds)
      continue;
    std::string text = fmt::format("no action completed for {:.1f} s (step {})",
                                   seconds, steps.front()->number);
    for (const Rank &rank : ranks)
      text += "\n  " + rank.describe();
    lock.unlock();
    if (options.onHang)
      options.onHang(text);
    fail(std::make_exception_ptr(Error(ErrorKind::Internal, text)));
    return;
  }
}

Executor::Executor(Program &program, Options options)
    : state(std::make_unique<State>(program, std::move(options))) {
  const Plan &plan = program.getPlan();
  state->transport = std::make_unique<LocalTransport>(
      plan, program.getMemories(), program.getDevice());
  for (unsigned r = 0; r < plan.ranks.size(); ++r)
    state->ranks.emplace_back(*state, r);
  state->ranksRunning = state->ranks.size();
  for (Rank &rank : state->ranks)
    state->threads.emplace_back([&rank] { rank.main(); });
  std::unique_lock<std::mutex> lock(state->mutex);
  state->changed.wait(lock, [&] {
    return state->error || state->ranksReady == state->ranks.size();
  });
  if (state->error) {
    lock.unlock();
    for (std::thread &thread : state->threads)
      thread.join();
    state->threads.clear();
    std::rethrow_exception(state->error);
  }
  lock.unlock();
  if (state->options.watchdogSeconds > 0)
    state->watchdog = std::thread([this] { state->watch(); });
}

Executor::~Executor() {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->stopping = true;
  }
  state->transport->abort();
  state->changed.notify_all();
  for (std::thread &thread : state->threads)
    thread.join();
  if (state->watchdog.joinable())
    state->watchdog.join();
}

void Executor::submit(Step &step) {
  std::lock_guard<std::mutex> lock(state->mutex);
  step.ranksLeft = state->ranks.size();
  state->steps.push_back(&step);
  state->changed.notify_all();
}

void Executor::wait(Step &step) {
  std::unique_lock<std::mutex> lock(state->mutex);
  // After an error the other ranks may be in the middle of a phase: the step is
  // the caller's again only when all have left.
  state->changed.wait(lock, [&] {
    return step.ranksLeft == 0 || (state->error && state->ranksRunning == 0);
  });
  if (step.ranksLeft != 0)
    std::rethrow_exception(state->error);
}

std::vector<StageStatistics> Executor::statistics() const {
  std::vector<StageStatistics> result(state->program.getPlan().stages.size());
  for (const Rank &rank : state->ranks)
    for (size_t s = 0; s < result.size(); ++s) {
      result[s].busySeconds += rank.statistics[s].busySeconds;
      result[s].actions += rank.statistics[s].actions;
    }
  return result;
}

void Executor::resetStatistics() {
  for (Rank &rank : state->ranks)
    std::fill(rank.statistics.begin(), rank.statistics.end(),
              StageStatistics());
}

std::vector<ChannelTraffic> Executor::traffic() const {
  return state->transport->traffic();
}

std::vector<KernelRun> Executor::kernelRuns() const {
  std::vector<KernelRun> runs;
  for (const Rank &rank : state->ranks)
    runs.insert(runs.end(), rank.kernelRuns.begin(), rank.kernelRuns.end());
  return runs;
}

std::string Executor::trace() const {
  std::vector<const RankTrace *> traces;
  for (const Rank &rank : state->ranks)
    traces.push_back(&rank.trace);
  return formatTrace(state->program.getPlan(), traces);
}
