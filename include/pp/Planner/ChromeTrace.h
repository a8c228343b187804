//===- ChromeTrace.h - Show a simulation in a browser ---------------------===//
#ifndef PP_PLANNER_CHROMETRACE_H
#define PP_PLANNER_CHROMETRACE_H

#include "pp/Planner/MemoryCurve.h"

namespace pp::planner {

/// The JSON of the Trace Event Format (chrome://tracing, Perfetto): a thread
/// per rank with an event per action, times in microseconds, an arrow from each
/// SEND to its RECV, and, if `memory` has a curve per rank, a counter of bytes.
/// Same input, same text. O(actions).
std::string toChromeTrace(const Schedule &schedule,
                          const Simulation &simulation,
                          const std::vector<MemoryCurve> &memory = {});

} // namespace pp::planner

#endif // PP_PLANNER_CHROMETRACE_H
