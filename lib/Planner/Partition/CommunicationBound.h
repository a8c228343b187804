//===- CommunicationBound.h - What transfers cost every partition ---------===//
#ifndef PP_LIB_PLANNER_PARTITION_COMMUNICATIONBOUND_H
#define PP_LIB_PLANNER_PARTITION_COMMUNICATIONBOUND_H

#include "GroupGraph.h"

namespace pp::planner::partition {

/// Seconds that the largest stage of every partition costs at least, if each
/// stage runs on one device, all devices communicate and transfers take the
/// stage's time (Communication::Added); else, or with more than 5,000 groups,
/// 0.
///
/// Let w(S) be the work of a set of groups and c(S) its transfers. If a stage S
/// with group v costs at most T, then for every u > 0
///
///   c(S) >= c(S) + u (w(S) + c(S) - T) >= cut(v, u) - u T,
///   cut(v, u) = min over sets S with v of (1 + u) c(S) + u w(S)
///
/// The minimum is one cut of least capacity. So S has at most T - c(v) for its
/// work, c(v) the largest of these bounds, and its groups' w(v) / (T - c(v))
/// add up to 1 at most, those of all k stages to k. A T for which they add up
/// to more is too small. A Lagrangian bound: for a chain of equal cuts t it is
/// about W / k + 2 t (1 - 1 / k). Six maximum flows per group, which share a
/// limit on arcs: at most about a second. What flows by then is a bound too.
double communicationBound(const CostModel &model, const GroupGraph &graph);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_COMMUNICATIONBOUND_H
