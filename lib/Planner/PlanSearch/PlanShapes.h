//===- PlanShapes.h - The shapes that a plan may have ---------------------===//
#ifndef PP_LIB_PLANNER_PLANSEARCH_PLANSHAPES_H
#define PP_LIB_PLANNER_PLANSEARCH_PLANSHAPES_H

#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/Schedule/Generators.h"

namespace pp::planner {

struct PlanShape {
  size_t graph; // Index into PlanSpace::graphs.
  int replicas, ranks, stagesPerRank;
  /// The devices of a replica follow each other, instead of those of a stage:
  /// a machine has whole pipelines, and their gradients cross the slow links.
  bool pipelinesTogether = false;
  /// Seconds. No plan of this shape takes less, whatever the partition; and
  /// what a flush of equal stages would take.
  double bound = 0, estimate = 0;

  int stages() const { return ranks * stagesPerRank; }
  /// One stage per rank, one device per stage.
  bool isPlain() const { return stagesPerRank == 1 && replicas == 1; }
};

struct ScheduleChoice {
  std::string name; // Of makeSchedule, or "auto".
  Placement placement;
};

/// The first `count` devices differ in name only.
bool areAlike(const Cluster &cluster, size_t count);

class PlanShapes {
public:
  explicit PlanShapes(const PlanSpace &space);

  /// Seconds of the step if all devices work all the time.
  double lowerBound() const;

  /// All shapes, the most promising first: the sooner a good plan is known, the
  /// more is pruned.
  std::vector<PlanShape> list() const;

  /// The parameters alone are more than all devices hold.
  bool isTooLarge(const PlanShape &shape) const;

  std::vector<ScheduleChoice> schedulesFor(const PlanShape &shape) const;

private:
  /// What a graph takes at least.
  struct GraphWork {
    /// Seconds per micro-batch on a device of speed 1 or, if times are
    /// measured, on the fastest device; and of the longest path there and back,
    /// on the fastest device.
    double total = 0, path = 0;
    bool isMeasured = false;
  };

  GraphWork workOf(const Graph &graph) const;
  double workBound(size_t graph, size_t used) const;
  std::vector<int> replicaCounts(int microbatches) const;
  std::vector<int> rankCounts(int available) const;

  const PlanSpace &space;
  size_t devices;
  std::vector<GraphWork> work; // Per graph.
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANSEARCH_PLANSHAPES_H
