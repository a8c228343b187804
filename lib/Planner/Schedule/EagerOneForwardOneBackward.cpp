//===- EagerOneForwardOneBackward.cpp - 1F1B that hides transfers ---------===//
#include "PipelineBuilder.h"
#include <algorithm>

using namespace pp::planner;

Result<Schedule>
pp::planner::eagerOneForwardOneBackwardSchedule(PipelineShape shape) {
  return buildPipeline(shape, [&](int rank, std::vector<Action> &actions) {
    int m = shape.microbatches;
    // One of them is the F of the first pair of 1F1B.
    int ahead = std::min(m, 2 * (shape.stages - 1 - rank) + 1);
    for (int i = 0; i < ahead; ++i)
      actions.push_back({ActionKind::Forward, rank, i});
    for (int i = 0; i < m; ++i) {
      actions.push_back({ActionKind::Backward, rank, i});
      if (i + ahead < m)
        actions.push_back({ActionKind::Forward, rank, i + ahead});
    }
    actions.push_back({ActionKind::Update, rank});
  });
}
