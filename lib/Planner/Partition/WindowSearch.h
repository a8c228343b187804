//===- WindowSearch.h - Exact cuts when costs are not monotone ------------===//
#ifndef PP_LIB_PLANNER_PARTITION_WINDOWSEARCH_H
#define PP_LIB_PLANNER_PARTITION_WINDOWSEARCH_H

#include "Constraints.h"
#include "StageCosts.h"

namespace pp::planner {

/// The boundaries of an optimal partition, or none if no partition meets the
/// constraints and the memory limit. Method and cost: ChainPartitioner.h.
std::optional<std::vector<size_t>> searchWindows(const StageCosts &costs,
                                                 const Constraints &allowed);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PARTITION_WINDOWSEARCH_H
