//===- Schedule.h - What every rank does in one step ----------------------===//
#ifndef PP_PLANNER_SCHEDULE_SCHEDULE_H
#define PP_PLANNER_SCHEDULE_SCHEDULE_H

#include "pp/Planner/Result.h"
#include "pp/Planner/Schedule/Action.h"
#include <optional>
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

/// A stage of a schedule may be one of several copies of a part of the model,
/// each with the same parameters: data parallelism. Micro-batch i belongs to
/// copy i modulo their number.
///
///   parts         0       1      2        replicas of a part: 2, 1, 1
///   stages      0   1     2      3        numbers in actions and channels
struct Replica {
  int part = 0;
  int number = 0, count = 1;

  bool operator==(const Replica &) const = default;
};

/// Ranks that add up values of their stages once per step.
struct RankGroup {
  enum class Kind {
    /// Gradients of one part, over its replicas.
    Gradients,
    /// Gradients of a parameter that several parts use, over all replicas of
    /// these. A rank with several of them adds up its own before.
    TiedGradients,
    /// The square of the gradients' norm, for clipping.
    Norm
  };
  std::string name;
  Kind kind = Kind::Gradients;
  std::vector<int> stages; // Ascending.
  int64_t bytes = 0;

  bool operator==(const RankGroup &) const = default;
};

/// One list of actions per rank. Which rank has which stage is free: several
/// stages on one rank is interleaving.
struct Schedule {
  int stages = 0;
  int microbatches = 0;
  std::vector<int> rankOfStage;
  std::vector<std::vector<Action>> ranks;
  std::vector<Channel> channels;
  std::vector<RankGroup> groups;
  /// Per stage. Empty: every stage is a part of its own.
  std::vector<Replica> replicas;
  /// Without a flush: the weight versions that each stage keeps; see Rolling.h.
  /// Empty: a step ends before the next one begins.
  std::vector<int> versions;
  /// Of virtual workers, of which this is one: how many waves the weights that
  /// they share may be behind; see Waves.h. Nothing: there are none.
  std::optional<int> clockDistance;

  bool isRolling() const { return !versions.empty(); }
  /// Versions that a stage makes in a step. Without a flush, replicas of stages
  /// make one for each micro-batch of each.
  int updatesOf(int stage) const {
    if (clockDistance)
      return microbatches;
    return isRolling() && !replicas.empty()
               ? microbatches / replicas[stage].count
               : 1;
  }
  bool hasTransfers() const;
  bool isTraining() const;
  /// False for a channel between two stages of one rank: nothing is sent.
  bool crossesRanks(const Channel &channel) const {
    return rankOfStage[channel.from] != rankOfStage[channel.to];
  }
  Replica replicaOf(int stage) const {
    return replicas.empty() ? Replica{stage, 0, 1} : replicas[stage];
  }
  /// Parts of the model, that is stages without replicas.
  int parts() const;
  /// False for a micro-batch of another replica.
  bool runs(int stage, int microbatch) const {
    return replicas.empty() ||
           microbatch % replicas[stage].count == replicas[stage].number;
  }
  /// Does a value of this micro-batch go through the channel?
  bool carries(const Channel &channel, int microbatch) const {
    return runs(channel.from, microbatch) && runs(channel.to, microbatch);
  }
  /// The ranks of a group, ascending. O(stages of the group, with logarithm).
  std::vector<int> ranksOf(const RankGroup &group) const;
  /// "stage 3", or "stage 3 (replica 1 of part 2)".
  std::string describe(int stage) const;
};

/// The channels of a plain pipeline of `stages` stages: activations to the
/// next stage and, in training, gradients back. `lastReader` says how long the
/// activation is needed; `bytes` is the size of each.
std::vector<Channel> neighborChannels(int stages, bool training,
                                      Phase lastReader = Phase::BackwardWeight,
                                      int64_t bytes = 0);

/// PyTorch's notation: `0F0`, `1B3`, `1I3`, `1W3`, `0R2`, `0SEND_F1`,
/// `1RECV_F1`, `0SEND_B1`; the update, which PyTorch does not schedule, is
/// `0U`, and what is computed of parameters alone at the beginning `0P`.
/// `SEND_F` sends a value of a forward pass, `SEND_B` one of a backward pass.
/// Where a stage has several such channels, the channel follows: `0SEND_F1#2`.
/// Collectives are `0REDUCE_GRAD` and, with the number of the group,
/// `0ALLREDUCE#1`; the stage is the first of the group on the rank.
std::string toString(const Action &action,
                     const std::vector<Channel> &channels);

/// One line per rank, actions separated by commas: what PyTorch's CSV files
/// of schedules hold.
std::string toString(const Schedule &schedule);

/// Reads what toString writes, with the given channels and groups. Stages go to
/// the rank in whose line they first appear; empty fields are skipped. Errors
/// name line and field. Checks the notation only, not the schedule. The text
/// does not say which stages are replicas.
Result<Schedule> parseSchedule(std::string_view text,
                               std::vector<Channel> channels = {},
                               std::vector<RankGroup> groups = {});

struct ImportedSchedule {
  Schedule schedule;
  /// What was read in another sense than it says, one sentence each.
  std::vector<std::string> notes;
};

/// Reads a CSV file of torch.distributed.pipelining, with or without transfers.
/// In addition to parseSchedule:
///  * `(0F7;7B3)OVERLAP_F_B` is read as its actions in their order;
///  * `UNSHARD` and `RESHARD` actions are skipped, and `REDUCE_GRAD` if no
///    groups are given;
///  * older files write BW for B, and B for I where there is a W;
///  * a training schedule without updates gets one per stage, at the end.
/// All but the first are noted.
Result<ImportedSchedule>
importPyTorchSchedule(std::string_view text, std::vector<Channel> channels = {},
                      std::vector<RankGroup> groups = {});

/// Reads such a file and takes the order of its computations. Sends and
/// receives are those of a plain pipeline, as PyTorch has them; the file is
/// proven with them, by verifySchedule where sends are buffered, which is what
/// PyTorch assumes, and then they are removed (and noted): insertTransfers
/// places the channels that the stages of a model have. Fails with all faults
/// of the first kind.
Result<ImportedSchedule> importComputation(std::string_view text);

/// The reverse: what PyTorch can read, so without P and U. Fails if the
/// schedule has a recompute, a collective other than `REDUCE_GRAD`, or a send
/// that needs the number of its channel.
Result<std::string> exportPyTorchSchedule(const Schedule &schedule);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_SCHEDULE_H
