//===- Executor.cpp -------------------------------------------------------===//
#include "exec/Executor.h"
#include "exec/ExecutorState.h"
#include "support/AddressSpace.h"
#include "support/Error.h"
#include "support/Spin.h"
#include "support/Thread.h"
#include "transport/RoutedTransport.h"

#include <algorithm>
#include <new>

using namespace pp::runtime;

void Executor::State::fail(std::exception_ptr exception) noexcept {
  std::exception_ptr first;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!error)
      error = std::move(exception);
    first = error;
  }
  if (transport)
    transport->abort();
  if (flagExchange)
    flagExchange->abort();
  if (valueExchange)
    valueExchange->abort();
  submitted.notify_all();
  completed.notify_all();
  try {
    std::rethrow_exception(first);
  } catch (const RemoteFailure &) {
    return; // They know.
  } catch (const Error &error) {
    program.getGroup().fail(error);
  } catch (const std::exception &error) {
    try {
      program.getGroup().fail(Error(ErrorKind::Internal, error.what()));
    } catch (const std::bad_alloc &) {
      return; // Then the end of this process alarms the others.
    }
  }
}

void Executor::State::requireHeadroom(const std::string &what) const {
  requireAddressSpace(Program::headroomPerRank * ranks.size(), what);
}

void Executor::State::start() {
  const Plan &plan = program.getPlan();
  auto onFailure = [this](std::exception_ptr exception) {
    fail(std::move(exception));
  };
  transport =
      createTransport({plan, program.getPlacement(), program.getMemories(),
                       program.getDevice(), program.getGroup(), onFailure});
  if (plan.findLossScale())
    flagExchange = createFlagExchange(program);
  if (options.clipping.needsNorm()) {
    gradientNorm.emplace(plan, options.groups.frozen());
    valueExchange =
        std::make_unique<ValueExchange>(program, gradientNorm->getOwners());
  }
  transport->start();
  failureHandle = program.getGroup().onFailure(onFailure);
  for (unsigned r = 0; r < plan.ranks.size(); ++r)
    if (program.getPlacement().hasRank(r))
      ranks.emplace_back(*this, r);
  lag = plan.largestLag();
  // Virtual workers settle in a pause.
  if (plan.clockDistance)
    lag = std::max(lag, 1u);
  // A step of a small model takes longer than a thread waits for another.
  spins = 4 * spinsFor(static_cast<unsigned>(ranks.size()) * plan.threads + 1);
  ranksRunning = ranks.size();
  threads.reserve(ranks.size());
  requireAddressSpace(program.bytesToStart(),
                      fmt::format("starting {} ranks", ranks.size()));
  for (Rank &rank : ranks)
    threads.push_back(startThread(
        fmt::format("rank {} of {}", rank.getIndex(), plan.ranks.size()),
        [&rank] { rank.main(); }));
  std::unique_lock<std::mutex> lock(mutex);
  completed.wait(lock, [&] { return error || ranksReady == ranks.size(); });
  if (error)
    std::rethrow_exception(error);
  lock.unlock();
  // Some of the library's code is made when it runs for the first time.
  requireHeadroom("the first step");
  if (options.watchdogSeconds > 0 || program.getGroup().size() > 1)
    watchdog = startThread("the watchdog", [this] { watch(); });
}

Executor::Executor(Program &program, Options options)
    : state(std::make_unique<State>(program, std::move(options))) {
  try {
    state->start();
  } catch (...) {
    // Threads that have started wait for steps, and use the state.
    state->fail(std::current_exception());
    for (std::thread &thread : state->threads)
      thread.join();
    state->threads.clear();
    throw;
  }
}

