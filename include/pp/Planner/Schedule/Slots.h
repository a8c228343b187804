//===- Slots.h - Which buffer each micro-batch uses -----------------------===//
#ifndef PP_PLANNER_SCHEDULE_SLOTS_H
#define PP_PLANNER_SCHEDULE_SLOTS_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

struct StageSlots {
  /// Residual slots of the stage.
  int count = 0;
  /// Per micro-batch (of another replica: 0): the slot of F, and that of R and
  /// the backward actions.
  /// They differ only where a micro-batch is recomputed: what F saved is then
  /// lost at once.
  std::vector<int> forward, backward;
};

/// A channel between two stages of one rank has no send slots: the value is
/// made in its receive slot.
struct ChannelSlots {
  int sendCount = 0, receiveCount = 0;
  std::vector<int> send, receive; // Per micro-batch.
  /// The receiver's action that frees the receive slot: the first kind, at or
  /// after the last reader, that every micro-batch has. (With except_last only
  /// some have an R.)
  ActionKind release = ActionKind::Forward;
};

struct SlotAssignment {
  std::vector<StageSlots> stages;
  std::vector<ChannelSlots> channels;
};

struct SlotOptions {
  /// How many values a channel may hold beyond those the receiver needs, so
  /// that the sender can go ahead. 0 is the least memory, and what a rendezvous
  /// allows.
  int receiveSlack = 0;
};

/// Assigns slots by the lifetimes on the action lists: a residual lives from F
/// (or R) to the last backward action, a sent value from its action to the
/// SEND, a received one from the RECV to the release. Each count is the largest
/// number of lives at once, which no assignment undercuts; the lowest free slot
/// is taken. Needs a verified schedule with transfers.
/// O(actions log microbatches).
SlotAssignment assignSlots(const Schedule &schedule, SlotOptions options = {});

/// What plans and programs have: assignSlots, with a receive slot more for each
/// channel where that shortens a step in which F, I, W and R last equally long.
/// Else ranks would stand in sends, as in ZB-H2, which goes ahead of its
/// receiver. Depends on nothing but the schedule, so that what is compiled has
/// the memory that was planned. Simulates up to three steps.
SlotAssignment chooseSlots(const Schedule &schedule);

/// The most bytes that each rank keeps: F adds `forwardBytes` of its stage, I
/// replaces them by `weightBytes`, W frees these. One
/// entry per stage, one for all, or none for 0.
std::vector<int64_t> peakBytes(const Schedule &schedule,
                               const std::vector<int64_t> &forwardBytes,
                               const std::vector<int64_t> &weightBytes);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_SLOTS_H
