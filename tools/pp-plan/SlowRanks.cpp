//===- SlowRanks.cpp - What if a rank were slower -------------------------===//

#include "SlowRanks.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/SlowRanks.h"
#include "pp/Report/Format.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace pp;

llvm::Error pp::printSlowRanks(llvm::ArrayRef<std::string> slow,
                               const planner::PlanEvaluation &evaluation,
                               llvm::raw_ostream &os) {
  if (slow.empty())
    return llvm::Error::success();
  std::vector<planner::SlowRank> ranks;
  for (const std::string &text : slow) {
    auto [number, factor] = llvm::StringRef(text).split(':');
    planner::SlowRank &rank = ranks.emplace_back();
    if (number.getAsInteger(10, rank.rank) || factor.getAsDouble(rank.factor) ||
        rank.rank >= evaluation.schedule.ranks.size() || rank.factor <= 0)
      return makeError(exitUsage,
                       "--slow=" + text +
                           ": expected rank:factor with a rank "
                           "below " +
                           llvm::Twine(evaluation.schedule.ranks.size()));
  }
  auto simulation = planner::simulateSlowRanks(evaluation, ranks);
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
