//===- ScheduleReport.cpp - A schedule in numbers and characters ----------===//

#include "ScheduleReport.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/Schedule/Slots.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Verify.h"
#include "pp/Report/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pp;
using namespace pp::planner;

static llvm::Error faultsOf(llvm::StringRef name,
                            const std::vector<std::string> &faults) {
  std::string text;
  for (const std::string &fault : faults)
    text += (text.empty() ? "" : "\n") + (name + ": ").str() + fault;
  return makeError(exitInvalid, text);
}

llvm::Expected<SimulatedSchedule>
pp::proveAndSimulate(const Schedule &schedule, const PipelineTimes &times,
                     llvm::StringRef name) {
  SimulatedSchedule result{schedule, {}, schedule, {}, 0};
  if (!schedule.hasTransfers()) {
    result.schedule.channels.clear();
    if (auto faults = verifySchedule(result.schedule); !faults.empty())
      return faultsOf(name, faults);
    result.schedule.channels =
        neighborChannels(schedule.stages, schedule.isTraining());
    Schedule computations = result.schedule;
    computations.channels.clear();
    auto complete = insertTransfers(computations, result.schedule.channels);
    if (!complete)
      return makeError(exitInvalid, name + ": " + complete.error());
    result.complete = *complete;
  }
  result.capacity = minimalCapacity(result.complete);
  SendRule rule;
  if (result.capacity > 0)
    rule = {SendRule::Kind::Buffered, {result.capacity}, nullptr};
  if (auto faults = verifySchedule(result.complete, rule); !faults.empty())
    return faultsOf(name, faults);
  SimulationInput input;
  input.stages = {times.stage};
  input.transfers = {times.transfer};
  auto simulation = simulate(result.schedule, input);
  auto complete = simulate(result.complete, input);
  if (!simulation || !complete)
    return makeError(exitInvalid,
                     name + ": " +
                         (simulation ? complete.error() : simulation.error()));
  result.simulation = *simulation;
  result.completeSimulation = *complete;
  return result;
}

static double share(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

void pp::printSchedule(const SimulatedSchedule &simulated,
                       llvm::raw_ostream &os) {
  const Schedule &schedule = simulated.schedule;
  const Simulation &simulation = simulated.simulation;
  size_t ranks = schedule.ranks.size();
  os << schedule.stages << " stages, " << ranks << " ranks, "
     << schedule.microbatches << " micro-batches: proven; "
     << (simulated.capacity == 0
             ? "completes even if every send waits for its receive"
             : "needs " + std::to_string(simulated.capacity) +
                   " buffers per channel")
     << "\nmakespan " << formatTime(simulation.makespan) << ", bubble "
     << llvm::formatv("{0:F2} %, utilisation {1:F2} %",
                      100 * (1 - simulation.utilization()),
                      100 * simulation.utilization())
     << "; span " << formatTime(simulation.span) << ", bubble "
     << formatTime(simulation.bubble()) << ", "
     << llvm::formatv("{0:F2} %", share(simulation.bubble(), simulation.span))
     << "\n";
  double complete = simulated.completeSimulation.makespan;
  if (complete > simulation.makespan * (1 + 1e-9))
    os << "makespan " << formatTime(complete)
       << " with its receives in the lists, where one that waits holds up what "
          "follows\n";
  os << "micro-batches kept at once, by stage:";
  for (const StageSlots &stage : assignSlots(simulated.complete).stages)
    os << " " << stage.count;
  if (schedule.isTraining() && schedule.stages > static_cast<int>(ranks)) {
    os << "; of all stages, by rank:";
    for (int64_t kept : peakBytes(schedule, {1}, {1}))
      os << " " << kept;
  }
  os << "\n" << renderTimeline(simulation, 100);
}
