//===- Team.cpp -----------------------------------------------------------===//
#include "exec/Team.h"
#include "cpu/LibraryKernel.h"
#include "kernel/Part.h"
#include "pprt/pprt.h"
#include "support/Error.h"
#include "support/FlushDenormals.h"
#include "support/Spin.h"
#include "support/Thread.h"

#include <fmt/format.h>

using namespace pp::runtime;

/// Waits until `value` is not `old` any more. Threads of a team meet after
/// every kernel, so the wait is short.
void Team::awaitChange(const std::atomic<uint32_t> &value, uint32_t old) const {
  for (unsigned looks = 0; looks < spins; ++looks) {
    if (value.load(std::memory_order_acquire) != old)
      return;
    spinPause();
  }
  value.wait(old, std::memory_order_acquire);
}

Team::Team(unsigned size, const std::string &name, const Cores &cores,
           unsigned spins)
    : size(size), spins(spins) {
  auto coreOf = [&](unsigned index) {
    return cores.empty() ? Cores() : Cores{cores[index]};
  };
  try {
    for (unsigned index = 1; index < size; ++index)
      threads.push_back(startThread(
          fmt::format("{}, thread {}", name, index),
          [this, index, own = coreOf(index)] { main(index, own); }));
  } catch (...) {
    // They wait for their first work only, and none for those that are missing.
    isStopping = true;
    calls.fetch_add(1, std::memory_order_release);
    calls.notify_all();
    for (std::thread &thread : threads)
      thread.join();
    throw;
  }
}

Team::~Team() {
  isStopping = true;
  calls.fetch_add(1, std::memory_order_release);
  calls.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void Team::main(unsigned index, const Cores &own) {
  flushDenormals();
  try {
    bindThread(own);
  } catch (const Error &) { // NOLINT(bugprone-empty-catch)
    // The rank's own thread is bound the same way, and says why it cannot be.
  }
  setKernelThreads(1);
  uint32_t seen = 0;
  while (true) {
    awaitChange(calls, seen);
    ++seen;
    if (isStopping)
      return;
    work(index);
    join();
  }
}

void Team::work(unsigned index) {
  currentPart() = {index, size};
  (*current)(index);
  currentPart() = {};
  std::string own = takeKernelError();
  if (own.empty())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (error.empty())
    error = std::move(own);
}

void Team::run(const std::function<void(unsigned)> &function) {
  current = &function;
  calls.fetch_add(1, std::memory_order_release);
  calls.notify_all();
  work(0);
  join();
  if (!error.empty())
    keepKernelError(std::exchange(error, std::string()));
}

void Team::join() {
  uint32_t meeting = meetings.load(std::memory_order_relaxed);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < size)
    return awaitChange(meetings, meeting);
  arrived.store(0, std::memory_order_relaxed);
  meetings.fetch_add(1, std::memory_order_release);
  meetings.notify_all();
}

void pp_join_parts(const pp_phase_arguments *arguments) {
  if (arguments->team)
    static_cast<Team *>(arguments->team)->join();
}
