//===- ZeroBubbleV.cpp - ZB-V: no bubble at the memory of 1F1B ------------===//
//
// The order is defined for at least 2 p - 1 micro-batches. What is beyond m is
// left out: no micro-batch waits for another, so that the rest stays right.
//
//===----------------------------------------------------------------------===//
#include "VRank.h"
#include <algorithm>

using namespace pp::planner;

static void addZeroBubbleRank(int rank, int ranks, int microbatches,
                              std::vector<Action> &actions) {
  VRank v(rank, ranks, actions);
  auto backward = [&](int chunk) {
    v.input(chunk);
    v.weight(chunk);
  };
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i)
    v.forward(0);
  for (int i = 0; i < rank; ++i) {
    v.forward(1);
    v.forward(0);
  }
  for (int i = 0; i < ranks - rank; ++i) {
    v.forward(1);
    backward(1);
  }
  while (v.forwards(1) < microbatches) {
    if (v.forwards(0) < microbatches)
      v.forward(0);
    backward(0);
    v.forward(1);
    backward(1);
  }
  // Gradients first, for the ranks that wait for them.
  for (int i = 0; i < rank; ++i) {
    v.input(0);
    v.input(1);
  }
  for (int i = 0; i < ranks - rank; ++i)
    backward(0);
  for (int chunk : {1, 0})
    while (v.weights(chunk) < microbatches)
      v.weight(chunk);
  v.update();
}

Result<Schedule> pp::planner::zeroBubbleVSchedule(PipelineShape shape) {
  if (std::optional<std::string> fault = checkShape(shape, Placement::V))
    return Failure{*fault};
  PipelineShape large = shape;
  large.microbatches = std::max(shape.microbatches, shape.stages - 1);
  Result<Schedule> result = buildPipeline(
      large, Placement::V, [&](int rank, std::vector<Action> &actions) {
        addZeroBubbleRank(rank, shape.rankCount(), large.microbatches, actions);
      });
  if (!result)
    return result;
  result->microbatches = shape.microbatches;
  for (std::vector<Action> &rank : result->ranks)
    std::erase_if(rank, [&](const Action &action) {
      return action.microbatch >= shape.microbatches;
    });
  return result;
}
