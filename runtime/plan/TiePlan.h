//===- TiePlan.h - Gradients of parameters that several stages have -------===//
//
// A plan lists, per tied parameter, where its stages add up their parts of the
// gradient. Here the transfers and sums are made by which they are added once
// per step, as those between replicas are (ReplicatePlan.h):
//
//   rank of stage 0 (first part)     ... W  RECV  SUM_GRAD  SEND  U
//   rank of stage 3                  ... W  SEND            RECV  U
//
// The sum is in the order of the parts, so its bits depend neither on the cut
// nor on time. Ranks with such a stage do their updates last, and all transfers
// in one common order: none waits in a circle, even where a send waits for its
// receive.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_TIEPLAN_H
#define PP_RUNTIME_PLAN_TIEPLAN_H

#include "plan/Plan.h"

namespace pp::runtime {

/// Adds channels, sums and actions for the ties of a checked plan of all
/// replicas.
void addTies(Plan &plan);

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_TIEPLAN_H
