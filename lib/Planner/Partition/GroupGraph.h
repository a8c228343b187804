//===- GroupGraph.h - Kernels that move together --------------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_GROUPGRAPH_H
#define PP_LIB_PLANNER_PARTITION_GROUPGRAPH_H

#include "CostModel.h"
#include <cstdint>

namespace pp::planner::partition {

/// A pair of kernels: the first must not be in a later stage.
using OrderEdge = std::pair<size_t, size_t>;

/// Values of the forward pass order their ends; see Kernel::backward for the
/// others. Ascending, without repetition.
std::vector<OrderEdge> orderEdges(const Graph &graph);

struct Group {
  std::vector<size_t> kernels; // Ascending.
  /// Ascending, without repetition.
  std::vector<uint32_t> before, after;
  std::vector<uint32_t> nets;
  /// Per mode, with the fastest choices; infinite time if there is none.
  std::vector<Load> fastest;
  /// Per mode: no choice needs less.
  std::vector<Load> leanest;
  /// A lower bound on what it adds to devices * cost of any stage.
  double weight = 0;
  /// No stage with it costs less.
  double least = 0;
  /// -1: any.
  int stageHint = -1;
};

/// Values between the same groups. A stage pays for a net that has a pin
/// inside and one outside.
struct Net {
  double transfer = 0;
  double crossing = 0;
  std::vector<uint32_t> pins; // Ascending, at least two.
};

/// A kernel that takes no part in the search: it goes to the earliest (latest)
/// stage of the kernels in `anchors`, or to any stage if there are none.
struct FreeKernels {
  std::vector<size_t> kernels;
  std::vector<size_t> anchors;
  bool earliest = true;
};

/// Groups in topological order.
class GroupGraph {
public:
  std::vector<Group> groups;
  std::vector<Net> nets;
  std::vector<FreeKernels> free;
  double totalWeight = 0;

  enum class Simplify {
    No,
    /// Groups without cost are merged or freed where that loses nothing: at
    /// most the number of stages that can be made gets smaller. Bytes are a
    /// cost where they count.
    Lossless,
    /// The same for all groups that take no time, as if they had no bytes to
    /// keep. What is optimal then is so if it fits with them.
    WithoutBytes
  };

  /// One group per kernel or colocation class, cycles merged. Fails where
  /// merging puts two hints together.
  static Result<GroupGraph> build(const CostModel &model, Simplify simplify);

  /// Merges groups with the same label (and the cycles that this makes).
  GroupGraph merge(const CostModel &model,
                   const std::vector<size_t> &labels) const;

  /// True if each group depends on the one before.
  bool isChain() const;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_GROUPGRAPH_H
