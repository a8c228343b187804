//===- Executor.h - Runs the action lists ---------------------------------===//
#ifndef PP_RUNTIME_EXEC_EXECUTOR_H
#define PP_RUNTIME_EXEC_EXECUTOR_H

#include "exec/GradientNorm.h"
#include "exec/NonFinite.h"
#include "exec/ParameterGroups.h"
#include "exec/Step.h"
#include "exec/Trace.h"
#include "program/Program.h"
#include "transport/Transport.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pp::runtime {

/// What a stage did since the executor was made (or resetStatistics).
struct StageStatistics {
  double busySeconds = 0; // in phases and updates, not in transfers
  uint64_t actions = 0;
};

/// One run of a kernel, by its number in Plan::marks.
struct KernelRun {
  unsigned kernel;
  uint64_t step;
  double seconds;
  /// Since the run before it on the same rank, in the same step; 0 for the
  /// first one.
  double gapSeconds;
};

/// One thread per rank of this process, alive as long as the object. Steps run
/// in the order of submit(); a rank starts the next step as soon as it has
/// finished the last, so two steps in flight keep a pipeline full. All public
/// functions are for one caller thread. Where the program has several
/// processes, each has an executor, and all call the same functions in the same
/// order.
class Executor {
public:
  struct Options {
    bool trace = false;
    /// Whether phases run as graphs, where the device has them.
    bool graphs = true;
    /// Takes the time of each kernel; the program has to mark them. No phase
    /// is a graph then.
    bool timeKernels = false;
    /// Whether P runs in each step also where parameters stay the same, so that
    /// its kernels can be measured.
    bool preparesInEachStep = false;
    /// Whether a step whose loss or gradients are not finite is skipped; has a
    /// meaning where the plan can look for them.
    bool skipsNonFinite = true;
    /// Only where the plan looks for gradients that are not finite.
    GradientClipping clipping;
    /// Only where no kernel of a device updates the parameters. Steps have the
    /// values of each group.
    ParameterGroups groups;
    /// PipeMare's T1: the update of step k (from 0) has the learning rate
    /// divided by delay^(1 - min(k / annealedSteps, 1)), where a stage has a
    /// delay above 1. 0: the full one from the start.
    uint64_t annealedSteps = 0;
    /// A hang: while a step runs, no action of this process was completed, and
    /// no rank of any process computed, for that long. 0: never. Processor time
    /// tells who computes; that a GPU does is not seen.
    double watchdogSeconds = 0;
    /// At least that many times the longest pause between two actions so far.
    double watchdogFactor = 0;
    /// Called once, by the watchdog, with a text about ranks that compute for
    /// longer than that.
    std::function<void(const std::string &)> onSlow;
    /// Called by the watchdog with a text that says what each rank waits for;
    /// afterwards the run fails with Error(Internal).
    std::function<void(const std::string &)> onHang;
  };

  /// Starts the ranks and waits until they have created their kernels. Throws
  /// what a rank threw. `program` needs memory and has to outlive the executor.
  Executor(Program &program, Options options);
  /// Stops the ranks; steps in flight are abandoned.
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Queues a step; `step` has to live until it was waited for.
  void submit(Step &step);
  /// Without a flush, a step ends while later ones run: that many must follow
  /// it (0 with a flush), or a flush().
  unsigned stepsToEnd() const;
  /// Lets all steps that were submitted end without a later one. The next one
  /// finds an idle pipeline, and in all stages the newest weights. Nothing
  /// where nothing is in flight.
  void flush();
  /// Waits until `step` (and all before it) has run. Throws the first error of
  /// any rank; no step can run after that. Returns whether any process has
  /// passed `wantsToStop`. Of several processes, the first has the losses and
  /// all fetches afterwards.
  bool wait(Step &step, bool wantsToStop = false);
  void run(Step &step) {
    submit(step);
    flush();
    wait(step);
  }

  /// Runs `step` once more, looking at what each kernel writes; of the kernels
  /// of this process's ranks the first in the order of the data. Nothing where
  /// all is finite, or where the device runs kernels by itself. No step may be
  /// in flight. Changes what steps change.
  std::optional<NonFinite> findNonFinite(Step &step);

  // Statistics; exact when no step runs. Of several processes, the first gets
  // those of all; the others get something.
  std::vector<StageStatistics> statistics() const; // by stage
  /// And forgets kernelRuns().
  void resetStatistics();
  std::vector<ChannelTraffic> traffic() const;
  std::string trace() const;
  /// In the order of the ranks and of their runs; with Options::timeKernels.
  std::vector<KernelRun> kernelRuns() const;

private:
  class Rank;
  struct State;
  std::unique_ptr<State> state;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_EXECUTOR_H
