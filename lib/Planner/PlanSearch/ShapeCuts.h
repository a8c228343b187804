//===- ShapeCuts.h - The partitions of shapes -----------------------------===//
#ifndef PP_LIB_PLANNER_PLANSEARCH_SHAPECUTS_H
#define PP_LIB_PLANNER_PLANSEARCH_SHAPECUTS_H

#include "PlanShapes.h"
#include "pp/Planner/Partition/GraphPartitioner.h"
#include <map>
#include <tuple>

namespace pp::planner {

/// A partition with the devices of its stages.
struct Cut {
  std::vector<int> stageOf; // Per kernel.
  /// Per stage, one per replica.
  std::vector<std::vector<size_t>> devices;
  double gap = 0;
  bool exact = false;
  /// It was found as if all links were as slow as the slowest one.
  bool assumesAlikeLinks = false;
  /// 0: too many to count.
  size_t ideals = 0;
};

/// Partitions graphs for shapes. On devices that are alike, shapes with the
/// same graph, number of stages and link have one partition, which is computed
/// once.
class ShapeCuts {
public:
  explicit ShapeCuts(const PlanSpace &space)
      : space(space),
        allAlike(areAlike(*space.cluster, space.cluster->devices.size())),
        linksDiffer(space.cluster->slowestLink(space.cluster->devices.size()) !=
                    space.cluster->fastestLink(space.cluster->devices.size())) {
  }

  /// With `slots`, the memory is limited, and stage s keeps slots[s]
  /// micro-batches. Fails as partitionGraph.
  Result<Cut> find(const PlanShape &shape, Placement placement,
                   Objective objective, const std::vector<int> &slots = {});

  /// So many stages with as many replicas as suits each, over all devices: the
  /// longest share of a stage is shortest. Fails as partitionGraph.
  Result<Cut> findReplicated(size_t graph, int stages);

private:
  /// Graph, stages, link (infinite: of the whole cluster), objective,
  /// micro-batches, bytes of a device, slots; what does not count is 0.
  using Key = std::tuple<size_t, int, double, double, Objective, int, int64_t,
                         std::vector<int>>;

  const PlanSpace &space;
  bool allAlike, linksDiffer;
  std::map<Key, Result<PartitionSolution>> solutions;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANSEARCH_SHAPECUTS_H
