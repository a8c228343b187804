//===- ZeroBubbleH1.cpp - ZB-H1: weights fill the bubble of 1F1B ----------===//
#include "SplitBackward.h"

using namespace pp::planner;

Result<Schedule> pp::planner::zeroBubbleH1Schedule(PipelineShape shape) {
  return buildPipeline(shape, [&](int rank, std::vector<Action> &actions) {
    addSplitBackward(rank, shape.microbatches, shape.stages - rank, rank,
                     actions);
  });
}
