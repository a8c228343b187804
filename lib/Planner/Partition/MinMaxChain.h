//===- MinMaxChain.h - Cut a sequence of weights evenly -------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_MINMAXCHAIN_H
#define PP_LIB_PLANNER_PARTITION_MINMAXCHAIN_H

#include <cstddef>
#include <vector>

namespace pp::planner::partition {

/// Boundaries (0, cuts, n) of `parts` consecutive parts, none empty, whose
/// largest sum is least. Exact; O(n + parts^2 log^2 n). D. M. Nicol,
/// "Rectilinear Partitioning of Irregular Data Parallel Computations" (1994),
/// in the form of A. Pinar and C. Aykanat, "Fast Optimal Load Balancing
/// Algorithms for 1D Partitioning" (2004). Needs weights of at least 0 and
/// parts <= n.
std::vector<size_t> cutMinMax(const std::vector<double> &weights, size_t parts);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_MINMAXCHAIN_H
