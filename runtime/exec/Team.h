//===- Team.h - Threads that compute one stage together -------------------===//
//
// All threads of a team run the same function, a phase of a stage, each its
// part of every kernel, and meet after each one:
//
//   thread 0   run ─ kernel 0, part 0 ─┐ ┌ kernel 1, part 0 ─┐ ┌ ... ─┐ run
//   thread 1    └─── kernel 0, part 1 ─┴─┴ kernel 1, part 1 ─┴─┴ ... ─┘ returns
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_EXEC_TEAM_H
#define PP_RUNTIME_EXEC_TEAM_H

#include "support/Cores.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pp::runtime {

/// `size` threads, the one that calls `run` among them. What a kernel leaves in
/// keepKernelError() in any of them, takeKernelError() returns in that one.
class Team {
public:
  /// Starts size - 1 threads; throws Error(IO) where the system has no room for
  /// one. `name` is what they are for. Thread i is bound to `cores[i]`, unless
  /// there are none. A thread looks `spins` times for the others before it
  /// sleeps.
  Team(unsigned size, const std::string &name, const Cores &cores = {},
       unsigned spins = 2000);
  /// Not while `run` runs.
  ~Team();
  Team(const Team &) = delete;
  Team &operator=(const Team &) = delete;

  unsigned getSize() const { return size; }

  /// Calls work(i) in thread i, i = 0 in the calling one, and returns when all
  /// have returned. `work` must not throw. One thread at a time may call it.
  void run(const std::function<void(unsigned)> &work);

  /// Inside of `work`: waits until every thread of the team has called this as
  /// often as the calling one. What a thread wrote before, all see afterwards.
  void join();

private:
  void main(unsigned index, const Cores &own);
  void work(unsigned index);
  void awaitChange(const std::atomic<uint32_t> &value, uint32_t old) const;

  const unsigned size, spins;
  const std::function<void(unsigned)> *current = nullptr;
  /// Counts the calls of `run`, and one more at the end.
  std::atomic<uint32_t> calls{0};
  bool isStopping = false; // written before the last increment of `calls`
  std::atomic<uint32_t> arrived{0};
  /// Counts how often all have met.
  std::atomic<uint32_t> meetings{0};
  std::mutex mutex;
  std::string error; // under `mutex`
  std::vector<std::thread> threads;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_TEAM_H
