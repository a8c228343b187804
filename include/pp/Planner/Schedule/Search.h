//===- Search.h - Find a schedule for given times and memory --------------===//
#ifndef PP_PLANNER_SCHEDULE_SEARCH_H
#define PP_PLANNER_SCHEDULE_SEARCH_H

#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Simulator.h"

namespace pp::planner {

enum class SearchObjective {
  /// From the start to the last end.
  Makespan,
  /// The longest time of a rank from its first to its last action: what counts
  /// where ranks need not begin together (Qi et al., "Zero Bubble Pipeline
  /// Parallelism", ICLR 2024).
  Span
};

struct SearchProblem {
  /// Training, at least one micro-batch.
  PipelineShape shape;
  /// The rank of each stage, any (see placeStages). Empty: stage s is on rank
  /// s modulo the number of ranks.
  std::vector<int> rankOfStage = {};
  /// Empty: those of neighborChannels.
  std::vector<Channel> channels = {};
  /// Times of stages and channels. Sends are taken to wait for nobody.
  SimulationInput times;
  /// Bytes that a stage keeps per micro-batch from F to I (M_B of Qi et al.)
  /// and from I to W (M_W): one entry per stage, one for all, or none for 0.
  std::vector<int64_t> forwardBytes = {}, weightBytes = {};
  /// Bytes per rank: one entry per rank, one for all, or none for no limit. The
  /// limit is on the sum of the above.
  std::vector<int64_t> capacity = {};
  SearchObjective objective = SearchObjective::Makespan;
  /// False: B only.
  bool splitBackward = true;
  /// The most orders to try; fewer where m times stages is large, so that a
  /// search takes seconds at most.
  int simulations = 20000;
};

struct SearchResult {
  /// Without transfers and without channels.
  Schedule schedule;
  /// "zb-h1", or how the order began: "zb-h1, improved".
  std::string origin;
  double makespan = 0, span = 0;
  /// No schedule has a smaller objective.
  double lowerBound = 0;
  std::vector<int64_t> peak; // Bytes, by rank.
};

/// A schedule that keeps to the memory, for any times. W of a stage are in the
/// order 0, 1, ....
///
/// Objective: the one given. Guarantee: not worse than any schedule of
/// makeSchedule that has these stages on these ranks and keeps to the memory;
/// the distance to the optimum is at most that to `lowerBound`. The optimum is
/// not searched for: already two ranks make a job shop with delays, which is
/// NP-hard.
///
/// Method: orders of F and I, of which all else follows (W fill gaps and free
/// memory), are taken from the named schedules, from list scheduling by several
/// rules, from warm-ups of as many F as fit into the round trip of a
/// micro-batch, and, where there are many micro-batches, from what this search
/// finds for fewer of them, with the steady state repeated. The best are
/// improved by longer and shorter warm-ups, and by exchanging neighbours on the
/// critical path. No randomness, no clock.
///
/// Fails if the problem is inconsistent, or if one micro-batch alone exceeds
/// the memory of a rank. O(simulations * stages * m), with simulations limited
/// so that this is at most about 10^8.
Result<SearchResult> searchSchedule(const SearchProblem &problem);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_SEARCH_H
