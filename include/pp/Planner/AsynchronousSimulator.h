//===- AsynchronousSimulator.h - Time and memory without a flush ----------===//
#ifndef PP_PLANNER_ASYNCHRONOUSSIMULATOR_H
#define PP_PLANNER_ASYNCHRONOUSSIMULATOR_H

#include "pp/Planner/Schedule/Asynchronous.h"
#include "pp/Planner/Simulator.h"

namespace pp::planner {

struct AsynchronousInput {
  /// Seconds of one micro-batch, one entry per stage or one for all. B takes
  /// both backward times; `update` is the all-reduce of the replicas with the
  /// optimizer's step. No recompute.
  std::vector<StageTimes> stages;
  /// Seconds from stage s to s + 1 and back: one entry per border, one for all,
  /// or none for 0. Sends wait for nobody and take no rank's time.
  std::vector<double> transfers = {};
};

struct TimedVersion {
  VersionedAction action;
  double start = 0, end = 0;
};

struct AsynchronousSimulation {
  std::vector<std::vector<TimedVersion>> ranks;
  double makespan = 0;
  /// Of the steady state, that is between the backward passes of the micro-
  /// batches in the middle and before the last ones: micro-batches per second,
  /// and the share of the time in which each rank works.
  double throughput = 0;
  std::vector<double> utilization;
};

/// Every rank runs its list in order; F waits for F of the stage before, B for
/// that of the stage after, and replicas for each other in their updates. Fails
/// if verifyVersions finds a fault, or if there are too few micro-batches for a
/// steady state: it begins with the second half (rounded to whole updates of
/// all replicas) and ends as many micro-batches before the end as there are
/// ranks. Synchronous updates should so be in the first half. O(actions *
/// stages).
Result<AsynchronousSimulation>
simulateAsynchronous(const AsynchronousSchedule &schedule,
                     const AsynchronousInput &input);

/// The most bytes that each rank keeps: its weight versions at
/// `parameterBytes`, and its micro-batches between F and B at `savedBytes`,
/// each by stage, one for all, or none for 0. A gradient is part of neither.
/// Needs a verified schedule. O(actions).
std::vector<int64_t>
asynchronousPeakBytes(const AsynchronousSchedule &schedule,
                      const std::vector<int64_t> &parameterBytes,
                      const std::vector<int64_t> &savedBytes);

} // namespace pp::planner

#endif // PP_PLANNER_ASYNCHRONOUSSIMULATOR_H
