//===- HierarchicalPartitioner.h - Pipelines inside pipelines -------------===//
//
// PipeDream's optimizer for networks with levels (D. Narayanan et al., SOSP
// 2019, section 3.1): devices of one machine share a fast link, machines a
// slower one, and so on. On the innermost level a stage runs on m devices. On
// the next one a stage is a whole pipeline of the level below, on m machines:
//
//   level 2   [ a b c | a b c ]  ->  [ d e ]        2 machines, then 1
//   level 1     (a, a, b, c)         (d, d, e, e)   4 devices in each
//
// Let A_l(i, j) be the best value of kernels i..j on one unit of level l (a
// device: their time), n_l the units of level l - 1 in it, B_l its bandwidth. A
// stage of level l on m units costs
//
//   Code:  (A_{l-1} + 4 (m - 1) / m * P / (B_l d)) / m
//   Paper: max(A_{l-1}, 2 (m - 1) P / (B_l d)) / m
//
// where P are its parameters and d the devices of a unit of level l - 1; cuts
// between stages of one level cost what PipeDreamForm says, with B_l, and the
// first stage of a pipeline is the first in that sense. In the form Code the
// last stage of an inner pipeline, if it is not its first, pays for what leaves
// it too. A_l is the largest cost of its stages and cuts, minimised.
//
// Guarantee. Exact over all ideals of the graph if they are at most 400, else
// exact for the best of several topological orders (`exact` says which).
// Units may stay idle unless `useAllDevices` is set.
//
// Cost, s ideals (or n + 1 prefixes), n_l units: O(s^3 sum n_l^2) time, O(s^2
// max n_l) memory.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_PARTITION_HIERARCHICALPARTITIONER_H
#define PP_PLANNER_PARTITION_HIERARCHICALPARTITIONER_H

#include "pp/Planner/Partition/GraphPartitioner.h"

namespace pp::planner {

struct HierarchicalStage {
  std::vector<size_t> kernels; // Ascending.
  /// Units of the level below that share its micro-batches.
  int replicas = 1;
  /// Seconds, as PipeDreamForm, cuts included.
  double cost = 0;
  /// The pipeline in each unit; none on the innermost level.
  std::vector<HierarchicalStage> inner;
};

struct HierarchicalSolution {
  std::vector<HierarchicalStage> stages; // Of the outermost level.
  double value = 0;
  /// Work over devices, and the largest kernel.
  double lowerBound = 0;
  bool exact = false;
  size_t ideals = 0; // 0 if orders were used.
};

/// Uses graph, cluster, form and useAllDevices of the problem, whose objective
/// must be PipeDream with replication, without limits of memory or stages,
/// hints, variants or cuts. Fails if the cluster is not a regular tree of equal
/// devices (Cluster::levels).
Result<HierarchicalSolution>
partitionHierarchically(const PartitionProblem &problem);

/// As verify of a PartitionSolution.
std::optional<std::string> verify(const PartitionProblem &problem,
                                  const HierarchicalSolution &solution);

} // namespace pp::planner

#endif // PP_PLANNER_PARTITION_HIERARCHICALPARTITIONER_H
