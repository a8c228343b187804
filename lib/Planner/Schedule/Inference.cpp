//===- Inference.cpp - Forward passes only --------------------------------===//
#include "PipelineBuilder.h"

using namespace pp::planner;

Result<Schedule> pp::planner::inferenceSchedule(PipelineShape shape) {
  return buildPipeline(shape, [&](int rank, std::vector<Action> &actions) {
    for (int i = 0; i < shape.microbatches; ++i)
      actions.push_back({ActionKind::Forward, rank, i});
  });
}
