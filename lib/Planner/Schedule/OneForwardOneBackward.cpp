//===- OneForwardOneBackward.cpp - 1F1B with a flush ----------------------===//
#include "PipelineBuilder.h"
#include <algorithm>

using namespace pp::planner;

Result<Schedule>
pp::planner::oneForwardOneBackwardSchedule(PipelineShape shape) {
  return buildPipeline(shape, [&](int rank, std::vector<Action> &actions) {
    int m = shape.microbatches;
    int warmup = std::min(m, shape.stages - 1 - rank);
    for (int i = 0; i < warmup; ++i)
      actions.push_back({ActionKind::Forward, rank, i});
    for (int i = warmup; i < m; ++i) {
      actions.push_back({ActionKind::Forward, rank, i});
      actions.push_back({ActionKind::Backward, rank, i - warmup});
    }
    for (int i = m - warmup; i < m; ++i)
      actions.push_back({ActionKind::Backward, rank, i});
    actions.push_back({ActionKind::Update, rank});
  });
}
