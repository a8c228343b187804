//===- Schedule.h - What every rank does in one step ----------------------===//
#ifndef PP_PLANNER_SCHEDULE_SCHEDULE_H
#define PP_PLANNER_SCHEDULE_SCHEDULE_H

#include "pp/Planner/Result.h"
#include "pp/Planner/Schedule/Action.h"
#include <string>
#include <string_view>
#include <vector>

namespace pp::planner {

/// A value that one stage sends to another, once per micro-batch.
struct Channel {
  int from = 0, to = 0; // Stages; any two, so portals need nothing special.
  Phase fromPhase = Phase::Forward;
  /// The first phase of `to` that reads it.
  Phase toPhase = Phase::Forward;
  /// The last phase of `to` that reads it. A value that F reads and that is
  /// needed for a recompute counts as read by F only.
  Phase lastReader = Phase::Forward;
  std::string name = {};
  int64_t bytes = 0;
};

/// One list of actions per rank. Which rank has which stage is free: several
/// stages on one rank is interleaving.
struct Schedule {
  int stages = 0;
  int microbatches = 0;
  std::vector<int> rankOfStage;
  std::vector<std::vector<Action>> ranks;
  std::vector<Channel> channels;

  bool hasTransfers() const;
  bool isTraining() const;
  /// False for a channel between two stages of one rank: nothing is sent.
  bool crossesRanks(const Channel &channel) const {
    return rankOfStage[channel.from] != rankOfStage[channel.to];
  }
};

/// The channels of a plain pipeline of `stages` stages: activations to the
/// next stage and, in training, gradients back. `lastReader` says how long the
/// activation is needed; `bytes` is the size of each.
std::vector<Channel> neighborChannels(int stages, bool training,
                                      Phase lastReader = Phase::BackwardWeight,
                                      int64_t bytes = 0);

/// PyTorch's notation: `0F0`, `1B3`, `1I3`, `1W3`, `0R2`, `0SEND_F1`,
/// `1RECV_F1`, `0SEND_B1`; the update, which PyTorch does not schedule, is
/// `0U`. `SEND_F` sends a value of a forward pass, `SEND_B` one of a backward
/// pass. Where a stage has several such channels, the channel follows:
/// `0SEND_F1#2`.
std::string toString(const Action &action,
                     const std::vector<Channel> &channels);

/// One line per rank, actions separated by commas: what PyTorch's CSV files
/// of schedules hold.
std::string toString(const Schedule &schedule);

/// Reads what toString writes, with the given channels. Stages go to the rank
/// in whose line they first appear; empty fields are skipped. Errors name line
/// and field. Checks the notation only, not the schedule.
Result<Schedule> parseSchedule(std::string_view text,
                               std::vector<Channel> channels = {});

struct ImportedSchedule {
  Schedule schedule;
  /// What was read in another sense than it says, one sentence each.
  std::vector<std::string> notes;
};

/// Reads a CSV file of torch.distributed.pipelining, with or without transfers.
/// In addition to parseSchedule:
///  * `(0F7;7B3)OVERLAP_F_B` is read as its actions in their order;
///  * `UNSHARD`, `RESHARD` and `REDUCE_GRAD` actions are skipped;
///  * older files write BW for B, and B for I where there is a W;
///  * a training schedule without updates gets one per stage, at the end.
/// All but the first are noted.
Result<ImportedSchedule>
importPyTorchSchedule(std::string_view text,
                      std::vector<Channel> channels = {});

/// The reverse: what PyTorch can read, so without updates. Fails if the
/// schedule has a recompute, or a send that needs the number of its channel.
Result<std::string> exportPyTorchSchedule(const Schedule &schedule);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_SCHEDULE_H
