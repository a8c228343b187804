//===- Infinity.h - The time of what cannot be ------------------*- C++ -*-===//
#ifndef PP_LIB_PLANNER_INFINITY_H
#define PP_LIB_PLANNER_INFINITY_H

#include <limits>

namespace pp::planner {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace pp::planner

#endif // PP_LIB_PLANNER_INFINITY_H
