//===- Transfers.h - Add sends and receives to a schedule -----------------===//
#ifndef PP_PLANNER_SCHEDULE_TRANSFERS_H
#define PP_PLANNER_SCHEDULE_TRANSFERS_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

/// Gives `schedule` its channels and the actions that move their values. The
/// result completes even if every send waits for its receive (rendezvous), and
/// so with any number of buffers.
///
/// A send directly follows the action that makes the value, so that nobody
/// waits for it longer than needed; a receive directly precedes the action that
/// needs the value, so that it holds a buffer no longer than needed. In many
/// schedules (1F1B) two neighbours would then stand in sends to each other.
/// The method runs the ranks with rendezvous sends until none can move, and
/// moves one receive forward to the point where its rank stands: the one whose
/// value is needed soonest there. Receives so come as late as this order
/// allows, and the moves that are made are needed. The state in which no rank
/// can move does not depend on the order in which ranks were tried, so neither
/// does the result.
///
/// Fails if the schedule already has transfers, or if the actions themselves
/// wait for each other in a circle. O(actions + transfers * ranks).
Result<Schedule> insertTransfers(const Schedule &schedule,
                                 std::vector<Channel> channels);

/// `schedule` with the sends of each run of transfers, in which a rank computes
/// nothing, before its receives: what happens where a send waits for nobody,
/// since the value has a buffer and whoever moves it works beside the rank.
/// Between sends, and between receives, the order stays.
///
///   B0 RECV_F1 SEND_B0 RECV_F2 F1   becomes   B0 SEND_B0 RECV_F1 RECV_F2 F1
///
/// Completes only with as many buffers as it then needs; see verifySchedule.
Schedule sendEarly(Schedule schedule);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_TRANSFERS_H
