//===- PlanMemory.h - What a plan's stages take -----------------*- C++ -*-===//
#ifndef PP_LIB_PLANNER_PLANMEMORY_H
#define PP_LIB_PLANNER_PLANMEMORY_H

#include "pp/Planner/PlanEvaluation.h"

namespace pp::planner {

/// Adds slots, channels and memory to the loads of a draft's stages, whose
/// schedule with its transfers is `schedule`. Returns the bytes of each rank.
std::vector<int64_t> countMemory(const PlanDraft &draft,
                                 const Schedule &schedule,
                                 const SlotAssignment &slots,
                                 std::vector<StageLoad> &stages);

/// The first rank that needs more than its device has, as a sentence.
std::optional<std::string> findOverflow(const PlanDraft &draft,
                                        const std::vector<int64_t> &peakBytes);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANMEMORY_H
