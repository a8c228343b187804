//===- Heuristic.h - Good plans for graphs with too many ideals -----------===//
#ifndef PP_LIB_PLANNER_PARTITION_HEURISTIC_H
#define PP_LIB_PLANNER_PARTITION_HEURISTIC_H

#include "IdealSearch.h"

namespace pp::planner::partition {

/// Different topological orders that are good starts, the first is the graph's
/// own.
std::vector<std::vector<uint32_t>> topologicalOrders(const GroupGraph &graph);

/// The best plan found, in the groups of `graph`. `reversed`: stages are
/// placed from the last to the first, as memory demands. Method:
/// GraphPartitioner.h. Stops when the budget runs out, with what it has.
std::optional<Plan> searchHeuristically(const CostModel &model,
                                        const VariantChooser &chooser,
                                        const GroupGraph &graph, bool reversed,
                                        bool exactCounts, int rounds,
                                        SearchBudget &budget);

/// The best plan of a sequence of at most 32 sets of neighbours in the graph's
/// order: quick, for when there is no time for more. None may exist though
/// there are finer ones.
std::optional<Plan> searchCoarsely(const CostModel &model,
                                   const VariantChooser &chooser,
                                   const GroupGraph &graph, bool reversed,
                                   bool exactCounts);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_HEURISTIC_H
