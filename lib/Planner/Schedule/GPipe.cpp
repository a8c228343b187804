//===- GPipe.cpp - All forwards, then all backwards -----------------------===//
#include "PipelineBuilder.h"

using namespace pp::planner;

Result<Schedule> pp::planner::gpipeSchedule(PipelineShape shape) {
  return buildPipeline(shape, [&](int rank, std::vector<Action> &actions) {
    for (ActionKind kind : {ActionKind::Forward, ActionKind::Backward})
      for (int i = 0; i < shape.microbatches; ++i)
        actions.push_back({kind, rank, i});
    actions.push_back({ActionKind::Update, rank});
  });
}
