//===- MemoryCurve.h - Bytes of each rank over time -----------------------===//
#ifndef PP_PLANNER_MEMORYCURVE_H
#define PP_PLANNER_MEMORYCURVE_H

#include "pp/Planner/Simulator.h"

namespace pp::planner {

/// Bytes per micro-batch and stage: one entry per stage, one for all, or none
/// for 0.
struct ResidualBytes {
  /// From the start of F (R, where there is one) to the end of I.
  std::vector<int64_t> forward = {};
  /// From the start of I to the end of W.
  std::vector<int64_t> weight = {};
  /// From the start of F (R) to the end of W: what the runtime's slots hold.
  std::vector<int64_t> whole = {};
};

struct MemoryStep {
  double time = 0;
  /// From `time` to the time of the next step.
  int64_t bytes = 0;
};

struct MemoryCurve {
  std::vector<MemoryStep> steps; // Times ascend.
  int64_t peak = 0;
};

/// One curve per rank: residuals, and received values (Channel::bytes) from
/// when they arrive to the end of their last reader. A value arrives at the end
/// of its RECV, or, in schedules without transfers, when its first reader
/// starts. B holds both residuals. With R, F keeps `forward` and `whole`
/// only while it runs. While an I runs it holds both residuals, unlike in
/// peakBytes, which follows the literature. O(actions log actions).
std::vector<MemoryCurve> memoryCurves(const Schedule &schedule,
                                      const Simulation &simulation,
                                      const ResidualBytes &residuals);

} // namespace pp::planner

#endif // PP_PLANNER_MEMORYCURVE_H
