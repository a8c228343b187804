//===- PipelineBuilder.h - What generators share --------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H
#define PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H

#include "pp/Planner/Schedule/Generators.h"
#include <optional>

namespace pp::planner {

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
  schedule.rankOfStage = *placeStages(shape, placement);
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
