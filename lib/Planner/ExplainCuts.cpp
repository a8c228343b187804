//===- ExplainCuts.cpp - What was possible next to a cut ------------------===//
#include "pp/Planner/PlanSearch.h"

#include <algorithm>
#include <map>

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
    for (size_t k = 0; k < graph.kernels.size(); ++k)
      classes[graph.kernels[k].colocationClass].push_back(k);
  }

  std::vector<CutAlternative> run() {
    for (int stage = 1; stage < static_cast<int>(draft.devices.size());
         ++stage) {
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
    for (int step = 0; step < reach; ++step) {
      std::vector<size_t> next = nextToMove(from, to);
      if (next.empty() || countOf(from) == static_cast<int>(next.size()))
        break;
      for (size_t kernel : next)
        draft.stageOf[kernel] = to;
      moved.insert(moved.end(), next.begin(), next.end());
      if (draft.schedule.isTraining() && draft.schedule.replicas.empty() &&
          stepLowerBound(draft) >= limit)
        continue;
      auto evaluation = evaluatePlan(draft);
      if (!evaluation)
        break;
      result.push_back(
          {cut, moved, to, evaluation->step, evaluation->overflow});
    }
    draft.stageOf = std::move(original);
  }

  /// The kernel next to the cut, with all that must be where it is; empty if
  /// nothing can move.
  std::vector<size_t> nextToMove(int from, int to) const {
    bool forward = to > from;
    std::vector<size_t> found;
    for (size_t k = 0; k < graph.kernels.size(); ++k) {
      if (draft.stageOf[k] != from || (!forward && !found.empty()))
        continue;
      std::vector<size_t> together = withItsClass(k);
      bool isLegal = std::ranges::all_of(together, [&](size_t kernel) {
        return canMove(kernel, together, to, forward);
      });
      if (isLegal)
        found = std::move(together);
    }
    return found;
  }

  std::vector<size_t> withItsClass(size_t kernel) const {
    int colocationClass = graph.kernels[kernel].colocationClass;
    if (colocationClass < 0)
      return {kernel};
    return classes.at(colocationClass);
  }

  bool canMove(size_t kernel, const std::vector<size_t> &together, int to,
               bool forward) const {
    const auto &others = forward ? readers[kernel] : producers[kernel];
    return std::ranges::all_of(others, [&](size_t other) {
      return std::ranges::binary_search(together, other) ||
             (forward ? draft.stageOf[other] >= to
                      : draft.stageOf[other] <= to);
    });
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
  std::map<int, std::vector<size_t>> classes; // of colocation; -1: the others
  std::vector<CutAlternative> result;
};

} // namespace

std::vector<CutAlternative>
pp::planner::explainCuts(const PlanCandidate &candidate, int reach,
                         double limit) {
  return Explainer(candidate, reach, limit).run();
}
