//===- CandidateRanking.h - The order in which plans are listed -----------===//
#ifndef PP_LIB_PLANNER_PLANSEARCH_CANDIDATERANKING_H
#define PP_LIB_PLANNER_PLANSEARCH_CANDIDATERANKING_H

#include "pp/Planner/PlanSearch.h"

namespace pp::planner {

/// Those that fit first, the fastest first. Of those that are as fast, the one
/// with the fewest stages, then with a schedule by name, then with the least
/// memory, else as they were. Of candidates with the same stages, devices,
/// orders and recomputation the first remains. Returns how many were left out.
/// O(n log n), and as many comparisons as there are pairs with one step time.
size_t rankCandidates(std::vector<PlanCandidate> &candidates);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANSEARCH_CANDIDATERANKING_H
