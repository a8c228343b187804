//===- Waves.h - Virtual workers that a program can run -------------------===//
//
// Wave synchronous parallelism (Park et al., "HetPipe", USENIX ATC 2020) as a
// schedule without a flush (Rolling.h). The lists are those of one virtual
// worker; all workers have the same. A step is a wave of each of them: its m
// micro-batches, with an update for each, so that a step makes m versions.
// Micro-batch g of a worker (from 0, over all steps) reads in all stages, F and
// B, version max(g - m + 1, 0): what is in flight is not in it. Version n has
//
//   the updates of the worker's own micro-batches 0 ... n - 1, and
//   the waves 0 ... max(floor(n / m) - D, 0) - 1 of the other workers,
//
// where D is the clock distance: exactly those, at whatever time they come, so
// that the run has the same bits each time. The paper lets a worker have later
// waves too, where they are there.
//
//   PUSH of step t    sends the sum of the worker's updates of wave t
//   PULL of step t    gets the weights that are shared, with the waves up to t
//                     of all workers; they become version (t + 1 + D) m, or the
//                     newest one behind the last step, with the worker's own
//                     waves since t added
//
//   rank 0 of 1, m = 2, D = 1
//     0F0 version -1, 0B0 version -1, 0PULL lag 2 version 4, 0U version 1,
//     0F1, 0B1, 0U version 2, 0PUSH version 2
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_WAVES_H
#define PP_PLANNER_SCHEDULE_WAVES_H

#include "pp/Planner/Schedule/Asynchronous.h"
#include "pp/Planner/Schedule/Generators.h"

namespace pp::planner {

/// One virtual worker with `shape.microbatches` in flight, a wave. Rank r of p
/// has `stagesOfRanks[r]` stages, or one each where that is empty, and runs
/// min(m, p - r) - 1 micro-batches ahead; all stages keep m versions. A PULL
/// stands as late as it can. Fails where the numbers make no schedule.
///
/// Workers with other stages per rank have unequal cuts: the stages that all of
/// them have are what lies between two cuts of any.
Result<Schedule> makeWaveSchedule(PipelineShape shape,
                                  const std::vector<int> &stagesOfRanks = {});

/// The actions of each stage, in the order of its rank.
std::vector<std::vector<Action>> listsOfStages(const Schedule &schedule);

/// The rule of a schedule of virtual workers.
WaveRule waveRuleOf(const Schedule &schedule);

/// Proves of the lists of one worker, in a run of `steps` steps: each pass and
/// each update finds the waves in its weights that the definition above says;
/// every update is in the sum of its wave, which is pushed once, whole, and
/// kept until it is in what is pulled; what starts keeps verifyWaves. And of
/// two workers: both reach the end, also where one does not start before the
/// other has to wait for it; that one is then clockDistance waves ahead, or
/// more. Returns all faults of the first kind that has any. O(actions * steps).
std::vector<std::string> verifyWaveSchedule(const Schedule &schedule,
                                            int steps);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_WAVES_H
