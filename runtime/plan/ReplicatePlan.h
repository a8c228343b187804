//===- ReplicatePlan.h - Copies of a pipeline, side by side ---------------===//
//
// A plan with replicas lists what one copy does. To the executor and to the
// transports, the copies are stages, channels and ranks like all others: here
// they are made, and with them the transfers by which copies add up their
// gradients and statistics.
//
//   two copies of two stages       stages   0  1  2  3     number s * R + q
//                                  ranks    0  1  2  3     number r * R + q
//                                  part     0  0  1  1
//                                  copy     0  1  0  1
//
// Copy q runs the micro-batches k * R + q of the step. Where stages have
// unequal numbers of copies, each copy has a channel to all copies with which
// it may have a micro-batch in common.
//
// Adding up: the area is cut into R parts, and copy j adds up part j.
//
//            copy 0                copy 1
//   area     | a0     | a1     |   | b0     | b1     |
//   1.       a1 -------------------> exchange
//            exchange <----------- b0
//   2.       | a0+b0  |               | a1+b1  |
//   3.       part 0 --------------->  <---------- part 1
//   area     | a0+b0  | a1+b1  |   | a0+b0  | a1+b1  |
//
// Each value is a sum in the order of the copies, so its bits depend neither on
// the way nor on the time that the parts take. All copies do the transfers that
// they have in one common order, so none waits in a circle, even where a send
// waits for its receive.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_REPLICATEPLAN_H
#define PP_RUNTIME_PLAN_REPLICATEPLAN_H

#include "plan/Plan.h"

namespace pp::runtime {

/// The plan of all copies of a checked plan that lists one. Throws
/// Error(InvalidInput) where the area `exchange` of a stage is too small or a
/// fetch is not batched. Without `addsUp`, REDUCE_GRAD stays one action.
Plan replicate(const Plan &plan, bool addsUp = true);

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_REPLICATEPLAN_H
