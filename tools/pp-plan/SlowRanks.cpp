//===- SlowRanks.cpp - What if a rank were slower -------------------------===//

#include "SlowRanks.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/Format.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace pp;

llvm::Error pp::printSlowRanks(llvm::ArrayRef<std::string> slow,
                               const planner::PlanEvaluation &evaluation,
                               llvm::raw_ostream &os) {
  if (slow.empty())
    return llvm::Error::success();
  planner::SimulationInput input = evaluation.input;
  for (const std::string &text : slow) {
    auto [number, factorText] = llvm::StringRef(text).split(':');
    size_t rank;
    double factor;
    if (number.getAsInteger(10, rank) || factorText.getAsDouble(factor) ||
        rank >= evaluation.schedule.ranks.size() || factor <= 0)
      return makeError(exitUsage,
                       "--slow=" + text +
                           ": expected rank:factor with a rank "
                           "below " +
                           llvm::Twine(evaluation.schedule.ranks.size()));
    for (size_t stage = 0; stage < input.stages.size(); ++stage) {
      if (evaluation.schedule.rankOfStage[stage] != static_cast<int>(rank))
        continue;
      planner::StageTimes &times = input.stages[stage];
      for (double *time : {&times.forward, &times.backwardInput,
                           &times.backwardWeight, &times.recompute})
        *time *= factor;
    }
  }
  auto simulation = planner::simulate(evaluation.schedule, input);
  if (!simulation)
    return makeError(exitInternal, simulation.error());
  os << "\nwith slow ranks (" << llvm::join(slow, ", ") << "): step "
     << formatTime(simulation->makespan) << ", "
     << llvm::format("%.2f",
                     simulation->makespan / evaluation.simulation.makespan)
     << " times the plan's\n"
     << planner::renderTimeline(*simulation, 100);
  return llvm::Error::success();
}
