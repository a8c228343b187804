//===- Lattice.h - The ideals of a graph of groups ------------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_LATTICE_H
#define PP_LIB_PLANNER_PARTITION_LATTICE_H

#include "GroupGraph.h"

namespace pp::planner::partition {

/// Ideals, numbered by size: 0 is empty, the last one is everything. Each
/// knows the ideals that are smaller by one group. Reversed, sets closed under
/// successors stand in for those closed under predecessors.
class Lattice {
public:
  struct Step {
    uint32_t group;
    uint32_t ideal; // Without that group.
  };

  bool reversed = false;

  size_t size() const { return begin.size() - 1; }
  const Step *down(size_t ideal) const { return &steps[begin[ideal]]; }
  const Step *downEnd(size_t ideal) const { return &steps[begin[ideal + 1]]; }

  /// The groups of `ideal` that are not in `inside`, a smaller ideal.
  std::vector<uint32_t> difference(size_t ideal, size_t inside) const;

  /// All ideals, or nothing if there are more than `limit` or more than fit
  /// into 512 MiB. O(ideals * (width * degree + groups / 64)).
  static std::optional<Lattice> all(const GroupGraph &graph, bool reversed,
                                    size_t limit);

  /// The prefixes of a topological order.
  static Lattice chain(const std::vector<uint32_t> &order, bool reversed);

private:
  std::vector<size_t> begin;
  std::vector<Step> steps;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_LATTICE_H
