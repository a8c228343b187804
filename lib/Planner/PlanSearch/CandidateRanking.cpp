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

/// What takes as long as the fastest of its group, but for sums in another
/// order: nobody would see the difference, so the simpler plan is the better.
static constexpr double sameTime = 1 + 1e-9;

/// Of each candidate, the number of its group; candidates that do not fit are
/// behind those that do.
static std::vector<size_t>
groupBySteps(const std::vector<PlanCandidate> &candidates) {
  auto keyOf = [&](size_t i) {
    return std::tuple(candidates[i].overflow.has_value(),
                      candidates[i].plan.predicted.step);
  };
  std::vector<size_t> order(candidates.size()), groups(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return keyOf(a) < keyOf(b); });
  size_t group = 0, first = 0;
  for (size_t place = 0; place < order.size(); ++place) {
    auto [overflows, step] = keyOf(order[place]);
    auto [overflowed, fastest] = keyOf(order[first]);
    if (overflows != overflowed || step > fastest * sameTime) {
      first = place;
      ++group;
    }
    groups[order[place]] = group;
  }
  return groups;
}

size_t pp::planner::rankCandidates(std::vector<PlanCandidate> &candidates) {
  std::vector<size_t> groups = groupBySteps(candidates);
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  auto keyOf = [&](size_t i) {
    const PlanCandidate &candidate = candidates[i];
    const std::vector<int64_t> &bytes = candidate.plan.predicted.peakBytes;
    return std::tuple(
        groups[i], candidate.draft.schedule.rankOfStage.size(),
        isSearched(candidate),
        bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end()), i);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return keyOf(a) < keyOf(b); });
  std::vector<PlanCandidate> ranked;
  // One plan has one step time: its copies are in one group.
  size_t sameGroup = 0, group = 0;
  for (size_t i : order) {
    PlanCandidate &candidate = candidates[i];
    if (groups[i] != group)
      sameGroup = ranked.size();
    group = groups[i];
    bool isKnown = std::any_of(ranked.begin() + sameGroup, ranked.end(),
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
