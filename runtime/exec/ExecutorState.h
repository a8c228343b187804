//===- ExecutorState.h - What the ranks of an executor share --------------===//
//
// Internal to Executor.cpp and the Rank*.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_EXEC_EXECUTORSTATE_H
#define PP_RUNTIME_EXEC_EXECUTORSTATE_H

#include "exec/Executor.h"
#include "exec/PhaseCall.h"
#include "transport/FlagExchange.h"
#include "transport/ValueExchange.h"

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace pp::runtime {

/// One rank: its stages' kernels, its actions and its thread.
///
/// The thread enqueues the work of a step on the rank's streams. Where these
/// are asynchronous, the thread goes on to the next step, if there is one,
/// before it waits for the oldest step that it has enqueued.
class Executor::Rank {
public:
  Rank(State &state, unsigned index);
  /// Body of the thread.
  void main();
  /// What the rank is doing, for a hang report. Any thread.
  std::string describe() const;

  /// Processor time of the thread that computes. Any thread.
  double computedSeconds() const;

  DeviceCounter completed; // actions, of all steps
  RankTrace trace;
  unsigned getIndex() const { return index; } // in the plan
  /// Lets the kernels of the following steps be looked at. No step runs.
  void probe(bool isProbed);
  /// What was found since then.
  std::optional<NonFinite> findNonFinite() const;
  std::vector<StageStatistics> statistics; // by stage of the plan
  std::vector<KernelRun> kernelRuns;

private:
  struct CompiledAction {
    PlanAction action;
    std::string name;
    std::vector<PhaseCall *> calls;
    std::vector<unsigned> sends;    // channels whose send slot it fills
    std::vector<unsigned> releases; // channels
    /// Of a backward pass with corrected weights: their P; null: there is none.
    PhaseCall *preparation = nullptr;
    /// Of a W: how many, from it on, run together; 0 of the others.
    unsigned together = 1;
  };
  /// A step whose work is on the streams.
  struct EnqueuedStep {
    Step *step = nullptr;
    std::vector<int64_t> times; // action i: [i] to [i + 1]
    // With a loss scale: the action before which ranks agree whether the step
    // counts, and when they have.
    size_t agreesBefore = SIZE_MAX;
    int64_t agreed = 0;
    std::vector<uint64_t> numbers;   // by action: of the step it was for, or 0
    std::vector<NumberArray> losses; // by stage of the rank
    LossScaleState lossScale;        // of rank 0
    std::vector<float> overflows;    // of all ranks
    double gradientNorm = 0;
    std::unique_ptr<Event> done;
    std::optional<KernelTimer> timer;
  };

  /// An update: its weight slots, which may be the same, and of a virtual
  /// worker its wave and whether it is the first of that.
  struct Change {
    unsigned from, to;
    uint64_t wave;
    bool isFirst;
  };

  void compile();
  void createStage(unsigned stage);
  void createRanges(StageState &stage) const;
  /// On a GPU: kernels for the ranges, of which those that lie side by side and
  /// take the same values have one.
  void createRangeKernels(StageState &stage) const;
  /// Runs steps until the executor stops or a rank fails.
  void takeSteps();
  void enqueueStep(EnqueuedStep &enqueued, Step &step);
  /// `compiled` of the list of this time, for `step`, the one with this number
  /// from 0 as the rank counts.
  void enqueueAction(const CompiledAction &compiled, Step &step,
                     uint64_t sequence, EnqueuedStep &enqueued);
  /// The W from `first` on that run together, as far as the step has their
  /// micro-batches.
  void enqueueTogether(std::span<const CompiledAction> actions, Step &step,
                       EnqueuedStep &enqueued);
  /// Finds W that run together.
  void joinWeights(std::vector<CompiledAction> &actions) const;
  /// After how many steps a list finds the same slots again.
  unsigned findPeriod() const;
  /// The numbers of the plan's actions in the order in which the rank runs
  /// them: in a run of transfers, what is sent at once goes first.
  std::vector<unsigned> findOrder() const;
  /// The list for a step whose number is `round` modulo the period.
  std::vector<CompiledAction> compileRound(unsigned round, unsigned period);
  /// Brings the newest weights into all slots; nothing is in flight.
  void settleWeights();
  /// Virtual workers take what is not shared from worker 0; the same.
  void settleWorkers();
  /// Of a virtual worker: adds what an update has changed in a range of bytes,
  /// from the weights in one slot to those in another, to the sum of its wave.
  void addChange(const StageState &stage, const Change &change, int64_t begin,
                 int64_t end) const;
  /// And makes the newest weights those that are shared, with `wave` of all
  /// workers and those before it, and its own waves since.
  void enqueuePull(unsigned stage, uint64_t wave);
  /// Of a shard: adds a wave of all workers, in their order.
  void enqueuePushes(unsigned stage, uint64_t wave);
  /// Whether a phase of `action` is the first B or W of its step in a stage
  /// where those write gradients. Asked once for each, in their order.
  bool isFirstWrite(const PlanAction &action, Phase phase);
  /// Whether parameters have changed since the stage's last P.
  bool needsPreparation(const PlanAction &action, uint64_t sequence);
  /// Gives each of the W that ran together a share of their time.
  void shareTimes(EnqueuedStep &over) const;
  /// Waits for an enqueued step and records what it did.
  void finishStep(EnqueuedStep &enqueued);
  /// Looks for gradients that are not finite, and lets all ranks gather what
  /// each has found.
  void enqueueFlagExchange();
  /// Clips the gradients of the rank's stages, and takes their norm over all
  /// ranks. The thread waits for what is on the streams, and for the others.
  void clipGradients(EnqueuedStep &into);
  /// Where the device has memory of its own: brings gradients to the host and
  /// waits, or back.
  void copyGradients(bool toHost);
  /// Calls `work` for each parameter of the rank's stages, in all its threads.
  void forParameters(
      const std::function<void(StageState &, const PlanTensor &)> &work);
  /// Without a flush, before the first backward pass of a step.
  void clearSums(const StageState &stage);
  /// Where a replica has no micro-batch of an update.
  void clearGradients(unsigned stage);
  /// Adds up the lanes of the stage's gradients and statistics, once in a step.
  void foldLanes(StageState &stage);
  /// Adds up this stage's part of the replicas' gradients and statistics, or
  /// the parts of its ties: `group` as of PlanSum.
  void enqueueSums(unsigned stage, unsigned group);
  /// Makes the compute stream wait until the stage's sums over replicas have
  /// left, before what is sent is changed.
  void waitForReplicas(unsigned stage);
  /// After the optimizer has made new weights of those in the place of the
  /// corrected ones: the mean of their changes, and corrected weights.
  void correct(const StageState &stage, int64_t begin, int64_t end) const;
  /// Makes the stage's learning rate that of its delay.
  void anneal(StageState &stage, uint64_t update, NumberArray &values) const;
  /// Of a micro-batch that a smaller step leaves out: the version after it is
  /// that before.
  void skipUpdate(StageState &stage, const Change &change);
  /// Gives the values of groups what kernels have set for all parameters.
  void shareScalars(const StageState &stage,
                    std::vector<NumberArray> &groups) const;
  /// The same on a GPU, with the values of groups in its memory.
  void placeGroupScalars(const StageState &stage,
                         const std::vector<NumberArray> &groups);
  void enqueueUpdate(const PlanAction &action, const Step &step,
                     uint64_t sequence);
  /// On a GPU: the optimizer's step.
  void runOptimizerKernels(const StageState &stage) const;
  /// Calls run(piece, thread) for each of so many pieces, in all threads of the
  /// rank, each of which takes what the others have left.
  void runPieces(unsigned pieces,
                 const std::function<void(unsigned, unsigned)> &run) const;
  /// The optimizer's step, in all threads of the rank. `groupScalars` by group
  /// of parameters.
  void optimize(StageState &stage, const char *scalars,
                const std::vector<NumberArray> &groupScalars,
                const Change &change);
  /// In thread `part`.
  void optimizeRange(StageState &stage, const UpdateRange &range,
                     const NumberArray &scalars, const Change &change,
                     unsigned part);
  /// Calls the optimizer's function for a range of bytes of the parameters at
  /// `weights`, and prepares what it has changed.
  void update(const StageState &stage, char *weights, int64_t begin,
              int64_t end, const char *scalars) const;
  /// After an update of a range of bytes: what is prepared of its parameters.
  void prepare(const StageState &stage, int64_t begin, int64_t end) const;
  /// What a parameter's step is multiplied by; changes the states of lamb, and
  /// `scalars`.
  double trustRatio(const StageState &stage, char *weights,
                    const UpdateRange &range, NumberArray &scalars) const;
  void callOptimizer(const StageState &stage, char *weights,
                     const char *gradients, int64_t begin, int64_t end,
                     const char *scalars) const;
  /// The step of a parameter along a direction that is not made of each
  /// gradient alone, by adafactor or muon. False: it has none.
  bool followDirection(const StageState &stage, char *weights,
                       const UpdateRange &range, NumberArray &scalars,
                       unsigned part) const;
  template <typename T>
  void followFactored(const StageState &stage, char *weights,
                      const UpdateRange &range, NumberArray &scalars) const;
  template <typename T>
  void followOrthogonal(const StageState &stage, char *weights,
                        const UpdateRange &range, NumberArray &scalars,
                        unsigned part) const;
  /// Writes bytes of the direction from `at` to `end`.
  using Direction = std::function<void(int64_t at, int64_t end, char *into)>;
  void followPieces(const StageState &stage, char *weights,
                    const UpdateRange &range, NumberArray &scalars,
                    double length, const Direction &direction) const;
  /// Before an update of a range of bytes: the weights to where it makes new
  /// ones, and to whatever needs the old ones after it.
  void beginChange(const StageState &stage, const Change &change, int64_t begin,
                   int64_t end) const;
  /// After it: what is kept of the difference.
  void endChange(const StageState &stage, const Change &change, int64_t begin,
                 int64_t end) const;
  /// Of a virtual worker: the weights before an update that is made in place.
  void keepWeights(const StageState &stage, const Change &change, int64_t begin,
                   int64_t end) const;

  State &state;
  unsigned index;
  bool isFirstHere; // of this process's ranks
  RankStreams streams;
  clockid_t computeClock{}; // valid with hasClock
  std::atomic<bool> hasClock{false};
  std::unique_ptr<Team> team;     // null: one thread
  std::vector<StageState> stages; // by stage of the plan; empty if elsewhere
  std::deque<PhaseCall> calls;
  /// By number of the step modulo the period; all as long as the plan's list.
  std::vector<unsigned> order;
  std::vector<std::vector<CompiledAction>> rounds; // each in `order`
  /// The last steps that were handed in: step i in [i % size]; null: a pause,
  /// or nothing yet.
  std::vector<Step *> recent;
  std::vector<unsigned> reductions; // channels that it sends through
  /// With a loss scale: for each rank, whether one of its gradients is not
  /// finite (1) or all are (0).
  DeviceMemory overflows;
  /// Where gradients are clipped and the device has memory of its own.
  std::unique_ptr<Event> gradientsCopied;
  EnqueuedStep enqueued[2]; // step i in enqueued[i % 2]
  std::atomic<uint64_t> stepsEnqueued{0};
};

struct Executor::State {
  State(Program &program, Options options)
      : program(program), options(std::move(options)) {}
  /// Whoever may still call fail() goes first.
  ~State() {
    failureHandle.reset();
    if (transport)
      transport->stop(isOrderly);
    if (!isOrderly)
      program.leaveShared();
  }

  Program &program;
  Options options;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<FlagExchange> flagExchange; // null without a loss scale
  /// Where the norm of gradients is wanted.
  std::optional<GradientNormPlan> gradientNorm;
  std::unique_ptr<ValueExchange> valueExchange;
  std::deque<Rank> ranks; // of this process
  std::vector<std::thread> threads;
  std::thread watchdog;

  std::mutex mutex;
  // Each wakes only those that wait for it: a wake-up costs microseconds.
  std::condition_variable submitted; // ranks wait for steps
  std::condition_variable completed; // the caller waits for ranks
  std::condition_variable ended;     // the watchdog waits for the end
  ProcessGroup::HandlerHandle failureHandle;
  unsigned lag = 0;   // Plan::largestLag(), or more
  unsigned spins = 0; // how often the caller looks before it sleeps
  /// How many steps and pauses are over.
  std::atomic<uint64_t> stepsOver{0};
  bool isFlushed = true; // the caller's
  // Under `mutex`:
  std::deque<Step *> steps; // submitted, not completed; pauses among them
  std::deque<Step> pauses;  // those in `steps`, in their order
  uint64_t firstStep = 0;   // sequence number of steps.front()
  unsigned ranksReady = 0;
  unsigned ranksRunning = 0; // threads that may still touch a step
  bool stopping = false;
  bool isOrderly = false;   // how it ends; written at the end
  std::exception_ptr error; // the first

  /// Starts everything; what has started when it throws goes on.
  void start();
  /// Throws where little memory is left: the library does not check whether it
  /// gets some for code. Any rank, all of them at a time.
  void requireHeadroom(const std::string &what) const;
  /// Queues a step or a pause. Under the mutex.
  void push(Step &step);
  /// A rank has done what it does when it is handed the `number`-th step or
  /// pause (from 0, over all). Returns whether any is over with that, of which
  /// waiters have to hear. Under the mutex.
  bool leave(uint64_t number);
  /// Records the error if it is the first and wakes everyone. Any thread.
  void fail(std::exception_ptr exception) noexcept;
  void watch();
  /// Tells process 0 the results of a step, and all whether any wants to stop.
  bool shareResults(Step &step, bool wantsToStop);
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_EXECUTORSTATE_H
