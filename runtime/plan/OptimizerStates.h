//===- OptimizerStates.h - Where the optimizer's states lie -----*- C++ -*-===//
//
// Most states have a number for each of a parameter, and lie as parameters do:
//
//   | exp_avg of all parameters | exp_avg_sq of all parameters |
//
// Those of Adafactor are smaller. They lie behind the others, one state after
// the other, a parameter's at multiples of 64 bytes.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_OPTIMIZERSTATES_H
#define PP_RUNTIME_PLAN_OPTIMIZERSTATES_H

#include "plan/Plan.h"

#include <string_view>

namespace pp::runtime {

/// What numbers a state has of a parameter. The last two axes of one that has
/// at least two are matrices.
enum class StateForm {
  Whole,   ///< one for each number
  Rows,    ///< one for each row of matrices
  Columns, ///< one for each column
  Vector   ///< one for each number of what has no matrices
};

/// The form of a state of this name.
StateForm formOf(std::string_view state);

/// The shape of a state of a parameter; none: there is no such state of it.
std::optional<Shape> shapeOf(std::string_view state, const Shape &parameter);

/// The bytes of such a state, without what follows it to a multiple of 64.
uint64_t bytesOf(std::string_view state, DataType type, const Shape &parameter);

/// How many states have the form of their parameters.
unsigned countWhole(const std::vector<std::string> &states);

/// The bytes of all states of a stage, whose parameters take
/// `parameterBytes`.
uint64_t stateBytes(const std::vector<std::string> &states, DataType type,
                    const std::vector<Shape> &parameters,
                    uint64_t parameterBytes);

/// Where a state of one of the stage's parameters lies in the area `optimizer`.
uint64_t stateOffset(const PlanOptimizer &optimizer, const PlanStage &stage,
                     const PlanTensor &parameter, unsigned state);

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_OPTIMIZERSTATES_H
