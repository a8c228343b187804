//===- BreadthFirst.cpp - Chunk by chunk, all micro-batches each ----------===//
#include "PipelineBuilder.h"

using namespace pp::planner;

Result<Schedule> pp::planner::breadthFirstSchedule(PipelineShape shape) {
  auto fill = [&](int rank, std::vector<Action> &actions) {
    int p = shape.rankCount(), m = shape.microbatches;
    for (int stage = rank; stage < shape.stages; stage += p)
      for (int i = 0; i < m; ++i)
        actions.push_back({ActionKind::Forward, stage, i});
    for (int stage = shape.stages - p + rank; stage >= 0; stage -= p)
      for (int i = 0; i < m; ++i)
        actions.push_back({ActionKind::Backward, stage, i});
    for (int stage = rank; stage < shape.stages; stage += p)
      actions.push_back({ActionKind::Update, stage});
  };
  return buildPipeline(shape, Placement::Loop, fill);
}
