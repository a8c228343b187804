//===- ScheduleReport.h - A schedule in numbers and characters --*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_SCHEDULEREPORT_H
#define PP_TOOLS_PP_PLAN_SCHEDULEREPORT_H

#include "pp/Planner/Simulator.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// A plain pipeline of equal stages.
struct PipelineTimes {
  /// Of every stage, in seconds.
  planner::StageTimes stage;
  /// Of a message between two ranks.
  double transfer = 0;
};

struct SimulatedSchedule {
  /// As given: where it has no transfers, values arrive by themselves, as in
  /// the literature.
  planner::Schedule schedule;
  planner::Simulation simulation;
  /// With a SEND and a RECV for each value, in the lists that the runtime
  /// walks.
  planner::Schedule complete;
  planner::Simulation completeSimulation;
  /// Buffers per channel that it needs; 0: a send may wait for its receive.
  int capacity = 0;
};

/// Adds the transfers if there are none, proves the schedule and simulates it
/// with and without them. Fails with all faults, each after `name`.
llvm::Expected<SimulatedSchedule>
proveAndSimulate(const planner::Schedule &schedule, const PipelineTimes &times,
                 llvm::StringRef name);

/// Shape, buffers, times, bubbles, what is kept at once, and the timeline.
void printSchedule(const SimulatedSchedule &simulated, llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_SCHEDULEREPORT_H
