//===- ZeroBubbleH2.cpp - ZB-H2: a longer warm-up, and no bubble ----------===//
#include "SplitBackward.h"

using namespace pp::planner;

Result<Schedule> pp::planner::zeroBubbleH2Schedule(PipelineShape shape) {
  return buildPipeline(shape, [&](int rank, std::vector<Action> &actions) {
    addSplitBackward(rank, shape.microbatches, 2 * (shape.stages - rank) - 1,
                     2 * rank, actions);
  });
}
