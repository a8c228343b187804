//===- PipelineModel.h - A pipeline as tables of numbers ------------------===//
//
// What the list scheduler, the decoder and the local improvement share: times,
// who waits for whom, and bytes, looked up without conditions.
//
//===----------------------------------------------------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_PIPELINEMODEL_H
#define PP_LIB_PLANNER_SCHEDULE_PIPELINEMODEL_H

#include "pp/Planner/Schedule/Schedule.h"
#include "pp/Planner/Simulator.h"
#include <algorithm>
#include <array>

namespace pp::planner {

constexpr int phaseCount = 3;
/// The time of what is not done.
constexpr double never = -1;

struct PipelineModel {
  /// A value from another stage, which arrives `delay` after it is made.
  struct Edge {
    Phase phase;
    int stage;
    double delay;
  };

  /// When actions end, or `never`; by phase, then index(stage, micro-batch).
  using EndTimes = std::array<std::vector<double>, phaseCount>;

  int stages = 0, microbatches = 0;
  std::vector<int> rankOfStage;
  std::vector<std::vector<int>> stagesOfRank;
  std::array<std::vector<double>, phaseCount> duration; // By stage.
  std::array<std::vector<std::vector<Edge>>, phaseCount> incoming;
  std::vector<double> update; // By stage.
  /// Ranks that read a value of this one.
  std::vector<std::vector<int>> readers;
  /// By stage: bytes kept per micro-batch from F to I, and from I to W.
  std::vector<int64_t> forwardBytes, weightBytes;
  std::vector<int64_t> capacity; // By rank.

  int ranks() const { return static_cast<int>(stagesOfRank.size()); }
  size_t index(int stage, int microbatch) const {
    return size_t(stage) * microbatches + microbatch;
  }
  double time(Phase phase, int stage) const {
    return duration[static_cast<size_t>(phase)][stage];
  }
  const std::vector<Edge> &inputs(Phase phase, int stage) const {
    return incoming[static_cast<size_t>(phase)][stage];
  }
  /// When all inputs of an action have arrived, or `never` while one is not
  /// made.
  double ready(const EndTimes &endAt, Phase phase, int stage,
               int microbatch) const {
    double at = 0;
    for (const Edge &edge : inputs(phase, stage)) {
      double made =
          endAt[static_cast<size_t>(edge.phase)][index(edge.stage, microbatch)];
      if (made < 0)
        return never;
      at = std::max(at, made + edge.delay);
    }
    return at;
  }
  /// What an action adds to the bytes of its rank.
  int64_t growth(Phase phase, int stage) const {
    switch (phase) {
    case Phase::Forward:
      return forwardBytes[stage];
    case Phase::BackwardInput:
      return weightBytes[stage] - forwardBytes[stage];
    case Phase::BackwardWeight:
      return -weightBytes[stage];
    case Phase::Update:
    case Phase::Prepare:
      break;
    }
    return 0;
  }
  /// The bytes of a rank with which one micro-batch can always go on: all its
  /// stages, and what an I may add before its W.
  int64_t leastCapacity(int rank) const;
};

/// Times and channels of `input` and `schedule` (of which the lists are not
/// read), no limit of memory.
PipelineModel buildModel(const Schedule &schedule,
                         const SimulationInput &input);

/// See Simulator.h.
LowerBounds lowerBounds(const PipelineModel &model);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_PIPELINEMODEL_H
