//===- Verify.h - Prove that a schedule is right --------------------------===//
#ifndef PP_PLANNER_SCHEDULE_VERIFY_H
#define PP_PLANNER_SCHEDULE_VERIFY_H

#include "pp/Planner/Schedule/Schedule.h"
#include "pp/Planner/Schedule/Slots.h"

namespace pp::planner {

/// When a send may go on.
struct SendRule {
  enum class Kind {
    /// Its receiver has reached the receive.
    Rendezvous,
    /// Fewer than `capacity` values of the channel are sent and not received.
    Buffered,
    /// Its receive slot was released: what the runtime does.
    Slots,
    /// Always.
    Unbounded
  };
  Kind kind = Kind::Rendezvous;
  /// Buffered: per channel, or one entry for all. 0 is a rendezvous.
  std::vector<int> capacity;
  /// Slots: must outlive the call.
  const SlotAssignment *slots = nullptr;
};

/// Proves of a schedule with or without transfers:
///  * completeness: every stage runs F once per micro-batch and, in training,
///    B, or I and W, once; R at most once; U once and last. A replica does so
///    for its own micro-batches;
///  * order: F, R, I, W of a micro-batch; a value is made before it is sent
///    and received before it is read;
///  * matching: one SEND and one RECV per channel and micro-batch, in the same
///    order at both ends;
///  * collectives: every rank of a group runs it once, after the last W and
///    before U of its stages in the group (the norm after all other groups of
///    these), and ranks run the groups they share in one order;
///  * termination under `rule`, by running it. Transfers that are not in the
///    schedule take place by themselves.
/// Returns all faults of the first kind that has any, each a sentence that
/// names actions; a deadlock comes with the circle of waiting ranks and what
/// each has done last. Linear in actions, times channels per stage, and
/// quadratic in the groups of a rank.
std::vector<std::string> verifySchedule(const Schedule &schedule,
                                        const SendRule &rule = {});

/// Proves of a verified schedule that `slots` keeps every value from when it is
/// written to when it is last read: a residual slot is free when F (or R)
/// writes it, and holds the micro-batch when I, W and B read it; a send slot
/// does from the action that makes the value to SEND; a receive slot from RECV
/// to its release, and no reader comes after that. Returns all faults, each
/// with the part of the rank's list in which it is. Linear in actions, times
/// channels per stage.
std::vector<std::string> verifySlots(const Schedule &schedule,
                                     const SlotAssignment &slots);

/// The least number of buffers per channel (freed by RECV) with which the
/// schedule completes, if all channels have the same: 0 is a rendezvous. -1 if
/// no number will do. Needs a schedule that is otherwise right.
/// O(actions log microbatches).
int minimalCapacity(const Schedule &schedule);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_VERIFY_H
