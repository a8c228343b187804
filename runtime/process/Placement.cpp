//===- Placement.cpp ------------------------------------------------------===//
#include "process/Placement.h"
#include "support/Error.h"

using namespace pp::runtime;

Placement::Placement(const Plan &plan, unsigned process, unsigned processes)
    : process(process), ofRank(plan.ranks.size()), ofStage(plan.stages.size()),
      ofLoss(plan.replicasOfLoss()), ofFetch(plan.fetches.size()) {
  size_t ranks = plan.ranksWithStages();
  if (processes > ranks)
    failUsage("{} processes for the {} ranks of the {} program: start at most "
              "one for each rank, or compile with more stages",
              processes, ranks, plan.isTraining() ? "training" : "inference");
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    // Ranks with stages are first.
    std::optional<unsigned> shardOf = plan.ranks[rank].shardOf;
    ofRank[rank] = shardOf ? ofStage[*shardOf]
                           : static_cast<unsigned>(rank * processes / ranks);
    for (unsigned stage : plan.ranks[rank].stages)
      ofStage[stage] = ofRank[rank];
  }
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    unsigned replica = plan.stages[stage].replica,
             replicas = plan.stages[stage].replicas;
    if (plan.stages[stage].areas.loss.bytes)
      ofLoss[replica] = ofStage[stage];
    for (const PlanPhase &phase : plan.stages[stage].phases)
      for (PlanReference output : phase.outputs)
        if (output.kind == PlanReference::Kind::Fetch) {
          ofFetch[output.index].resize(replicas);
          ofFetch[output.index][replica] = ofStage[stage];
        }
  }
}
