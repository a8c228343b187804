//===- GraphPartitioner.h - Cut a graph of kernels into stages ------------===//
//
// A partition is a sequence of stages such that no kernel comes before one
// that it depends on: every prefix of the sequence is closed under
// dependencies (an ideal, or downset, of the graph).
//
// Devices. Devices with the same kind, memory, speed and `communicates` form a
// class, of which at most as many are used as there are. A stage runs on one
// device, or, with replication or variants, on replicas * degree devices of
// one class.
//
// Links. A transfer between two stages takes what the slowest link from a
// device of one to a device of the other takes, an all-reduce has the slowest
// link among its devices. Where all links are alike, that is all. Where they
// are not, the problem is solved for each link in place of all others, for the
// devices of single groups, with replicas for the levels of the network
// (HierarchicalPartitioner.h), and for stages on neighbouring devices; the plan
// that is best by the links of its own devices wins. Its lower bound is that of
// the problem with the fastest link everywhere, which no plan on any devices
// undercuts.
//
// Cost of a stage with kernels S, m replicas, degree t (seconds per
// micro-batch; bandwidth B):
//   compute       = sum of the times of its kernels' variants / m
//   communication = sum over the values with an end (producer or reader) in S
//                   and one outside of its transfer time, both ways, / m:
//                   once per producer (to its slowest reader) and reading
//                   device (J. Tarnawski et al.,
//                   "Efficient Algorithms for Device Placement of DNN Graph
//                   Operators", NeurIPS 2020)
//   sync          = (f (m - 1) / m * parameters / B + 2 (m - 1) latency)
//                   / micro-batches, f = allReduceFactor: a ring all-reduce
//   cost          = Added:      compute + communication + sync
//                   Overlapped: max(compute, communication) + sync
//                   Ignored:    compute
// Objective::PipeDream has its own cost, see PipeDreamForm.
//
// Guarantee. `exact` says that no partition of this problem, on any of its
// devices, has a smaller value (up to rounding, 1e-9 of it); lowerBound then
// equals the value.
// Otherwise lowerBound is one that no partition goes below.
//
// Method.
//  1. Kernels that must stay together are merged (classes, and cycles that
//     this makes), then kernels that cost nothing and can be moved to a
//     neighbour without loss. Bytes cost something if memory is limited and not
//     everything fits on one device, parameters also if stages may have
//     replicas. Where they do, the problem is solved as if kernels that take no
//     time kept none; if that plan fits with them, no other is better.
//  2. If the ideals of what remains are at most `limits.ideals` (and ideals *
//     states at most 10^8): a dynamic program over ideals (Tarnawski et al.),
//     exact. best(I, devices used) = min over ideals J inside I of max(best(J,
//     ..), cost(I - J)). Pairs (J, I) are walked from I down, one kernel at a
//     time, with the cost updated in place, only while the compute time of I -
//     J is at most an upper bound U; no pair is stored. U is the value of the
//     best of several topological orders, or else grows from the lower bound. I
//     is a border only if the work inside and outside fits into the devices
//     within U. For FlushLatency each state keeps the pairs (largest, sum) that
//     no other pair dominates.
//  3. Else the heuristic: the same dynamic program on several topological
//     orders (a chain of ideals each); then, until nothing gets better, all
//     kernels far from the borders of the best plan are merged with their
//     stage, and what remains is solved exactly; and the kernels are sorted by
//     the result for a chain once more. It is deterministic. Its lower bound is
//     the work over the devices, the largest kernel, and for added transfers on
//     one device per stage a Lagrangian bound on the transfers of the stage
//     around each kernel, by minimum cuts.
//
// Limits. When steps or time run out, the answer is the best plan so far, or,
// if there is none, the best one of a sequence of a few merged groups; it fails
// if there is none of those either. It then has a lower bound as the heuristic,
// and says what stopped it. Graphs of many thousand kernels may take seconds
// longer than the deadline.
//
// Variants. Within a stage each kernel takes its fastest variant; where that
// needs too much memory, the fastest choice that fits is found by merging
// lists of (time, memory) that do not dominate each other, for each bound on
// the workspace. Exact while a list has at most 4,096 entries; if one has
// more, every plan is reported as not exact.
//
// Cost. I ideals, P pairs of nested ideals within U, s states (product of
// device counts + 1), o options (classes, degrees, replicas), d values per
// kernel: O(P (d + o s)) time, O(I width + borders s) memory. In a chain of n
// kernels and k stages P is about n^2 / k, before borders are left out.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_PARTITION_GRAPHPARTITIONER_H
#define PP_PLANNER_PARTITION_GRAPHPARTITIONER_H

