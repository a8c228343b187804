//===- Objective.h - What a partition is judged by ------------------------===//
#ifndef PP_PLANNER_PARTITION_OBJECTIVE_H
#define PP_PLANNER_PARTITION_OBJECTIVE_H

#include <vector>

namespace pp::planner {

enum class Objective {
  /// The largest time of a stage per micro-batch.
  Time,
  /// The largest memory of a stage.
  Memory,
  /// The time of one flush: the sum of the stages' times + (micro-batches - 1)
  /// * the largest one (L. Zheng et al., "Alpa", OSDI 2022, section 5).
  FlushLatency,
  /// The largest of stages and links as in PipeDream's optimizer
  /// (D. Narayanan et al., SOSP 2019, section 3.1); see PipeDreamForm.
  PipeDream
};

enum class Communication {
  /// Transfers take the rank's time.
  Added,
  /// Transfers run beside the kernels: the larger of both counts.
  Overlapped,
  Ignored
};

/// How many micro-batches a stage has between their F and B.
enum class InFlightRule {
  /// inFlight[0] is the first stage's; the last entry counts for all after it.
  FromFirst,
  /// inFlight[0] is the last stage's; the last entry counts for all before it.
  FromLast,
  /// The replicas of this stage and of all later ones, over the replicas of
  /// this stage, rounded up: 1F1B with replicas (PipeDream, section 3.3).
  Replicas
};

/// Memory of a stage on each of its devices
///   = (parameterCopies + stashedCopies * (inFlight - 1)) * parameters
///     + inFlight * saved + largest workspace,
/// where inFlight - 1 counts as 0 if nothing is in flight.
struct MemoryModel {
  /// Parameters, gradients and optimizer states together, in parameters.
  double parameterCopies = 1;
  /// None means 1.
  std::vector<int> inFlight;
  InFlightRule rule = InFlightRule::FromFirst;
  /// Copies of the parameters for each micro-batch in flight but one: 1 with
  /// weight stashing.
  double stashedCopies = 0;

  /// By rule FromFirst or FromLast: `stage` counts from there.
  int inFlightOf(size_t stage) const {
    if (inFlight.empty())
      return 1;
    return inFlight[stage < inFlight.size() ? stage : inFlight.size() - 1];
  }
};

} // namespace pp::planner

#endif // PP_PLANNER_PARTITION_OBJECTIVE_H
