//===- PlanSearch.h - Find the best plan ----------------------------------===//
//
// Searches over
//   micro-batches x replicas x ranks x stages per rank x partition
//     x schedule x recompute
// and simulates what is left after pruning. Partitions come from
// partitionGraph, with the objective Time and, for the best shapes of graphs
// that are not too large, FlushLatency: the cut that is best for one schedule
// may not be for another. Where some links are faster than others, replicas are
// placed both ways: those of a stage side by side, and whole pipelines side by
// side. Where a plan does not fit into the memory, the
// partition is searched again under the limit, with the slots that its schedule
// needs. The cuts of the best plans are then moved, kernel by kernel, as long
// as that shortens the simulated step: unequal stages at the ends can be better
// than equal ones.
//
// Guarantee. Every candidate is simulated and checked with its own times,
// links and memory. `lowerBound` holds for every plan of this space and every
// other partition and order: the work on all devices at once. The search
// itself is a heuristic: partitions are optimal for their objective, not for
// the step's time.
//
// Pruning. Shapes are tried in the order of what a flush of equal stages would
// take. One is not partitioned if the work over its devices, or the longest
// path of a micro-batch, is not below the best step found, or if its parameters
// are more than its devices hold; a candidate whose own lower bound
// (stepLowerBound) is not below is not simulated; and recomputation is tried
// only where a plan with less of it does not fit. None of these could have won.
// Orders ("auto") are searched last, for the cuts with the smallest bounds;
// `unsearched` counts the cuts for which that was not done.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_PLANSEARCH_H
#define PP_PLANNER_PLANSEARCH_H

#include "pp/Planner/Partition/GraphPartitioner.h"
#include "pp/Planner/PlanEvaluation.h"
#include <limits>

namespace pp::planner {

/// The kernels' times and sizes depend on the size of a micro-batch.
struct MicrobatchGraph {
  /// Of a step, over all replicas.
  int microbatches = 1;
  Graph graph;
};

struct PlanSpace {
  bool training = true;
  int64_t batch = 1; // Samples of a step.
  /// What reads several samples of a micro-batch, as in "'bn1' normalises over
  /// them": then another number of micro-batches is another training. Empty:
  /// nothing does.
  std::string mixing;
  std::vector<MicrobatchGraph> graphs;
  const Cluster *cluster = nullptr;
  /// Ranks of a pipeline, that is devices times 1 / replicas. 0: all devices.
  int minRanks = 1, maxRanks = 0;
  /// Plans on fewer devices are left out: the times are not theirs.
  int minDevices = 1;
  /// Stages of a rank in schedules that allow several.
  int maxStagesPerRank = 2;
  /// Names of makeSchedule and "auto" (searchSchedule); one that does not fit a
  /// shape is left out there. Empty: all that fit the direction.
  std::vector<std::string> schedules;
  std::vector<CheckpointMode> checkpoints = {CheckpointMode::Never};
  /// Data parallelism around the pipeline.
  bool replicate = true;
  /// The cuts of so many of the best plans are moved, and those of the best
  /// plan of each schedule.
  size_t refined = 4;
  /// Orders are searched for so many cuts.
  size_t searches = 12;
  /// Parameters, gradients and optimizer states together, in parameters.
  double parameterCopies = 1;
  /// Of the optimizer's step, per byte of parameters.
  double updateSecondsPerByte = 0;
  /// When to stop, and what is called every few milliseconds.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  std::function<void(const PartitionProgress &)> report = {};
};

struct PlanCandidate {
  PipelinePlan plan;
  /// Index into PlanSpace::graphs.
  size_t graph = 0;
  /// What to evaluate or explain again; `graph` and `cluster` point into the
  /// space.
  PlanDraft draft;
  /// Why it cannot run: a rank's memory. Empty: it can.
  std::optional<std::string> overflow;
  /// Of the partition, for its objective.
  double partitionGap = 0;
  bool partitionExact = false;
  /// Both hold if all links were as slow as the slowest one. The step is
  /// simulated with all as they are.
  bool assumesAlikeLinks = false;
  /// Kernels that were moved over a cut afterwards, since the simulated step
  /// got shorter.
  size_t movedKernels = 0;
};

struct PlanSearchResult {
  /// Those that fit first, the fastest first; no plan twice. Never empty.
  std::vector<PlanCandidate> candidates;
  /// Seconds; no plan for these graphs on these devices takes less.
  double lowerBound = 0;
  /// Candidates that were pruned, and shapes that could not be partitioned
  /// with the first reason.
  size_t pruned = 0;
  size_t unsearched = 0;
  /// The deadline came before the end of the search: another run may find
  /// another plan. `skipped` shapes were not looked at.
  bool outOfTime = false;
  size_t skipped = 0;
  /// Candidates that were simulated and turned out to be another one with
  /// another name: a searched order may be that of a schedule by name.
  size_t duplicates = 0;
  std::vector<std::string> failures;
};

/// Fails if there is nothing to search or no shape can be partitioned.
Result<PlanSearchResult> searchPlans(const PlanSpace &space);

/// What else was possible at one cut.
struct CutAlternative {
  int stage = 0; // The cut before this stage.
  /// The kernels that would change sides, and where they would go.
  std::vector<size_t> kernels;
  int to = 0;
  /// Of the whole plan with this change.
  double step = 0;
  std::optional<std::string> overflow;
};

/// For each cut: the step's time if the kernels next to it moved over, up to
/// `reach` of them in either direction, as far as dependencies allow. Those of
/// a training step that cannot take less than `limit` seconds are left out.
std::vector<CutAlternative>
explainCuts(const PlanCandidate &candidate, int reach = 2,
            double limit = std::numeric_limits<double>::infinity());

} // namespace pp::planner

#endif // PP_PLANNER_PLANSEARCH_H
