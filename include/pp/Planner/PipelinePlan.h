//===- PipelinePlan.h - What the planner answers --------------------------===//
#ifndef PP_PLANNER_PIPELINEPLAN_H
#define PP_PLANNER_PIPELINEPLAN_H

#include "pp/Planner/Result.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Schedule.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pp::planner {

/// Where one kernel of the graph goes.
struct PlacedKernel {
  /// As in the graph; names may repeat, so the order counts too.
  std::string name;
  int stage = 0;
};

struct PlanStage {
  /// One per replica, by name.
  std::vector<std::string> devices;
  /// Seconds of one micro-batch.
  double forward = 0, backwardInput = 0, backwardWeight = 0;
  int64_t parameterBytes = 0;
  /// What one micro-batch keeps from its forward to its backward pass.
  int64_t savedBytes = 0;
};

struct PlanPrediction {
  /// Seconds of a step. In training from its start to the last end, with the
  /// gradients' all-reduce where stages have replicas. Steps of inference need
  /// nothing of each other: there it is the period.
  double step = 0;
  /// Seconds from the inputs of a step to its last result; 0: not known.
  double latency = 0;
  /// Seconds per step when steps follow each other (stepPeriod); 0: not known.
  double period = 0;
  /// Seconds of the longest rank, from its first to its last action.
  double span = 0;
  /// Idle share of all ranks until the step's end (makespan), and of the
  /// longest rank within its span.
  double bubble = 0, spanBubble = 0;
  /// Samples per second.
  double throughput = 0;
  /// Bytes per rank.
  std::vector<int64_t> peakBytes;
  /// No order of this partition's actions takes less time.
  double lowerBound = 0;
};

/// A partition, a schedule and what is expected of them: what pp-plan finds and
/// pp-compile follows. docs/plan.md has the JSON form.
struct PipelinePlan {
  /// Stem of the model's file; "" for a saved problem.
  std::string model;
  bool training = true;
  /// Samples of a step, over all replicas.
  int64_t batch = 0;
  CheckpointMode checkpoint = CheckpointMode::Never;
  /// A name of makeSchedule, or how a search found it. Informative.
  std::string scheduleName;
  /// Computations only, of one replica, without R and without channels. Where
  /// stages have unequal numbers of replicas, of all of them: then its parts
  /// are the stages of the plan.
  Schedule schedule;
  /// Replicas of every stage: data parallelism around the pipeline. 1 where the
  /// schedule has replicas.
  int replicas = 1;
  /// That compute each kernel of a rank together.
  int threads = 1;
  /// In the order of the graph.
  std::vector<PlacedKernel> kernels;
  std::vector<PlanStage> stages;
  PlanPrediction predicted;

  /// Micro-batches of a step, over all replicas.
  int microbatches() const { return schedule.microbatches * replicas; }
  /// By stage, where they are not equal; else empty.
  std::vector<int> stageReplicas() const;
  /// "2", or "3,1".
  std::string describeReplicas() const;

  /// Errors name the JSON path. The schedule is parsed, not verified.
  static Result<PipelinePlan> fromJson(std::string_view text);
  /// Keys in a fixed order; fromJson gives back an equal plan.
  std::string toJson() const;
};

} // namespace pp::planner

#endif // PP_PLANNER_PIPELINEPLAN_H
