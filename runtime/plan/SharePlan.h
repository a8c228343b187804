//===- SharePlan.h - Weights that virtual workers share -------------------===//
//
// Wave synchronous parallelism (Park et al., "HetPipe", USENIX ATC 2020): each
// replica of the pipeline is a virtual worker with weights of its own. A wave
// is the micro-batches that it has in flight, with an update for each. After
// its wave t a worker pushes the sum of the wave's updates to the weights that
// all share, and it pulls these with the waves up to t - D of all workers,
// where D is the clock distance: a worker can be that many waves ahead of
// another.
//
// There is no server. The parameters of a stage are cut into as many parts as
// there are workers, and the stage of worker j has a shard: part j of the
// shared weights, and a rank without a stage which adds to it what workers
// push.
//
//   stage of worker 0                      stage of worker 1
//   ... U PUSH ... PULL ...                ... U PUSH ... PULL ...
//        | \______________        ______________/ |
//        |                \      /                |
//   shard of part 0        \----/--->       shard of part 1
//   RECV RECV ADD_PUSH SEND SEND            RECV RECV ADD_PUSH SEND SEND
//
// Waves are added in their order, and those of one number in the order of the
// workers: the bits depend neither on the way nor on the time that they take. A
// shard has a thread of its own, so that a worker that computes holds up no
// other, and every slot is there D + 1 times, so that a shard never waits for a
// worker that is behind.
//
// Where the pipeline runs empty, all waves have been pulled, and all workers
// have the same weights. What else is updated (states of the optimizer, running
// statistics) is made that of worker 0 then.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_SHAREPLAN_H
#define PP_RUNTIME_PLAN_SHAREPLAN_H

#include "plan/Plan.h"

namespace pp::runtime {

/// What lies where in the area `shared` of a stage of one of `workers` virtual
/// workers. Offsets are from the start of the area, sizes in bytes. Part j is
/// the shard of worker j.
///
///   | updates: sums of waves | pulls | shard | pushes | tokens |
class SharedLayout {
public:
  /// `parameterBytes`, a multiple of PP_ALIGNMENT, are those of the stage.
  SharedLayout(uint64_t parameterBytes, unsigned workers, unsigned distance);

  /// Of a part, in the area `parameters`.
  uint64_t begin(unsigned part) const;
  uint64_t bytesOf(unsigned part) const {
    return begin(part + 1) - begin(part);
  }

  /// Waves whose sums a worker keeps: those that are not in what it pulls.
  unsigned waveSlots() const { return distance ? distance : 1; }
  /// Places for each value that is pushed or pulled.
  unsigned transferSlots() const { return distance + 1; }

  /// The first slot of a part; the others follow.
  uint64_t update(unsigned part) const { return waveSlots() * begin(part); }
  uint64_t pull(unsigned part) const {
    return waveSlots() * parameters + transferSlots() * begin(part);
  }
  /// Of the own part: what is shared, and what `worker` pushes.
  uint64_t shard() const {
    return (waveSlots() + transferSlots()) * parameters;
  }
  uint64_t push(unsigned worker) const {
    return shard() + stride + uint64_t(worker) * transferSlots() * stride;
  }
  /// By which worker 0 hears that `worker` has nothing in flight; one for
  /// states of the optimizer, and one for buffers.
  uint64_t token(unsigned worker, bool isOfBuffers) const;

  /// Of the area.
  uint64_t bytes() const;

private:
  uint64_t parameters, stride;
  unsigned workers, distance;
};

/// The layout of a stage of a plan of virtual workers.
SharedLayout sharedLayout(const Plan &plan, const PlanStage &stage);

/// Adds the shards, their ranks and all transfers to a plan of all workers, in
/// the place of PUSH, and before PULL.
void addShards(Plan &plan);

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_SHAREPLAN_H