Executor::~Executor() {
  state->failureHandle.reset();
  bool isIdle = false;
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->stopping = true;
    isIdle = state->steps.empty() && !state->error;
  }
  state->isOrderly = isIdle && std::uncaught_exceptions() == 0;
  // Other processes would take it for a failure.
  if (!isIdle) {
    state->transport->abort();
    if (state->flagExchange)
      state->flagExchange->abort();
    if (state->valueExchange)
      state->valueExchange->abort();
  }
  state->submitted.notify_all();
  state->ended.notify_all();
  for (std::thread &thread : state->threads)
    thread.join();
  if (state->watchdog.joinable())
    state->watchdog.join();
}

void Executor::State::push(Step &step) {
  step.ranksLeft = ranks.size();
  step.sequence = firstStep + steps.size();
  steps.push_back(&step);
  submitted.notify_all();
}

void Executor::submit(Step &step) {
  state->isFlushed = false;
  std::lock_guard<std::mutex> lock(state->mutex);
  state->push(step);
}

unsigned Executor::stepsToEnd() const { return state->lag; }

void Executor::flush() {
  if (state->isFlushed)
    return;
  state->isFlushed = true;
  std::lock_guard<std::mutex> lock(state->mutex);
  for (unsigned i = 0; i < state->lag; ++i) {
    Step &pause = state->pauses.emplace_back(Step::pause());
    pause.isIdleAfter = i + 1 == state->lag;
    state->push(pause);
  }
}

bool Executor::State::leave(uint64_t number) {
  auto find = [&](uint64_t n) {
    return n < firstStep ? nullptr : steps[n - firstStep];
  };
  // A step ends `lag` times later, a pause at once.
  if (Step *step = find(number); step && (lag == 0 || step->isPause))
    --step->ranksLeft;
  if (Step *step = number < lag ? nullptr : find(number - lag);
      step && lag > 0 && !step->isPause)
    --step->ranksLeft;
  // Ranks finish steps in order, so the oldest ones are over first.
  uint64_t before = firstStep;
  while (!steps.empty() && steps.front()->ranksLeft == 0) {
    if (steps.front()->isPause)
      pauses.pop_front();
    steps.pop_front();
    stepsOver.store(++firstStep, std::memory_order_release);
  }
  return firstStep != before;
}

bool Executor::State::shareResults(Step &step, bool wantsToStop) {
  ProcessGroup &group = program.getGroup();
  const Placement &placement = program.getPlacement();
  const Plan &plan = program.getPlan();
  if (group.size() == 1)
    return wantsToStop;
  // Each value from the process that has it.
  auto share = [&](unsigned owner, void *data, uint64_t bytes) {
    if (owner == 0 || bytes == 0)
      return;
    if (group.isFirst())
      group.receive(owner, data, bytes);
    else if (group.process() == owner)
      group.send(0, data, bytes);
  };
  unsigned replicas = plan.replicasOfLoss();
  for (unsigned q = 0; q < replicas && !step.losses.empty(); ++q) {
    NumberArray losses(plan.optimizer.type,
                       (plan.microbatches + replicas - 1 - q) / replicas);
    for (size_t k = 0; k < losses.size(); ++k)
      losses.set(k, step.losses.get(k * replicas + q));
    share(placement.processOfLoss(q), losses.data(), losses.bytes());
    for (size_t k = 0; k < losses.size(); ++k)
      step.losses.set(k * replicas + q, losses.get(k));
  }
  for (size_t f = 0; f < plan.fetches.size(); ++f)
    for (unsigned m = 0; m < (plan.fetches[f].batched ? plan.microbatches : 1);
         ++m)
      share(placement.processOfFetch(f, m), step.fetches[f].at(m),
            plan.fetches[f].bytes);
  return group.any(wantsToStop);
}

