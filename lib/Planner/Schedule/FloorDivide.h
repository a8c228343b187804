//===- FloorDivide.h --------------------------------------------*- C++ -*-===//
#ifndef PP_LIB_PLANNER_SCHEDULE_FLOORDIVIDE_H
#define PP_LIB_PLANNER_SCHEDULE_FLOORDIVIDE_H

namespace pp::planner {

/// a / b, rounded down, for b > 0.
inline int floorDivide(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_FLOORDIVIDE_H
