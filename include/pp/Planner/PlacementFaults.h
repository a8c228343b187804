//===- PlacementFaults.h - What is wrong with a given partition -----------===//
#ifndef PP_PLANNER_PLACEMENTFAULTS_H
#define PP_PLANNER_PLACEMENTFAULTS_H

#include "pp/Planner/Graph.h"
#include <string>
#include <vector>

namespace pp::planner {

/// Values only go to later stages, and every stage from 0 to `stages` - 1 has a
/// kernel. `stageOf` by kernel, each of these stages. Returns all faults, each
/// a sentence with the names of the kernels. O(kernels + readers).
std::vector<std::string> findPlacementFaults(const Graph &graph,
                                             const std::vector<int> &stageOf,
                                             int stages);

} // namespace pp::planner

#endif // PP_PLANNER_PLACEMENTFAULTS_H
