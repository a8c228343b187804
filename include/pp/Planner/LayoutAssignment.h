//===- LayoutAssignment.h - In which of two layouts values lie --*- C++ -*-===//
//
// An operation works in the plain layout or in another one, and its results lie
// as it works. An operation that works otherwise than the maker of a value that
// it reads needs the value reordered; all readers share what was reordered.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_LAYOUTASSIGNMENT_H
#define PP_PLANNER_LAYOUTASSIGNMENT_H

#include <cstddef>
#include <vector>

namespace pp::planner {

/// Costs have any unit, but all the same one; they are not negative.
struct LayoutProblem {
  struct Operation {
    /// Of working in the plain layout and in the other one; infinity where it
    /// cannot. Not both may be infinity.
    double plain = 0, other = 0;
  };
  struct Value {
    size_t maker;
    std::vector<size_t> readers;
    double reorder; // either way
  };
  std::vector<Operation> operations;
  std::vector<Value> values;
};

struct LayoutAssignment {
  std::vector<bool> isOther; // by operation
  double cost = 0;
};

/// The assignment with the least sum of the costs of operations and of
/// reordered values; exact, as a least cut (Kolmogorov and Zabih, "What Energy
/// Functions Can Be Minimized via Graph Cuts?", PAMI 2004). Of several, the one
/// with the fewest operations in the other layout.
LayoutAssignment assignLayouts(const LayoutProblem &problem);

} // namespace pp::planner

#endif // PP_PLANNER_LAYOUTASSIGNMENT_H
