//===- PlanMemoryCurves.cpp - Memory of a plan over time ------------------===//

#include "pp/Planner/PlanMemoryCurves.h"

using namespace pp::planner;

std::vector<MemoryCurve>
pp::planner::memoryCurves(const PlanEvaluation &evaluation) {
  Schedule schedule = evaluation.schedule;
  // The buffers of channels are allocated for the whole step.
  for (Channel &channel : schedule.channels)
    channel.bytes = 0;
  std::vector<int64_t> fixed(schedule.ranks.size(), 0);
  ResidualBytes residuals;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageLoad &load = evaluation.stages[schedule.replicaOf(stage).part];
    residuals.whole.push_back(load.savedBytes);
    fixed[schedule.rankOfStage[stage]] +=
        load.memoryBytes - load.slots * load.savedBytes;
  }
  std::vector<MemoryCurve> curves =
      memoryCurves(schedule, evaluation.simulation, residuals);
  for (size_t rank = 0; rank < curves.size(); ++rank) {
    MemoryCurve &curve = curves[rank];
    if (curve.steps.empty() || curve.steps.front().time > 0)
      curve.steps.insert(curve.steps.begin(), {0, 0});
    for (MemoryStep &step : curve.steps)
      step.bytes += fixed[rank];
    curve.peak += fixed[rank];
  }
  return curves;
}
