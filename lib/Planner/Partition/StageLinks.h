//===- StageLinks.h - The links between the stages of a plan --------------===//
#ifndef PP_LIB_PLANNER_PARTITION_STAGELINKS_H
#define PP_LIB_PLANNER_PARTITION_STAGELINKS_H

#include "pp/Planner/Partition/GraphPartitioner.h"
#include <map>

namespace pp::planner::partition {

/// The slowest links that the devices of stages use. Each answer is computed
/// once: O(a b) for stages on a and b devices, or on as many innermost groups
/// if no pair of devices has its own link.
class StageLinks {
public:
  StageLinks(const Cluster &cluster, const PartitionSolution &solution);

  /// From any device of one stage to any of another one.
  Link between(size_t from, size_t to);
  /// Between any two devices of a stage: what its all-reduce has. The default
  /// link for one device.
  Link within(size_t stage);

private:
  const Cluster &cluster;
  /// Per stage, devices that stand for all of it: two of each group.
  std::vector<std::vector<size_t>> devices;
  std::map<std::pair<size_t, size_t>, Link> known;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_STAGELINKS_H
