//===- PlanEvaluation.h - What a plan costs -------------------------------===//
#ifndef PP_PLANNER_PLANEVALUATION_H
#define PP_PLANNER_PLANEVALUATION_H

#include "pp/Planner/Cluster.h"
#include "pp/Planner/Graph.h"
#include "pp/Planner/PipelinePlan.h"
#include "pp/Planner/Simulator.h"
#include <memory>

namespace pp::planner {

/// A partition with its schedule, before anything is known of its cost.
struct PlanDraft {
  const Graph *graph = nullptr;
  const Cluster *cluster = nullptr;
  std::vector<int> stageOf; // Per kernel.
  /// Per stage, one device per replica. Replica r of the pipeline consists of
  /// entry r of each stage.
  std::vector<std::vector<size_t>> devices;
  /// Computations of one replica, without R, and without channels; or, where
  /// stages have unequal numbers of replicas, of all: then its parts are the
  /// stages here.
  Schedule schedule;
  CheckpointMode checkpoint = CheckpointMode::Never;
  /// Parameters, gradients and optimizer states together, in parameters.
  double parameterCopies = 1;
  /// Of the optimizer's step, per byte of parameters.
  double updateSecondsPerByte = 0;

  /// Of a stage of the schedule.
  int partOf(int stage) const { return schedule.replicaOf(stage).part; }
  std::vector<size_t> devicesOf(int stage) const {
    if (schedule.replicas.empty())
      return devices[stage];
    const Replica &replica = schedule.replicas[stage];
    return {devices[replica.part][replica.number]};
  }
};

struct StageLoad {
  /// Seconds on the slowest of its devices; the update is the all-reduce of
  /// its replicas and the optimizer's step.
  StageTimes times;
  int64_t parameterBytes = 0, savedBytes = 0;
  int64_t workspaceBytes = 0;
  /// What P leaves.
  int64_t preparedBytes = 0;
  /// Micro-batches whose residuals it keeps at once, and the bytes of its
  /// channels' buffers.
  int slots = 0;
  int64_t channelBytes = 0;
  /// All of it, in bytes.
  int64_t memoryBytes = 0;
};

struct PlanEvaluation {
  std::vector<StageLoad> stages;
  /// With R, transfers and channels.
  Schedule schedule;
  /// Sends wait for their slots, as in the runtime.
  std::shared_ptr<const SlotAssignment> slots;
  SimulationInput input;
  Simulation simulation;
  /// Seconds of a step: see PlanPrediction.
  double step = 0;
  /// Per rank: the sum over its stages.
  std::vector<int64_t> peakBytes;
  /// See PlanPrediction.
  double lowerBound = 0;
  /// The first rank that needs more than its device has, as a sentence.
  std::optional<std::string> overflow;

  /// Of all ranks in a step.
  double idleShare() const;
};

/// The values of `graph` that cross between stages, directly from the stage
/// that makes them to each that reads them, and their gradients back.
std::vector<Channel> crossingChannels(const Graph &graph,
                                      const std::vector<int> &stageOf,
                                      bool training);

/// Measured for the device's kind, or over its speed.
KernelTimes timesOn(const Kernel &kernel, const Device &device);

/// Times and sizes of each stage of a draft; slots, channels and memory are 0.
std::vector<StageLoad> stageLoads(const PlanDraft &draft);

/// Seconds per channel of `schedule`, over the slowest of the replicas' links.
std::vector<double> channelTimes(const PlanDraft &draft,
                                 const std::vector<Channel> &channels);

/// Seconds per channel of `schedule` that either end is busy with a value, over
/// the worst of the replicas' links.
std::vector<double> overheadTimes(const PlanDraft &draft,
                                  const std::vector<Channel> &channels);

/// Seconds per channel of `schedule` until a sender knows that a slot is free:
/// the latency of the slowest of the replicas' links back.
std::vector<double> releaseTimes(const PlanDraft &draft,
                                 const std::vector<Channel> &channels);

/// Simulates the draft and counts its memory: the parameters with their copies,
/// what is prepared, residuals and channel buffers by the slots that the
/// schedule needs, and the largest workspace. Fails if the schedule cannot run.
/// Memory that does not fit is no failure, see `overflow`.
Result<PlanEvaluation> evaluatePlan(const PlanDraft &draft);

/// Seconds that no training schedule of the draft's stages and ranks undercuts;
/// its actions are not read.
double stepLowerBound(const PlanDraft &draft);

/// The plan for a draft and its evaluation. `batch` is in samples.
PipelinePlan makePlan(const PlanDraft &draft, const PlanEvaluation &evaluation,
                      int64_t batch, std::string scheduleName);

} // namespace pp::planner

#endif // PP_PLANNER_PLANEVALUATION_H
