//===- Rolling.h - Schedules without a flush that a program can run -------===//
//
// A run without a flush has no end of a step at which all ranks are idle, so a
// schedule of one step does not describe it. It is one list per rank all the
// same: the list runs once for each step that is handed in, and each action in
// it is for the step `lag` before that one. What would be for a step before the
// first, or after the last, is left out:
//
//   rank 0 of 2: F, B lag 1, U lag 1
//     step handed in   0    1           2           (none)
//     runs             F0   F1 B0 U0    F2 B1 U1    B2 U2
//
// Versions of weights are relative to the action's own step, too: an action of
// step t with version v uses version t + v, where version n are the weights
// after n updates, and all versions up to 0 are the first weights. Where a step
// has m updates of a stage (Waves.h, and replicas), an action uses version
// t m + v instead. Version n
// lies in slot n modulo the number that the stage keeps. So numbers are small,
// and the proof for a few steps is one for all: two values share a slot if
// their numbers differ by a multiple of its period, whatever the numbers are.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_ROLLING_H
#define PP_PLANNER_SCHEDULE_ROLLING_H

#include "pp/Planner/Schedule/Asynchronous.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Slots.h"

namespace pp::planner {

/// "pipedream", "pipedream-vertical-sync", "pipedream-2bw", "pipemare", "wsp".
std::vector<std::string_view> rollingScheduleNames();

/// Which weights the passes of the schedule of this name read; nothing for one
/// with a flush.
std::optional<WeightRule> weightRuleOf(std::string_view name);

/// 1F1B without a flush, one stage per rank, with `shape.microbatches` of them
/// per update. Stage s of p runs w = p - 1 - s micro-batches ahead and keeps
///   pipedream      w + 1 versions; an update per micro-batch
///   pipedream-vertical-sync  p; the same, and all stages read the version that
///                            stage 0 read
///   pipedream-2bw  2; at least p micro-batches per update
///   pipemare       1
///   wsp            as makeWaveSchedule says
/// The reasons are those of pipeDreamSchedule, doubleBufferedSchedule and
/// pipeMareSchedule. Fails for an unknown name, and where the shape does not
/// fit.
Result<Schedule> makeRollingSchedule(std::string_view name,
                                     PipelineShape shape);

/// "pipedream" where part s has `replicas[s]` ranks (1F1B-RR of Narayanan et
/// al., "PipeDream", SOSP 2019): micro-batch k is that of replica k modulo
/// their number, and the replicas of a part update together, with what each has
/// of one micro-batch: REDUCE_GRAD and U after each B. A replica keeps
/// pipeDreamVersions of the weights. A step has `microbatches`, which all
/// numbers of replicas must divide.
///
///   replicas 2, 1, a step of 2 micro-batches
///   rank 0 (stage 0)   0F0 version -1, 0B0 lag 1 version -1, 0U lag 1 version
///   1 rank 1 (stage 0)   0F1 version -1, 0B1 lag 1 version -1, 0U lag 1
///   version 1 rank 2 (stage 1)   1F0, 1B0, 1U version 1, 1F1 version 1, 1B1
///   version 1,
///                      1U version 2
///
/// Fails where the numbers make no schedule, and for another name.
Result<Schedule> makeRollingReplicas(std::string_view name,
                                     const std::vector<int> &replicas,
                                     int microbatches);

/// How many updates are made between the weights of a forward pass of `stage`
/// and the update that gets its gradient: 0 with a flush. Of PipeMare it is the
/// mean over micro-batches; pipeMareForwardDelay is that of a pipeline where
/// forward and backward passes run at the same time, about twice as long.
double gradientDelay(const Schedule &schedule, WeightRule rule, int stage);

/// The largest lag of an action.
int largestLag(const Schedule &schedule);

/// insertTransfers of a run of several steps, folded into one list again.
Result<Schedule> insertRollingTransfers(const Schedule &schedule,
                                        std::vector<Channel> channels);

/// The passes and transfers of a run of `steps` steps, as if it were one step
/// of steps * microbatches; one update at the end. With reductions, those of
/// each update of replicas have a group of their own.
Schedule unroll(const Schedule &schedule, int steps,
                bool withReductions = false);

/// The same run with the versions that it reads and writes.
AsynchronousSchedule unrollVersions(const Schedule &schedule, WeightRule rule,
                                    int steps);

/// Proves: the unrolled run is right (verifySchedule, under rendezvous), with
/// its reductions it completes as well, its versions are those of the rule
/// (verifyVersions), each is in its slot when it is read, its preparation too,
/// and no stage keeps more of them than that needs. Returns all faults of the
/// first kind that has any. O(actions * (lag + versions)).
std::vector<std::string> verifyRolling(const Schedule &schedule,
                                       WeightRule rule);

/// Slots of residuals and channels by the number of the micro-batch, counted
/// over all steps, modulo the length of each table: lives follow each other, so
/// the largest number of lives at once is enough. A replica takes its slots in
/// turn for its own micro-batches. The tables of a channel have one length.
SlotAssignment assignRollingSlots(const Schedule &schedule);

/// Proves of a verified schedule that these slots keep every value
/// (verifySlots), and that the run completes with them.
std::vector<std::string> verifyRollingSlots(const Schedule &schedule,
                                            const SlotAssignment &slots);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_ROLLING_H
