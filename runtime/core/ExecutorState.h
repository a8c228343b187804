//===- ExecutorState.h - What the ranks of an executor share --------------===//
//
// Internal to Executor.cpp and Rank.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CORE_EXECUTORSTATE_H
#define PP_RUNTIME_CORE_EXECUTORSTATE_H

#include "core/Executor.h"
#include "cpu/LibraryKernel.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace pp::runtime {

/// One rank: its stages' kernels, its compiled actions and its thread.
class Executor::Rank {
public:
  Rank(State &state, unsigned index);
  /// Body of the thread.
  void main();
  /// What the rank is doing, for a hang report. Any thread.
  std::string describe() const;

  std::atomic<uint64_t> completed{0}; // actions, for the watchdog
  RankTrace trace;
  std::vector<StageStatistics> statistics; // by stage of the plan

private:
  struct CompiledAction {
    PlanAction action;
    std::vector<unsigned> releases; // channels
  };
  struct StageState {
    const StageMemory *memory = nullptr;
    pp_stage_functions functions{};
    std::vector<std::unique_ptr<LibraryKernel>> kernels;
    std::vector<void *> kernelPointers;
    pp_phase_arguments arguments{};
  };

  void createKernels();
  /// Runs steps until the executor stops or a rank fails.
  void takeSteps();
  void runStep(Step &step);
  void runAction(const CompiledAction &compiled, Step &step);
  void runPhase(StageState &stage, const PlanAction &action, Phase phase,
                bool discard, Step &step);
  void runUpdate(StageState &stage, unsigned index, const Step &step);

  State &state;
  unsigned index;
  std::vector<StageState> stages; // by stage of the plan; empty if elsewhere
  std::vector<CompiledAction> actions;
  std::vector<char *> inputs, outputs; // of the phase that runs
  static constexpr int64_t idle = -1;
  std::atomic<int64_t> current{idle}; // action, or idle
};

struct Executor::State {
  State(Program &program, Options options)
      : program(program), options(std::move(options)) {}

  Program &program;
  Options options;
  std::unique_ptr<Transport> transport;
  std::deque<Rank> ranks;
  std::vector<std::thread> threads;
  std::thread watchdog;

  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  std::deque<Step *> steps; // submitted, not completed
  uint64_t firstStep = 0;   // sequence number of steps.front()
  unsigned ranksReady = 0;
  unsigned ranksRunning = 0; // threads that may still touch a step
  bool stopping = false;
  std::exception_ptr error; // the first

  /// Records the error if it is the first and wakes everyone. Any thread.
  void fail(std::exception_ptr exception) noexcept;
  void watch();
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CORE_EXECUTORSTATE_H
