//===- Asynchronous.h - Schedules without a flush -------------------------===//
//
// Without a flush a mini-batch can meet other weights in its backward pass than
// in its forward pass, or in one stage than in another. So every action names
// the weight version that it reads or writes: version v of a stage are its
// weights after v updates.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_ASYNCHRONOUS_H
#define PP_PLANNER_SCHEDULE_ASYNCHRONOUS_H

#include "pp/Planner/Result.h"
#include "pp/Planner/Schedule/Action.h"
#include <string>
#include <vector>

namespace pp::planner {

struct VersionedAction {
  ActionKind kind = ActionKind::Forward; // Forward, Backward or Update.
  int stage = 0;
  /// Counted over all steps. Update: the last one whose gradient it has.
  int microbatch = 0;
  /// Forward and Backward: read. Update: written.
  int version = 0;

  bool operator==(const VersionedAction &) const = default;
};

/// Which version a pass reads.
enum class WeightRule {
  /// F the newest, B the same again, which is stashed until then (PipeDream).
  Stashing,
  /// As Stashing, but all stages read the version that stage 0 read.
  VerticalSync,
  /// The last but one, so that two versions are enough (PipeDream-2BW).
  DoubleBuffered,
  /// The newest, whatever it is (PipeMare).
  Latest,
  /// In all stages that with the updates of all micro-batches before the
  /// latest `microbatchesInFlight` (WSP, of one virtual worker).
  Waves
};

struct AsynchronousSchedule {
  WeightRule rule = WeightRule::Stashing;
  int stages = 0;
  int microbatches = 0; // Over all steps.
  /// Micro-batches of a replica per update.
  int microbatchesPerUpdate = 1;
  /// Ranks that run a stage; micro-batch i goes to the one with number i modulo
  /// their number. Their updates are the same: they add up their gradients.
  std::vector<std::vector<int>> ranksOfStage;
  std::vector<std::vector<VersionedAction>> ranks;
  /// Only under Waves: the micro-batches of a wave.
  int microbatchesInFlight = 1;
};

/// 1F1B without a flush and with replicas (1F1B-RR): Narayanan et al.,
/// "PipeDream", SOSP 2019, and its runtime. `replicas[s]` ranks run stage s; an
/// update follows every B. With N ranks in all, a replica of stage s starts
/// with
///   w_s = floor((N - 1 - sum over j < s of replicas[j]) / replicas[s])
/// forwards and keeps w_s + 1 versions. `verticalSync` needs one replica per
/// stage; every stage then keeps as many versions as stage 0. Fails if the
/// replicas of a stage would not get equally many mini-batches.
Result<AsynchronousSchedule> pipeDreamSchedule(const std::vector<int> &replicas,
                                               int minibatches,
                                               bool verticalSync = false);

/// PipeDream-2BW (Narayanan et al., ICML 2021): an update per
/// `microbatchesPerUpdate` micro-batches, at least as many as stages;
/// micro-batch k (from 0) reads version max(floor(k / m) - 1, 0) in F and B.
Result<AsynchronousSchedule>
doubleBufferedSchedule(int stages, int microbatchesPerUpdate, int updates);

/// PipeMare (Yang et al., MLSys 2021): nothing is stashed. The first
/// `synchronousUpdates` updates are flushed (its technique T3).
Result<AsynchronousSchedule> pipeMareSchedule(int stages,
                                              int microbatchesPerUpdate,
                                              int updates,
                                              int synchronousUpdates);

/// Proves: every micro-batch runs F, then B, once per stage and on its replica;
/// every version that is read has been written, and is the one that the rule
/// says; updates follow each other and their gradients; at most two versions
/// live under DoubleBuffered; the lists complete, where replicas wait for each
/// other in their updates. Returns all faults of the first kind that has any.
/// O(actions).
std::vector<std::string> verifyVersions(const AsynchronousSchedule &schedule);

/// The most versions that each rank must keep at once: the newest and all that
/// are still to be read. Needs a verified schedule. O(actions).
std::vector<int> keptVersions(const AsynchronousSchedule &schedule);

/// The closed formula for pipeDreamSchedule: ceil((N - sum over j < stage of
/// replicas[j]) / replicas[stage]).
int pipeDreamVersions(const std::vector<int> &replicas, int stage);

//===----------------------------------------------------------------------===//
// PipeMare's formulas. Delays are in updates.
//===----------------------------------------------------------------------===//

/// (2 (stages - 1 - stage) + 1) / microbatchesPerUpdate, with stages from 0.
double pipeMareForwardDelay(int stage, int stages, int microbatchesPerUpdate);

/// The largest stable learning rate on a quadratic of the given curvature with
/// gradients that are `delay` updates old: 2 / curvature sin(pi / (4 delay +
/// 2)).
double largestStableLearningRate(double curvature, double delay);

/// T1: `base` / delay^(1 - min(update / annealing, 1)). Delays below 1 count as
/// 1: they need no smaller rate.
double pipeMareLearningRate(double base, double delay, int update,
                            int annealing);

/// T2: the weights for the backward pass follow from the newest by the mean of
/// their latest changes. `decay` is about exp(-2).
class DiscrepancyCorrection {
public:
  DiscrepancyCorrection(double forwardDelay, double backwardDelay,
                        double decay);
  /// After an update that changed a weight by `change`.
  void update(double change) { mean = keep * mean + (1 - keep) * change; }
  /// What the forward pass had, as far as is known.
  double apply(double weight) const { return weight - distance * mean; }

private:
  double distance, keep, mean = 0;
};

//===----------------------------------------------------------------------===//
// Wave synchronous parallelism (Park et al., "HetPipe", USENIX ATC 2020).
//===----------------------------------------------------------------------===//

/// Virtual workers, each a pipeline with `localStaleness` + 1 mini-batches in
/// flight: a wave. After wave c a worker pushes its sum of updates; its clock
/// is then c + 1.
struct WaveRule {
  int localStaleness = 0;
  int clockDistance = 0;

  int waveSize() const { return localStaleness + 1; }
  /// Mini-batches (from 0) that a worker must have finished to start this one.
  int localVersion(int minibatch) const;
  /// The clock that all workers must have reached before: the own clock less
  /// the distance.
  int requiredClock(int minibatch) const;
  /// The most mini-batches before its own that another worker's update may be
  /// missing from a mini-batch's weights:
  /// (D + 1) (s + 1) + s - 1.
  int stalenessBound() const;
};

/// One start of a mini-batch in a run of several workers.
struct WaveStart {
  int worker = 0, minibatch = 0;
  /// Own mini-batches, and waves of all workers, in the weights that it reads.
  int localVersion = 0, globalClock = 0;
  double time = 0;
};

/// Runs workers that take `secondsPerMinibatch[w]` per mini-batch and a latency
/// of as much times `stages` under the rule. Starts are in the order of time.
/// Fails if there is no worker, or a time is not above 0.
Result<std::vector<WaveStart>>
simulateWaves(const WaveRule &rule,
              const std::vector<double> &secondsPerMinibatch, int stages,
              int minibatches);

/// Proves of a run, given in any order per worker: all start in order, the
/// weights have what the rule demands, no worker is ahead by more than the
/// distance, and no mini-batch misses more than the bound.
std::vector<std::string> verifyWaves(const WaveRule &rule,
                                     const std::vector<WaveStart> &starts);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_ASYNCHRONOUS_H
