//===- AssignSlots.h - Slots of a schedule ----------------------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_ASSIGNSLOTS_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_ASSIGNSLOTS_H

#include "ScheduleIO.h"
#include "pp/Planner/Schedule/Slots.h"

namespace pp::pipeline {

/// Gives the actions of a verified schedule their residual slots, and the
/// channels their send and receive slots and release. Entry i of the result's
/// channels is channel i of the table, and entry s of its stages stage s. With
/// replicas of stages, these are enough for each of them: a channel has slots
/// of its own for each replica at its other end.
planner::SlotAssignment assignSlots(ScheduleOp op,
                                    const ChannelTable &channels);

/// Slots of stages and listed channels, as assignSlots returns them, for the
/// stages and channels of `schedule`, which may be copies of these.
planner::SlotAssignment spreadSlots(const planner::Schedule &schedule,
                                    const std::vector<planner::Channel> &listed,
                                    const planner::SlotAssignment &slots);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_ASSIGNSLOTS_H
