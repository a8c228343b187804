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
  /// Of the schedule, with the slots that it needs; `slots` of the loads are
  /// those of residuals.
  std::vector<StageLoad> stages;
  /// Seconds per update in the steady state, and the busy share of all ranks.
  double step = 0, utilization = 0;
  /// By stage of the schedule: gradientDelay.
  std::vector<double> delays;
  /// Bytes of each rank, weight versions among them.
  std::vector<int64_t> peakBytes;
  /// The first rank that needs more than its device has, as a sentence.
  std::optional<std::string> overflow;
};

/// Times a draft whose schedule has no flush, one stage per rank, and counts
/// its memory; with replicas, its devices are those of the parts. Of virtual
/// workers the draft is one, and the slowest link of as many devices as all
/// have carries what they push and pull. Fails if the schedule cannot run.
Result<StalePlan> evaluateStalePlan(const PlanDraft &draft, WeightRule rule,
                                    int workers = 1);

/// For each schedule without a flush the plan with the least time per update
/// among all numbers of micro-batches and of ranks of the space, each with the
/// cut whose slowest stage is shortest; the fastest first. Recomputation is not
/// tried. Virtual workers, two or more with this clock distance, and another
/// plan of pipedream with replicas of stages on all devices, only where all
/// devices are alike, the latter only where no batch norm is trained. What fits
/// into no memory comes last.
std::vector<StalePlan> findStalePlans(const PlanSpace &space,
                                      int clockDistance = 0);

} // namespace pp::planner

#endif // PP_PLANNER_STALEPLANS_H
