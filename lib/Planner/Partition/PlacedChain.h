//===- PlacedChain.h - A chain of stages on devices that are placed -------===//
#ifndef PP_LIB_PLANNER_PARTITION_PLACEDCHAIN_H
#define PP_LIB_PLANNER_PARTITION_PLACEDCHAIN_H

#include "GroupGraph.h"

namespace pp::planner::partition {

/// Cuts the graph's order into stages on neighbours in `devices`, which lists
/// those of each group of the cluster one after the other: a dynamic program
/// over (groups placed, devices of the last stage), so that each cut and each
/// all-reduce has the link of its devices. A stage may begin in the next group.
/// Neighbouring groups are merged to at most 64 sets first, to fewer where
/// there are many devices. Costs are as in GraphPartitioner.h, but for Time and
/// FlushLatency a stage pays only for what it receives.
///
/// A guess, to be judged by `evaluate`: stages, devices and replicas are filled
/// in. Nothing if devices differ, with tensor parallelism, or if nothing is
/// below `bound`. O(sets^2 devices^3), at most about 10^9.
std::optional<PartitionSolution> placeChain(const CostModel &model,
                                            const GroupGraph &graph,
                                            const std::vector<size_t> &devices,
                                            double bound);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_PLACEDCHAIN_H
