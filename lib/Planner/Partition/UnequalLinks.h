//===- UnequalLinks.h - Partitions where some links are faster ------------===//
#ifndef PP_LIB_PLANNER_PARTITION_UNEQUALLINKS_H
#define PP_LIB_PLANNER_PARTITION_UNEQUALLINKS_H

#include "CostModel.h"

namespace pp::planner::partition {

/// partitionGraph for a cluster whose links are alike.
Result<PartitionSolution> partitionAlike(const PartitionProblem &problem);

/// partitionGraph for any other cluster. The best, by the links of the devices
/// that each uses, of
///  * the partitions for all devices with each link of the cluster in place of
///    all others,
///  * the partitions for the devices of one group alone, and
///  * with replicas, the pipelines inside pipelines of
///    partitionHierarchically; of graphs with many kernels, neighbours are
///    merged first, and
///  * the graph's order on devices that follow each other (placeChain).
/// Stages are moved to the next group where they would straddle two and that
/// is better. The lower bound is that with the fastest link everywhere: costs
/// only fall with faster links. It says `exact` if the value meets it.
Result<PartitionSolution>
partitionOnUnequalLinks(const PartitionProblem &problem);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_UNEQUALLINKS_H
