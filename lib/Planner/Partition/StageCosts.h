//===- StageCosts.h - What a stage costs ----------------------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_STAGECOSTS_H
#define PP_LIB_PLANNER_PARTITION_STAGECOSTS_H

#include "pp/Planner/Partition/ChainPartitioner.h"
#include <algorithm>

namespace pp::planner {

/// The one place where the parts of a stage are put together to its cost.
struct StageCosts {
  explicit StageCosts(const ChainProblem &problem);

  const ChainProblem &problem;
  /// Seconds that each value takes to be sent, with its gradient.
  std::vector<double> transfer;
  std::vector<double> speed; // Per stage.

  double memory(size_t stage, double parameterBytes, double savedBytes,
                double workspaceBytes) const {
    return problem.memory.parameterCopies * parameterBytes +
           problem.memory.inFlightOf(stage) * savedBytes + workspaceBytes;
  }

  /// `time` is on a device of speed 1.
  double cost(size_t stage, double time, double communication,
              double memoryBytes) const {
    if (problem.objective == Objective::Memory)
      return memoryBytes;
    switch (problem.communication) {
    case Communication::Added:
      return time / speed[stage] + communication;
    case Communication::Overlapped:
      return std::max(time / speed[stage], communication);
    case Communication::Ignored:
      return time / speed[stage];
    }
    return 0;
  }

  bool fits(size_t stage, double memoryBytes) const {
    return !problem.limitMemory ||
           memoryBytes <=
               static_cast<double>(problem.cluster->devices[stage].memoryBytes);
  }

  /// A part of every stage's cost that sums up over its kernels: nothing that
  /// has kernel `index` costs less than weight(index).
  double weight(size_t index) const;
  double lowerBound() const;

  /// Costs of the stages between `boundaries` (0, cuts, n), from scratch.
  std::vector<StageSummary>
  summarize(const std::vector<size_t> &boundaries) const;

private:
  double fastest = 0, totalSpeed = 0;
  int leastInFlight = 0;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PARTITION_STAGECOSTS_H
