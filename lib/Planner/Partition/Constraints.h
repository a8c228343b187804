//===- Constraints.h - Where a chain may be cut ---------------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_CONSTRAINTS_H
#define PP_LIB_PLANNER_PARTITION_CONSTRAINTS_H

#include "pp/Planner/Partition/ChainPartitioner.h"

namespace pp::planner {

/// Hints and classes, as a property of boundaries. Stage s may begin at kernel
/// b if no class reaches over b, every hint before b is below s, and every
/// hint from b on is s or more; a partition whose boundaries are all allowed
/// meets all hints.
class Constraints {
public:
  explicit Constraints(const ChainProblem &problem);

  bool allows(size_t stage, size_t boundary) const {
    return !torn[boundary] &&
           hintBefore[boundary] < static_cast<int64_t>(stage) &&
           static_cast<int64_t>(stage) <= hintAfter[boundary];
  }
  bool tearsClass(size_t boundary) const { return torn[boundary]; }
  /// Kernels with a class or a hint exist.
  bool any() const { return constrained; }
  /// Runs of kernels that no class ties together.
  size_t groups() const;

private:
  std::vector<bool> torn;
  std::vector<int64_t> hintBefore, hintAfter;
  bool constrained = false;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PARTITION_CONSTRAINTS_H
