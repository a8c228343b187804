//===- GrowingStage.h - A stage that takes one group after the other ------===//
#ifndef PP_LIB_PLANNER_PARTITION_GROWINGSTAGE_H
#define PP_LIB_PLANNER_PARTITION_GROWINGSTAGE_H

#include "GroupGraph.h"
#include "VariantChoice.h"

namespace pp::planner::partition {

/// What a set of groups costs as a stage, updated with each group that is added
/// or taken away again: O(modes + values of the group).
class GrowingStage {
public:
  GrowingStage(const CostModel &model, const VariantChooser &chooser,
               const GroupGraph &graph);

  void add(uint32_t group);
  /// Takes the last group away; everything is again as it was before, to the
  /// bit.
  void undo();
  bool empty() const { return groups.empty(); }

  /// Seconds of its kernels with their fastest variants.
  double time(size_t mode) const { return load(mode).time; }
  const Load &load(size_t mode) const {
    return loads[groups.size() * modes + mode];
  }
  /// Seconds of the values that have an end inside and one outside.
  double communication() const {
    return levels.back().communication > 0 ? levels.back().communication : 0;
  }
  /// The stage that its kernels want, or -1.
  int hint() const { return levels.back().hint; }

  /// False if neither it nor anything larger can be a stage of at most this
  /// cost.
  bool canCost(double bound) const;

  /// With the fastest variants that fit into the memory, or nothing if there
  /// are none.
  std::optional<CostParts> cost(size_t mode, int replicas, int inFlight,
                                const Surroundings &around);

  /// False if variants were chosen by a list that was cut short.
  bool isExact() const { return variantsExact; }

private:
  struct Level {
    double communication = 0;
    int hint = -1;
    bool hintsClash = false;
  };

  bool isLeanEnough(double bound) const;
  std::optional<double> fittingTime(size_t mode, int inFlight);

  const CostModel &model;
  const VariantChooser &chooser;
  const GroupGraph &graph;
  size_t modes;
  std::vector<Load> fastest, leanest; // Per group and mode.

  std::vector<uint32_t> groups;
  std::vector<uint32_t> pins; // Inside, per net.
  /// With the first 0, 1, ... groups. Per mode, with the fastest variants, and
  /// what no choice goes below if memory counts; the rest is left over.
  std::vector<Level> levels;
  std::vector<Load> loads, lean;
  /// Per mode and micro-batches in flight, for the groups at hand.
  std::vector<std::pair<std::pair<size_t, int>, std::optional<double>>> fits;
  bool variantsExact = true;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_GROWINGSTAGE_H
