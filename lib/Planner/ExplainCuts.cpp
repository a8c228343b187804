//===- ExplainCuts.cpp - What was possible next to a cut ------------------===//
#include "pp/Planner/PlanSearch.h"

using namespace pp::planner;

namespace {

class Explainer {
public:
  Explainer(const PlanCandidate &candidate, int reach, double limit)
      : draft(candidate.draft), graph(*draft.graph), reach(reach),
        limit(limit) {
    readers.resize(graph.kernels.size());
    producers.resize(graph.kernels.size());
    for (const Value &value : graph.values)
      for (size_t consumer : value.consumers) {
        readers[value.producer].push_back(consumer);
        producers[consumer].push_back(value.producer);
      }
  }

  std::vector<CutAlternative> run() {
    for (int stage = 1; stage < draft.schedule.stages; ++stage) {
      explain(stage, stage - 1, stage);
      explain(stage, stage, stage - 1);
    }
    return std::move(result);
  }

private:
  /// Moves kernels of stage `from` to its neighbour `to`, one after the other:
  /// those next to the cut first.
  void explain(int cut, int from, int to) {
    std::vector<int> original = draft.stageOf;
    std::vector<size_t> moved;
    while (static_cast<int>(moved.size()) < reach) {
      auto kernel = nextToMove(from, to);
      if (!kernel || countOf(from) == 1)
        break;
      draft.stageOf[*kernel] = to;
      moved.push_back(*kernel);
      if (draft.schedule.isTraining() && stepLowerBound(draft) >= limit)
        continue;
      auto evaluation = evaluatePlan(draft);
      if (!evaluation)
        break;
      result.push_back({cut, moved, to, evaluation->simulation.makespan,
                        evaluation->overflow});
    }
    draft.stageOf = std::move(original);
  }

  std::optional<size_t> nextToMove(int from, int to) const {
    bool forward = to > from;
    std::optional<size_t> found;
    for (size_t k = 0; k < graph.kernels.size(); ++k) {
      if (draft.stageOf[k] != from || graph.kernels[k].colocationClass >= 0)
        continue;
      bool legal = true;
      for (size_t other : forward ? readers[k] : producers[k])
        legal &=
            forward ? draft.stageOf[other] >= to : draft.stageOf[other] <= to;
      if (legal && (forward || !found))
        found = k;
    }
    return found;
  }

  int countOf(int stage) const {
    int count = 0;
    for (int other : draft.stageOf)
      count += other == stage;
    return count;
  }

  PlanDraft draft;
  const Graph &graph;
  int reach;
  double limit;
  std::vector<std::vector<size_t>> readers, producers;
  std::vector<CutAlternative> result;
};

} // namespace

std::vector<CutAlternative>
pp::planner::explainCuts(const PlanCandidate &candidate, int reach,
                         double limit) {
  return Explainer(candidate, reach, limit).run();
}