bool Executor::wait(Step &step, bool wantsToStop) {
  // Another executor of the process may be idle, and must not say that the
  // process is between two steps.
  ProcessGroup::Waiting waiting(state->program.getGroup());
  // To sleep and to be woken takes as long as a step of a small model. Errors
  // are seen below.
  for (unsigned i = 0;
       i < state->spins &&
       state->stepsOver.load(std::memory_order_acquire) <= step.sequence;
       ++i)
    spinPause();
  {
    std::unique_lock<std::mutex> lock(state->mutex);
    // After an error the other ranks may be in the middle of a phase: the step
    // is the caller's again only when all have left.
    state->completed.wait(lock, [&] {
      return step.ranksLeft == 0 || (state->error && state->ranksRunning == 0);
    });
    if (step.ranksLeft != 0)
      std::rethrow_exception(state->error);
  }
  return state->shareResults(step, wantsToStop);
}

std::optional<NonFinite> Executor::findNonFinite(Step &step) {
  for (Rank &rank : state->ranks)
    rank.probe(true);
  run(step);
  std::optional<NonFinite> first;
  for (Rank &rank : state->ranks) {
    rank.probe(false);
    keepFirst(first, rank.findNonFinite());
  }
  return first;
}

std::vector<StageStatistics> Executor::statistics() const {
  size_t stages = state->program.getPlan().stages.size();
  std::vector<double> seconds(stages);
  std::vector<uint64_t> actions(stages);
  for (const Rank &rank : state->ranks)
    for (size_t s = 0; s < stages; ++s) {
      seconds[s] += rank.statistics[s].busySeconds;
      actions[s] += rank.statistics[s].actions;
    }
  state->program.getGroup().addUp(seconds);
  state->program.getGroup().addUp(actions);
  std::vector<StageStatistics> result(stages);
  for (size_t s = 0; s < stages; ++s)
    result[s] = {seconds[s], actions[s]};
  return result;
}

void Executor::resetStatistics() {
  for (Rank &rank : state->ranks) {
    std::fill(rank.statistics.begin(), rank.statistics.end(),
              StageStatistics());
    rank.kernelRuns.clear();
  }
}

std::vector<ChannelTraffic> Executor::traffic() const {
  std::vector<ChannelTraffic> result = state->transport->traffic();
  std::vector<uint64_t> numbers;
  for (const ChannelTraffic &channel : result)
    numbers.insert(numbers.end(), {channel.sentBytes, channel.receivedBytes,
                                   channel.messages});
  state->program.getGroup().addUp(numbers);
  for (size_t c = 0; c < result.size(); ++c)
    result[c] = {numbers[3 * c], numbers[3 * c + 1], numbers[3 * c + 2]};
  return result;
}

std::vector<KernelRun> Executor::kernelRuns() const {
  std::vector<KernelRun> runs;
  for (const Rank &rank : state->ranks)
    runs.insert(runs.end(), rank.kernelRuns.begin(), rank.kernelRuns.end());
  return runs;
}

std::string Executor::trace() const {
  ProcessGroup &group = state->program.getGroup();
  const Placement &placement = state->program.getPlacement();
  const Plan &plan = state->program.getPlan();
  std::vector<RankTrace> traces(plan.ranks.size());
  for (const Rank &rank : state->ranks)
    traces[rank.getIndex()] = rank.trace;
  for (unsigned r = 0; r < plan.ranks.size(); ++r) {
    std::vector<TraceEvent> &events = traces[r].events;
    unsigned owner = placement.processOfRank(r);
    uint64_t count = events.size();
    if (owner == 0)
      continue;
    if (owner == group.process()) {
      group.send(0, &count, sizeof(count));
      group.send(0, events.data(), count * sizeof(TraceEvent));
    } else if (group.isFirst()) {
      group.receive(owner, &count, sizeof(count));
      events.resize(std::min<uint64_t>(count, RankTrace::maxEvents));
      group.receive(owner, events.data(), count * sizeof(TraceEvent));
      for (TraceEvent &event : events) {
        event.begin += group.clockOffset(owner);
        event.end += group.clockOffset(owner);
      }
    }
  }
  std::vector<const RankTrace *> pointers;
  for (const RankTrace &trace : traces)
    pointers.push_back(&trace);
  return formatTrace(plan, pointers);
}
