//===- Replay.h - Run a schedule without its work -------------------------===//
//
// The one place that knows when an action may run. The verifier asks it
// whether a schedule completes, the transfer insertion where it gets stuck, and
// the simulator when everything happens.
//
//===----------------------------------------------------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_REPLAY_H
#define PP_LIB_PLANNER_SCHEDULE_REPLAY_H

#include "pp/Planner/Simulator.h"
#include <map>
#include <optional>

namespace pp::planner {

/// 0 for transfers.
double actionTime(const SimulationInput &input, const Action &action);

/// Every rank runs its list in order; an action waits for the values it needs.
/// Since no action chooses what it waits for, the state in which no rank can
/// go on, and all times, are the same in whatever order ranks are tried.
class Replay {
public:
  /// Without `input` all durations are 0. References must stay valid; indexes
  /// in the schedule must be in range.
  Replay(const Schedule &schedule, const SendRule &rule,
         const SimulationInput *input = nullptr);

  /// Runs until no rank can go on. True if all have finished.
  bool run();

  struct Wait {
    int rank = 0, forRank = 0;
    Action action;
    std::string reason; // "for rank 1 to reach 1RECV_F0"
  };
  /// Why a rank that has not finished does not go on.
  std::optional<Wait> wait(int rank) const;
  /// The circle of waiting ranks, or the waits that end at a finished rank.
  std::vector<Wait> blame() const;
  /// A sentence on the deadlock, and what each rank in it did last.
  std::string explain() const;

  /// What is done, in order, and what is left of a rank's list.
  const std::vector<Action> &list(int rank) const { return lists[rank]; }
  size_t position(int rank) const { return heads[rank]; }
  /// Moves the action at `from` to where the rank stands; run() goes on.
  void hoist(int rank, size_t from);

  const std::vector<std::vector<TimedAction>> &times() const { return timed; }

private:
  size_t index(int row, int microbatch) const {
    return size_t(row) * schedule.microbatches + microbatch;
  }
  bool step(int rank);
  bool stepTransfer(int rank, const Action &action);
  bool stepCollective(int rank, const Action &action);
  bool sendAllowed(const Action &action, double &ready) const;
  void finish(int rank, const Action &action, double start, double end);
  const Action *head(int rank) const {
    return heads[rank] < lists[rank].size() ? &lists[rank][heads[rank]]
                                            : nullptr;
  }
  int capacity(int channel) const;
  double duration(const Action &action) const;
  double transferTime(int channel) const;
  double releaseTime(int channel) const;
  double overheadTime(int channel) const;
  double occupancyTime(int channel) const;
  /// When a value that is sent at `start` arrives.
  double arrivalOf(const Action &send, double start, double transfer);
  double collectiveTime(int group) const;
  /// A value of another stage that `action` reads itself, because no RECV has
  /// waited for it.
  bool reads(const Action &action, const Channel &channel) const {
    return action.performs(channel.toPhase) &&
           !(transfersListed && schedule.crossesRanks(channel)) &&
           schedule.carries(channel, action.microbatch);
  }
  double &done(Phase phase, int stage, int microbatch) {
    return doneAt[static_cast<size_t>(phase)][index(stage, microbatch)];
  }

  const Schedule &schedule;
  const SendRule &rule;
  const SimulationInput *input;
  bool transfersListed;
  std::vector<std::vector<Action>> lists;
  std::vector<size_t> heads;
  std::vector<double> clock;
  std::vector<std::vector<TimedAction>> timed;
  /// Times at which something was done, negative if it is not.
  std::vector<double> doneAt[3];  // Per phase: stage, micro-batch.
  std::vector<double> arrivedAt;  // Channel, micro-batch: SEND is done.
  std::vector<double> releasedAt; // Channel, micro-batch: receive slot.
  std::vector<std::vector<double>> receivedAt; // Channel: RECVs in order.
  std::vector<int> sent;                       // Channel: SENDs.
  // Channel, micro-batch: the micro-batch that had the receive slot before, and
  // the one that had the send slot; or -1.
  std::vector<int> slotPredecessor, sendPredecessor;
  std::vector<double> leftAt;              // Channel, micro-batch: send slot.
  std::vector<std::vector<int>> incoming;  // Stage: channels.
  std::vector<std::vector<int>> outgoing;  // Stage: channels.
  std::vector<std::vector<int>> neighbors; // Rank: ranks to look at again.
  std::vector<std::vector<int>> members;   // Group: ranks.
  std::vector<std::vector<int>> present;   // Group: ranks that stand there.
  std::vector<int> released;               // Ranks that a collective freed.
  /// From rank to rank: when the last value that was sent has left.
  std::map<std::pair<int, int>, double> wayFreeAt;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_REPLAY_H
