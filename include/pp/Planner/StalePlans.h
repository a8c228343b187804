//===- StalePlans.h - Plans without a flush -------------------------------===//
#ifndef PP_PLANNER_STALEPLANS_H
#define PP_PLANNER_STALEPLANS_H

#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/Schedule/Asynchronous.h"

namespace pp::planner {

/// A pipeline that trains without a flush, with what it changes and costs.
struct StalePlan {
  /// A name of makeRollingSchedule.
  std::string scheduleName;
  /// Index into PlanSpace::graphs.
  size_t graph = 0;
  PlanDraft draft;
  /// Virtual workers, each of which is such a pipeline; 1 where there are none.
  int workers = 1;
  /// With the slots that its schedule needs; `slots` of the loads are those of
  /// residuals.
  std::vector<StageLoad> stages;
  /// Seconds per update in the steady state, and the busy share of all ranks.
  double step = 0, utilization = 0;
  /// By stage: gradientDelay.
  std::vector<double> delays;
  /// Bytes of each rank, weight versions among them.
  std::vector<int64_t> peakBytes;
  /// The first rank that needs more than its device has, as a sentence.
  std::optional<std::string> overflow;
};

/// Times a draft whose schedule has no flush, one stage per rank, and counts
/// its memory. Of virtual workers the draft is one, and the slowest link of as
/// many devices as all have carries what they push and pull. Fails if the
/// schedule cannot run.
Result<StalePlan> evaluateStalePlan(const PlanDraft &draft, WeightRule rule,
                                    int workers = 1);

/// For each schedule without a flush the plan with the least time per update
/// among all numbers of micro-batches and of ranks of the space, each with the
/// cut whose slowest stage is shortest; the fastest first. Replicas and
/// recomputation are not tried, and virtual workers, two or more with this
/// clock distance, only where all devices are alike. What fits into no memory
/// comes last.
std::vector<StalePlan> findStalePlans(const PlanSpace &space,
                                      int clockDistance = 0);

} // namespace pp::planner

#endif // PP_PLANNER_STALEPLANS_H
