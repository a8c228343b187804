//===- PipelineBuilder.cpp - What generators share ------------------------===//
#include "PipelineBuilder.h"

using namespace pp::planner;

std::optional<std::string> pp::planner::checkShape(PipelineShape shape,
                                                   Placement placement) {
  auto number = [](int value) { return std::to_string(value); };
  if (shape.stages < 1)
    return "a schedule needs at least 1 stage, not " + number(shape.stages);
  if (shape.microbatches < 1)
    return "a schedule needs at least 1 micro-batch, not " +
           number(shape.microbatches);
  if (int64_t(shape.stages) * shape.microbatches > 100000000)
    return number(shape.stages) + " stages and " + number(shape.microbatches) +
           " micro-batches are too many to schedule";
  int ranks = shape.rankCount();
  if (ranks < 1)
    return "a schedule needs at least 1 rank, not " + number(ranks);
  std::string there = ", but there are " + number(shape.stages) +
                      " stages and " + number(ranks) + " ranks";
  switch (placement) {
  case Placement::OnePerRank:
    if (shape.stages != ranks)
      return "the schedule needs one stage per rank" + there;
    break;
  case Placement::Loop:
    if (shape.stages % ranks != 0)
      return "the schedule needs as many stages on each rank" + there;
    break;
  case Placement::V:
    if (shape.stages % 2 != 0 || shape.stages / 2 != ranks)
      return "the schedule needs two stages per rank" + there;
    break;
  }
  return std::nullopt;
}

Result<std::vector<int>> pp::planner::placeStages(PipelineShape shape,
                                                  Placement placement) {
  if (std::optional<std::string> fault = checkShape(shape, placement))
    return Failure{*fault};
  int ranks = shape.rankCount();
  std::vector<int> rankOfStage;
  for (int stage = 0; stage < shape.stages; ++stage)
    rankOfStage.push_back(placement == Placement::V && stage >= ranks
                              ? shape.stages - 1 - stage
                              : stage % ranks);
  return rankOfStage;
}
