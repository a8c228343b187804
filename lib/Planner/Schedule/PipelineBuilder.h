//===- PipelineBuilder.h - What generators share --------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H
#define PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H

#include "pp/Planner/Schedule/Generators.h"

namespace pp::planner {

/// Calls `fill(rank, actions)` for each rank of a pipeline with one stage per
/// rank. Fails for less than one stage or micro-batch, and for more than a
/// hundred million forwards: that is a mistyped number.
template <typename Fill>
Result<Schedule> buildPipeline(PipelineShape shape, const Fill &fill) {
  if (shape.stages < 1)
    return Failure{"a schedule needs at least 1 stage, not " +
                   std::to_string(shape.stages)};
  if (shape.microbatches < 1)
    return Failure{"a schedule needs at least 1 micro-batch, not " +
                   std::to_string(shape.microbatches)};
  if (int64_t(shape.stages) * shape.microbatches > 100000000)
    return Failure{std::to_string(shape.stages) + " stages and " +
                   std::to_string(shape.microbatches) +
                   " micro-batches are too many to schedule"};
  Schedule schedule;
  schedule.stages = shape.stages;
  schedule.microbatches = shape.microbatches;
  for (int rank = 0; rank < shape.stages; ++rank) {
    schedule.rankOfStage.push_back(rank);
    fill(rank, schedule.ranks.emplace_back());
  }
  return schedule;
}

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_PIPELINEBUILDER_H
