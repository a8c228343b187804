//===- SearchBudget.h - How long a search may take ------------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_SEARCHBUDGET_H
#define PP_LIB_PLANNER_PARTITION_SEARCHBUDGET_H

#include "pp/Planner/Partition/GraphPartitioner.h"

namespace pp::planner::partition {

/// Counts the steps of a search, looks at the clock now and then, and reports.
/// Once it is out, it stays so.
class SearchBudget {
public:
  explicit SearchBudget(const PartitionLimits &limits) : limits(limits) {}

  /// False if the search has to stop.
  bool spend(uint64_t steps);
  /// The same, after a part of the search that counts no steps.
  bool isOut();

  SearchStop stop() const { return stopped; }

  /// The limits of a part that may take half of what is left.
  PartitionLimits half() const;
  uint64_t steps() const { return done; }

  /// What the next reports say.
  PartitionProgress progress;

private:
  void look();

  const PartitionLimits &limits;
  uint64_t done = 0, sinceLook = 0;
  SearchStop stopped = SearchStop::None;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_SEARCHBUDGET_H