#include "pp/Planner/Cluster.h"
#include "pp/Planner/Graph.h"
#include "pp/Planner/Partition/Objective.h"
#include "pp/Planner/Result.h"
#include <chrono>
#include <functional>

namespace pp::planner {

/// The cost of a stage with compute time C, parameters P and m replicas, and
/// of a cut that values of a bytes (both ways) cross:
enum class PipeDreamForm {
  /// (C + 4 (m - 1) / m * P / B) / m, and a / (B m) with the m of the stage
  /// after the cut and, unless it is the first, of the stage before it: what
  /// the authors' program computes.
  Code,
  /// max(C, 2 (m - 1) P / B) / m, and a / B: what the paper says.
  Paper
};

/// How far a search has come.
struct PartitionProgress {
  /// Ideals that are done and that there are, in this round of the search; 0
  /// of 0 in the heuristic.
  size_t done = 0, ideals = 0;
  /// Of the best plan so far, in the unit of the objective; none yet: 0.
  double value = 0;
  double lowerBound = 0;
};

struct PartitionLimits {
  /// With more ideals the heuristic is used. 0: always.
  size_t ideals = 200000;
  /// Rounds of local search of the heuristic.
  int rounds = 40;
  /// The most stages that a search looks at, each with all that may come before
  /// it; about 10^7 take some seconds. 0: no limit. The same answer on every
  /// machine, unlike the deadline.
  uint64_t steps = 0;
  /// When to stop. It is looked at every few milliseconds.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  /// Called every few milliseconds.
  std::function<void(const PartitionProgress &)> report = {};
};

/// What ended a search before its own end.
enum class SearchStop { None, Steps, Time };

struct PartitionProblem {
  const Graph *graph = nullptr;
  const Cluster *cluster = nullptr;
  /// 0: as many as there are devices.
  size_t maxStages = 0;
  /// There must be maxStages stages; else at most that many.
  bool exactStageCount = false;
  Objective objective = Objective::Time;
  Communication communication = Communication::Added;
  /// Of one mini-batch: for FlushLatency and for the share of the all-reduce.
  int microbatches = 1;
  MemoryModel memory = {};
  /// No device may need more than its memory.
  bool limitMemory = false;
  /// Stages may have several replicas, for which micro-batches take turns.
  bool replicate = false;
  /// The replicas of a stage divide the micro-batches evenly.
  bool replicasDivideMicrobatches = false;
  /// Every device must be used.
  bool useAllDevices = false;
  double allReduceFactor = 2;
  PipeDreamForm form = PipeDreamForm::Code;
  /// Not empty: the user's cuts in the order of the graph, the index of the
  /// first kernel of stage 1, 2, ...; stage s runs on device s.
  std::vector<size_t> cuts = {};
  PartitionLimits limits = {};
};

struct PlannedStage {
  std::vector<size_t> kernels; // Ascending.
  /// Replica r has devices [r * degree, (r + 1) * degree).
  std::vector<size_t> devices;
  int replicas = 1;
  int degree = 1;
  /// Seconds per micro-batch, each share as in the cost.
  double computeTime = 0;
  double communicationTime = 0;
  double syncTime = 0;
  double memoryBytes = 0; // On each device.
  double cost = 0;        // In the unit of the objective.
};

struct PartitionSolution {
  std::vector<int> stageOf;   // Per kernel.
  std::vector<int> variantOf; // Per kernel; 0 is the kernel itself.
  std::vector<PlannedStage> stages;
  double value = 0;
  double lowerBound = 0;
  bool exact = false;
  /// "chain", "ideals", "heuristic", "cuts" or "levels".
  std::string method;
  /// Counted after merging; 0 if they are too many to count.
  size_t ideals = 0;
  /// The limit that cut the search, or one of its parts, short. With
  /// SearchStop::Time another run may give another plan.
  SearchStop stopped = SearchStop::None;

  double gap() const { return lowerBound > 0 ? value / lowerBound - 1 : 0; }
};

/// The first reason why the problem cannot be solved, or nothing.
std::optional<std::string> check(const PartitionProblem &problem);

/// Fails if check() does, and if no partition meets the constraints.
Result<PartitionSolution> partitionGraph(const PartitionProblem &problem);

/// Computes everything that the solution states afresh, kernel by kernel, and
/// checks every constraint. The first fault, or nothing. O(kernels * variants
/// + edges * log stages).
std::optional<std::string> verify(const PartitionProblem &problem,
                                  const PartitionSolution &solution);

} // namespace pp::planner

#endif // PP_PLANNER_PARTITION_GRAPHPARTITIONER_H
