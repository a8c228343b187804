//===- Replicas.h - Data parallelism around and inside a pipeline ---------===//
//
//   around: two pipelines          inside: the slow part twice
//
//     rank 0 -> rank 2               rank 0 \
//     rank 1 -> rank 3                        -> rank 2 -> rank 3
//                                    rank 1 /
//
// Each replica of a part is a stage of its own in the schedule, with a channel
// to every replica with which it has a micro-batch in common. Replicas of a
// part have numbers next to each other, so that their all-reduce uses near
// ranks.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_REPLICAS_H
#define PP_PLANNER_SCHEDULE_REPLICAS_H

#include "pp/Planner/Schedule/Schedule.h"

#include <string_view>
#include <vector>

namespace pp::planner {

/// `replicas` copies of a schedule: micro-batch k of copy q is k * replicas +
/// q. Stage s becomes the stages s * replicas + q, rank r the ranks r *
/// replicas + q, and channel c, if there are transfers, the channels c *
/// replicas + q. A group becomes that of all copies of its stages. Fails if the
/// schedule has replicas already. O(actions of the result).
Result<Schedule> replicatePipeline(const Schedule &pipeline, int replicas);

/// The group of each stage's gradients, by stage: of one copy, which
/// replicatePipeline makes groups of replicas.
std::vector<RankGroup> gradientGroups(int stages);

/// Gives a training schedule, of which there will be copies, the groups of
/// gradientGroups and a REDUCE_GRAD of each stage after its last W; updates go
/// to the end of their list. Fails if the schedule is not for training or has
/// groups. O(actions).
///
///   0F0 0B0 0U   ->   0F0 0B0 0REDUCE_GRAD 0U
Result<Schedule> insertGradientReductions(const Schedule &pipeline);

/// 1F1B with a flush where part s has `replicas[s]` ranks (1F1B-RR of
/// Narayanan et al., "PipeDream", SOSP 2019, with the update at the end). With
/// N ranks in all, a replica of part s starts with
///   floor((N - 1 - sum over j < s of replicas[j]) / replicas[s])
/// forwards, as many as its micro-batches at most. The number of micro-batches
/// need not be a multiple of replicas. Fails if a replica has no micro-batch.
Result<Schedule> roundRobinSchedule(const std::vector<int> &replicas,
                                    int microbatches);

/// Such a schedule by name: "1f1b" is roundRobinSchedule; in "gpipe" and in
/// "inference", which has no backward passes, replicas run their micro-batches
/// in order. Fails for other names.
Result<Schedule> dealtSchedule(std::string_view name,
                               const std::vector<int> &replicas,
                               int microbatches);

/// Gives a training schedule of replicas a group for each part that has
/// several, and a REDUCE_GRAD in each of these replicas before its update.
void insertDealtReductions(Schedule &schedule);

/// The channels between the stages of `schedule` for `channels` between its
/// parts, each with all pairs of replicas that have a micro-batch in common.
std::vector<Channel> replicateChannels(const Schedule &schedule,
                                       const std::vector<Channel> &channels);

/// For each of the channels that replicateChannels makes, the number of that
/// which it is a copy of.
std::vector<int> findCopiedChannels(const Schedule &schedule,
                                    const std::vector<Channel> &channels);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_REPLICAS_H
