//===- Collectives.h - What ranks add up together -------------------------===//
#ifndef PP_PLANNER_SCHEDULE_COLLECTIVES_H
#define PP_PLANNER_SCHEDULE_COLLECTIVES_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

/// A parameter that several parts of the model use, each with its own copy.
struct TiedParameter {
  std::string name;
  std::vector<int> parts; // Ascending, at least two.
  int64_t bytes = 0;
};

struct CollectiveOptions {
  /// Gradients that are not tied: one entry per part, one for all, or none
  /// for 0.
  std::vector<int64_t> gradientBytes = {};
  std::vector<TiedParameter> tied = {};
  /// The ranks need the norm of all gradients before they update (clipping).
  bool globalNorm = false;
};

/// Gives a training schedule, with or without transfers, its groups and their
/// actions:
///  * one group per part with several replicas;
///  * one per tied parameter whose parts are on several ranks. On one rank its
///    gradients are added up in place;
///  * the norm, of all ranks, if there are several.
/// All ranks run their groups in the order of Schedule::groups (parts from the
/// last to the first, tied parameters, norm), so that they cannot cross. Each
/// comes as soon as this order and the last W of its stages allow. If the
/// result would then not complete under rendezvous sends, ranks that stand in a
/// collective while others need their work do this work first: an action moves
/// before the collective, until the schedule completes. Updates of ranks with a
/// group go to the end of the list.
///
/// Fails if the schedule is not for training, has groups already, or does not
/// complete without them. O(actions + collectives * ranks * moves).
Result<Schedule> insertCollectives(const Schedule &schedule,
                                   const CollectiveOptions &options);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_COLLECTIVES_H
