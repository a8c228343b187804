//===- NamedSchedule.cpp - Schedules by name ------------------------------===//

#include "NamedSchedule.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/Schedule/Search.h"
#include "pp/Report/Format.h"

using namespace pp;
using namespace pp::planner;

static Result<Schedule> search(PipelineShape shape, const PipelineTimes &times,
                               const ScheduleWish &wish,
                               llvm::raw_ostream &os) {
  SearchProblem problem;
  problem.shape = shape;
  problem.times.stages = {times.stage};
  problem.times.transfers = {times.transfer};
  problem.objective = wish.objective;
  if (wish.kept > 0) {
    // One byte from F to W.
    problem.forwardBytes = problem.weightBytes = {1};
    problem.capacity = {wish.kept};
  }
  // There and back: what the planner uses for two stages per rank.
  if (shape.stages == 2 * shape.rankCount()) {
    auto ranks = placeStages(shape, Placement::V);
    if (!ranks)
      return Failure{ranks.error()};
    problem.rankOfStage = *ranks;
  }
  auto found = searchSchedule(problem);
  if (!found)
    return Failure{found.error()};
  os << "found: " << found->origin << "; no schedule has a "
     << (wish.objective == SearchObjective::Span ? "span" : "makespan")
     << " below " << formatTime(found->lowerBound) << "\n";
  return found->schedule;
}

llvm::Expected<SimulatedSchedule>
pp::makeNamedSchedule(llvm::StringRef name, PipelineShape shape,
                      const PipelineTimes &times, const ScheduleWish &wish,
                      llvm::raw_ostream &os) {
  if (shape.stages == 0) {
    auto placement = placementOf(name);
    bool several = placement && *placement != Placement::OnePerRank;
    shape.stages = several ? 2 * shape.ranks : shape.ranks;
  }
  auto schedule = name == "auto" ? search(shape, times, wish, os)
                                 : makeSchedule(name, shape);
  if (!schedule)
    return makeError(exitInvalid, schedule.error());
  return proveAndSimulate(*schedule, times, name);
}
