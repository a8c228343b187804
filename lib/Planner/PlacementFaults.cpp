//===- PlacementFaults.cpp ------------------------------------------------===//
#include "pp/Planner/PlacementFaults.h"

using namespace pp::planner;

std::vector<std::string>
pp::planner::findPlacementFaults(const Graph &graph,
                                 const std::vector<int> &stageOf, int stages) {
  std::vector<std::string> faults;
  std::vector<bool> used(stages);
  for (int stage : stageOf)
    used[stage] = true;
  for (int stage = 0; stage < stages; ++stage)
    if (!used[stage])
      faults.push_back("stage " + std::to_string(stage) + " has no kernels");
  for (const Value &value : graph.values)
    for (size_t consumer : value.consumers)
      if (stageOf[consumer] < stageOf[value.producer])
        faults.push_back("'" + graph.kernels[consumer].name + "' in stage " +
                         std::to_string(stageOf[consumer]) + " reads from '" +
                         graph.kernels[value.producer].name + "' in stage " +
                         std::to_string(stageOf[value.producer]));
  return faults;
}
