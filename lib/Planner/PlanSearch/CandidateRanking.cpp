//===- CandidateRanking.cpp - The order in which plans are listed ---------===//
#include "CandidateRanking.h"
#include <algorithm>
#include <numeric>
#include <tuple>

using namespace pp::planner;

static bool isSearched(const PlanCandidate &candidate) {
  return candidate.plan.scheduleName.rfind("auto", 0) == 0;
}

static bool areSamePlan(const PlanCandidate &a, const PlanCandidate &b) {
  return a.graph == b.graph && a.draft.checkpoint == b.draft.checkpoint &&
         a.draft.schedule.rankOfStage == b.draft.schedule.rankOfStage &&
         a.draft.stageOf == b.draft.stageOf &&
         a.draft.devices == b.draft.devices &&
         a.draft.schedule.ranks == b.draft.schedule.ranks;
}

size_t pp::planner::rankCandidates(std::vector<PlanCandidate> &candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  auto keyOf = [&](size_t i) {
    const PlanCandidate &candidate = candidates[i];
    return std::tuple(candidate.overflow.has_value(),
                      candidate.plan.predicted.step, isSearched(candidate), i);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return keyOf(a) < keyOf(b); });
  std::vector<PlanCandidate> ranked;
  // One plan has one step time: its copies follow each other.
  size_t sameStep = 0;
  for (size_t i : order) {
    PlanCandidate &candidate = candidates[i];
    if (ranked.empty() ||
        ranked.back().plan.predicted.step != candidate.plan.predicted.step)
      sameStep = ranked.size();
    bool isKnown = std::any_of(ranked.begin() + sameStep, ranked.end(),
                               [&](const PlanCandidate &other) {
                                 return areSamePlan(candidate, other);
                               });
    if (!isKnown)
      ranked.push_back(std::move(candidate));
  }
  size_t left = candidates.size() - ranked.size();
  candidates = std::move(ranked);
  return left;
}
