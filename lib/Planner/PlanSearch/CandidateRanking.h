//===- CandidateRanking.h - The order in which plans are listed -----------===//
#ifndef PP_LIB_PLANNER_PLANSEARCH_CANDIDATERANKING_H
#define PP_LIB_PLANNER_PLANSEARCH_CANDIDATERANKING_H

#include "pp/Planner/PlanSearch.h"

namespace pp::planner {

/// Those that fit first, the fastest first, else as they were. Of candidates
/// with the same stages, devices, orders and recomputation one remains: the
/// first with a schedule by name, else the first. Returns how many were left
/// out. O(n log n), and as many comparisons as there are pairs with one step
/// time.
size_t rankCandidates(std::vector<PlanCandidate> &candidates);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANSEARCH_CANDIDATERANKING_H
