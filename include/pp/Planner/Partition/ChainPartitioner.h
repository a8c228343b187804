//===- ChainPartitioner.h - Cut a sequence of kernels into stages ---------===//
//
// Kernels are taken in the order of the graph, and a stage is a run of
// consecutive ones; stage s runs on device s of the cluster.
//
// Objective. The cost of a stage [i, j) is, with `Objective::Time`,
//
//   time(i, j) / speed  +  communication(i, j)           seconds/micro-batch
//
// where communication(i, j) is the transfer time (both ways) of every value
// that a kernel of the stage reads from an earlier stage, and of every value
// that it produces and a later stage reads: once at its producer and once in
// each stage that reads it, however many kernels do. That is the load of
// J. Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
// Operators" (NeurIPS 2020). Links are taken as equal: the slowest counts.
// With `Objective::Memory` the cost is the stage's memory, see MemoryModel.
// Other objectives, kernels with variants or measured times, device classes
// and graphs that are no chain are for GraphPartitioner.h.
// The partitioner minimises the largest cost; of equal cuts it takes the one
// furthest to the left.
//
// Guarantee. The answer is exact for the given order of kernels.
//
// Method and cost, n kernels, k stages, d edges per kernel:
//  * Without communication, hints, classes, memory limits and with equal
//    speeds, cost grows with the interval, so the optimum is found by
//    D. M. Nicol's parametric search ("Rectilinear Partitioning of Irregular
//    Data Parallel Computations", 1994; exact, no tolerance): O(n) for prefix
//    sums and O(k^2 log^2 n) for the search.
//  * Otherwise adding a kernel may lower a stage's cost (its largest input
//    stays inside), greedy filling is wrong, and a dynamic program over
//    (stages, prefix) is used: best(s, j) = min over i of
//    max(best(s-1, i), cost(s, i, j)). Only intervals whose compute time alone
//    is at most a bound U are looked at. If the result is at most U, it is the
//    optimum, since no interval of an optimal partition costs more than the
//    result; else U grows. Prefixes that s stages cannot reach or k - s stages
//    cannot finish within U are left out too. U starts at the cost of the cut
//    that balances compute alone, which needs one round; where constraints
//    forbid that cut, at the lower bound L, then L times 1 + 1/64, 1 + 1/32,
//    .... Let w be the length of the longest interval with compute time U, p
//    the number of prefixes that may end a stage, about n min(1, k (U/L - 1)),
//    and r the number of stage counts such a prefix allows: O(p w (d + r)) per
//    round, O(n k) memory. With n/k kernels of like size in a stage and
//    communication a few percent of it, p w is a few percent of n^2. Worst case
//    (one huge value everywhere): O(n^2 (d + k)).
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_PARTITION_CHAINPARTITIONER_H
#define PP_PLANNER_PARTITION_CHAINPARTITIONER_H

#include "pp/Planner/Cluster.h"
#include "pp/Planner/Graph.h"
#include "pp/Planner/Partition/Objective.h"
#include "pp/Planner/Result.h"

namespace pp::planner {

struct ChainProblem {
  const Graph *graph = nullptr;
  const Cluster *cluster = nullptr;
  size_t stages = 1;
  /// Time or Memory.
  Objective objective = Objective::Time;
  Communication communication = Communication::Added;
  /// Its rule must be FromFirst, without stashed copies.
  MemoryModel memory = {};
  /// No stage may need more than its device's memory.
  bool limitMemory = false;
  /// Not empty: the user's cuts, the index of the first kernel of stage 1, 2,
  /// ...; nothing is searched.
  std::vector<size_t> cuts = {};
};

struct StageSummary {
  size_t begin = 0, end = 0;    // Kernels [begin, end).
  double computeTime = 0;       // Seconds on the stage's device.
  double communicationTime = 0; // Seconds.
  double memoryBytes = 0;
  double cost = 0; // In the unit of the objective.
};

struct ChainSolution {
  std::vector<int> stageOf; // Per kernel.
  std::vector<StageSummary> stages;
  /// The largest cost.
  double value = 0;
  /// No partition of these kernels, in any order, has a smaller value: the
  /// work divided by the devices' speed, and the largest kernel.
  double lowerBound = 0;
  /// False for the user's cuts.
  bool optimalForOrder = false;

  double gap() const { return lowerBound > 0 ? value / lowerBound - 1 : 0; }
};

/// The first reason why the problem cannot be solved, or nothing: no kernels,
/// more stages than kernels, devices or separable groups, cuts out of order, a
/// hint that does not exist or goes back, a class that a hint or cut tears.
std::optional<std::string> check(const ChainProblem &problem);

/// Fails if check() or the memory limit does; the message then says which
/// stage lacks how much.
Result<ChainSolution> partitionChain(const ChainProblem &problem);

/// Computes the solution's costs afresh, kernel by kernel, and checks every
/// constraint. The first fault, or nothing. O(n + e).
std::optional<std::string> verify(const ChainProblem &problem,
                                  const ChainSolution &solution);

} // namespace pp::planner

#endif // PP_PLANNER_PARTITION_CHAINPARTITIONER_H
