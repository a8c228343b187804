//===- RollingTimeline.cpp - Schedules without a flush, drawn -------------===//

#include "RollingTimeline.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/AsynchronousSimulator.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Waves.h"
#include "pp/Report/Format.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pp;
using namespace pp::planner;

namespace {

/// The schedule in its steady state.
llvm::Expected<AsynchronousSimulation>
simulateSteadyState(const Schedule &schedule, WeightRule rule,
                    const PipelineTimes &times) {
  int ranks = static_cast<int>(schedule.ranks.size());
  // The second half is measured, but for the last micro-batches.
  int steps =
      4 + (4 * ranks) / schedule.microbatches + 2 * largestLag(schedule);
  AsynchronousInput input{{times.stage}, {times.transfer}};
  if (schedule.stages == 1)
    input.transfers.clear();
  auto simulated =
      simulateAsynchronous(unrollVersions(schedule, rule, steps), input);
  if (!simulated)
    return makeError(exitInvalid, simulated.error());
  return *simulated;
}

std::string preciselyPercent(double share) {
  return llvm::formatv("{0:F2} %", 100 * share);
}

} // namespace

llvm::Expected<SimulatedSchedule>
pp::showRollingTimeline(llvm::StringRef name, PipelineShape shape,
                        const PipelineTimes &times, llvm::raw_ostream &os) {
  WeightRule rule = *weightRuleOf(name);
  int drawn = 3;
  if (rule == WeightRule::Stashing || rule == WeightRule::VerticalSync) {
    drawn = shape.microbatches;
    shape.microbatches = 1;
  }
  if (shape.stages == 0)
    shape.stages = shape.ranks;
  auto schedule = makeRollingSchedule(name, shape);
  if (!schedule)
    return makeError(exitInvalid, schedule.error());
  auto complete = insertRollingTransfers(
      *schedule, neighborChannels(schedule->stages, /*training=*/true));
  if (!complete)
    return makeError(exitInvalid, complete.error());
  if (auto faults = verifyRolling(*complete, rule); !faults.empty())
    return makeError(exitInternal,
                     name + ": " +
                         llvm::join(faults, "\n" + name.str() + ": "));
  auto steady = simulateSteadyState(*schedule, rule, times);
  if (!steady)
    return steady.takeError();
  double busy = 0;
  for (double share : steady->utilization)
    busy += share / static_cast<double>(steady->utilization.size());
  os << schedule->stages << " stages, " << schedule->ranks.size() << " ranks, "
     << schedule->microbatches
     << (schedule->clockDistance ? " micro-batches per wave of a virtual worker"
                                 : " micro-batches per update")
     << ", no flush: proven; completes even if every "
        "send waits for its receive\n"
     << formatTime(1 / steady->throughput)
     << " per micro-batch in the steady state, bubble "
     << preciselyPercent(1 - busy) << ", utilisation " << preciselyPercent(busy)
     << "\nweight versions, by stage:";
  for (int versions : schedule->versions)
    os << " " << versions;
  os << "; updates that a gradient misses, by stage:";
  for (int stage = 0; stage < schedule->stages; ++stage)
    os << llvm::formatv(" {0}", gradientDelay(*schedule, rule, stage));
  if (schedule->clockDistance)
    os << "\nclock distance " << *schedule->clockDistance << ": misses at most "
       << waveRuleOf(*schedule).stalenessBound()
       << " micro-batches of each other worker";
  os << "\nmicro-batches kept at once, by stage:";
  for (const StageSlots &stage : assignRollingSlots(*complete).stages)
    os << " " << stage.count;
  Schedule unrolled = unroll(*schedule, drawn);
  unrolled.channels = neighborChannels(unrolled.stages, /*training=*/true);
  SimulationInput input;
  input.stages = {times.stage};
  input.transfers = {times.transfer};
  auto simulation = simulate(unrolled, input);
  if (!simulation)
    return makeError(exitInvalid, simulation.error());
  os << "\n" << renderTimeline(*simulation, 100);
  return SimulatedSchedule{unrolled, *simulation, unrolled, *simulation, 0};
}
