//===- WeightsTogether.h - Backward of weights for several micro-batches --===//
#ifndef PP_PLANNER_SCHEDULE_WEIGHTSTOGETHER_H
#define PP_PLANNER_SCHEDULE_WEIGHTSTOGETHER_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

/// Lets W of a stage wait until `together` of them can follow each other, or as
/// many as are left; B becomes I and W. The executor runs those that stand side
/// by side as one, which passes once over the gradients:
///
///   together = 1    F0 B0 F1 B1 F2 B2 F3 B3 U
///              2    F0 I0 F1 I1 W0 W1 F2 I2 F3 I3 W2 W3 U
///
/// Their order stays what it was, and so do the bits. A stage keeps up to
/// `together` - 1 micro-batches more, and ranks may wait longer for its I. For
/// schedules with a flush, before R and transfers are inserted.
/// O(actions).
void joinWeights(Schedule &schedule, int together);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_WEIGHTSTOGETHER_H
