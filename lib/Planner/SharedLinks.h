//===- SharedLinks.h - Simulation of links with several channels ----------===//
#ifndef PP_LIB_PLANNER_SHAREDLINKS_H
#define PP_LIB_PLANNER_SHAREDLINKS_H

#include "pp/Planner/Simulator.h"

namespace pp::planner {

/// Needs a schedule that completes if sends wait for nobody. Here the order of
/// events decides who has a link first, so that, unlike in Replay, they are
/// taken in the order of time.
std::vector<std::vector<TimedAction>>
simulateSharedLinks(const Schedule &schedule, const SimulationInput &input);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SHAREDLINKS_H
