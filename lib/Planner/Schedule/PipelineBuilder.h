//===- PipelineBuilder.h - What generators share --------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H
#define PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H

#include "pp/Planner/Schedule/Generators.h"
#include <optional>

namespace pp::planner {

/// Which stages a rank has.
enum class Placement {
  /// Rank r has stage r.
  OnePerRank,
  /// Rank r of p has the stages r, p + r, 2 p + r, ...
  Loop,
  /// Rank r of p has the stages r and 2 p - 1 - r.
  V
};

/// The reason why there is no schedule of this shape, or nothing. More than a
/// hundred million forwards are a mistyped number.
std::optional<std::string> checkShape(PipelineShape shape, Placement placement);

/// Calls `fill(rank, actions)` for each rank, or fails as checkShape says.
template <typename Fill>
Result<Schedule> buildPipeline(PipelineShape shape, Placement placement,
                               const Fill &fill) {
  if (std::optional<std::string> fault = checkShape(shape, placement))
    return Failure{*fault};
  int ranks = shape.rankCount();
  Schedule schedule;
  schedule.stages = shape.stages;
  schedule.microbatches = shape.microbatches;
  for (int stage = 0; stage < shape.stages; ++stage)
    schedule.rankOfStage.push_back(placement == Placement::V && stage >= ranks
                                       ? shape.stages - 1 - stage
                                       : stage % ranks);
  for (int rank = 0; rank < ranks; ++rank)
    fill(rank, schedule.ranks.emplace_back());
  return schedule;
}

template <typename Fill>
Result<Schedule> buildPipeline(PipelineShape shape, const Fill &fill) {
  return buildPipeline(shape, Placement::OnePerRank, fill);
}

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H
