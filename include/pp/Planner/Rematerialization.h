//===- Rematerialization.h - What is computed again -------------*- C++ -*-===//
//
// A value that a later phase needs is kept until then, or computed again there,
// which needs the values that it is made of in the same way.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_REMATERIALIZATION_H
#define PP_PLANNER_REMATERIALIZATION_H

#include <cstddef>
#include <vector>

namespace pp::planner {

/// Costs have any unit, but all the same one; they are not negative.
struct RematerializationProblem {
  struct Value {
    /// Of having it later by either way; infinity where it cannot be had so.
    /// Not both may be infinity.
    double keep = 0, recompute = 0;
    /// What it is made of.
    std::vector<size_t> operands;
    /// Whether the later phase reads it.
    bool isRead = false;
  };
  std::vector<Value> values;
};

struct Rematerialization {
  std::vector<bool> isKept, isRecomputed; // by value; neither: not needed
  double cost = 0;
};

/// The choice with the least sum of costs; exact, as a least cut (He and Yu,
/// "Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion
/// Aware", MLSys 2023). Of several, the one that recomputes the fewest values.
Rematerialization rematerialize(const RematerializationProblem &problem);

} // namespace pp::planner

#endif // PP_PLANNER_REMATERIALIZATION_H
