//===- PhaseCall.h - One phase of one stage for one micro-batch -----------===//
//
// The pointers that a phase gets are known before the first step, with one
// exception. The plan fixes all slots; on a device with memory of its own, each
// feed and fetch has a fixed place there. The exception is a device that reads
// the caller's memory: the pointers of feeds and fetches are set in each step.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_EXEC_PHASECALL_H
#define PP_RUNTIME_EXEC_PHASECALL_H

#include "cpu/Orthogonalizer.h"
#include "exec/KernelTimer.h"
#include "exec/NonFinite.h"
#include "exec/Step.h"
#include "exec/Team.h"
#include "program/Program.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pp::runtime {

/// A part of the area `parameters`, in bytes from its start.
struct UpdateRange {
  int64_t begin, end;
  const PlanTensor *parameter; // that lies there
  std::optional<size_t> group; // none: the optimizer's own values
  bool isFrozen;
  std::shared_ptr<const Orthogonalizer> orthogonalizer = nullptr; // of muon
};

/// The kernel of a GPU that updates a range which starts at this byte.
struct RangeKernel {
  int64_t begin;
  std::optional<size_t> group; // none: the optimizer's own values
  std::unique_ptr<Kernel> kernel;
};

/// What a rank holds of one of its stages.
struct StageState {
  const PlanStage *plan = nullptr;
  const StageMemory *memory = nullptr;
  pp_stage_functions functions{};
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<void *> kernelPointers;
  pp_phase_arguments arguments{}; // without residuals, inputs and outputs
  Team *team = nullptr;           // that of the rank; null: its thread is alone

  /// Where the device sets some of the optimizer's scalars or has memory of its
  /// own: their place there. On a GPU those of groups follow, so many bytes
  /// apart.
  char *scalars = nullptr;
  uint64_t scalarsStride = 0;
  char *scalarsOf(std::optional<size_t> group) const;
  std::vector<DeviceMemory> staging;
  /// Where gradients are clipped on the host, and the device has memory of its
  /// own.
  DeviceMemory hostGradients;
  /// Where parameters have groups: what the update of each takes.
  std::vector<UpdateRange> ranges;
  /// Parameters that the update leaves in 16 bits too, as they lie.
  std::vector<const PlanTensor *> preparedByUpdate;
  /// On a GPU: kernels for these, without frozen ones.
  std::vector<RangeKernel> rangeKernels;
  uint64_t orthogonalBytes = 0; // of scratch memory, by thread

  // Only where the device has memory of its own:
  /// By feed and by fetch: a place for each micro-batch, or empty where the
  /// stage does not use it.
  std::vector<std::vector<char *>> feeds, fetches;
  /// By feed and micro-batch: the step (from 1) that was copied in last.
  std::vector<std::vector<uint64_t>> fed;

  /// Whether a B, and whether a W, has written gradients.
  struct Written {
    bool byInput = false, byWeight = false;
  };
  /// Of the step that is enqueued: that of each lane, and whether the lanes
  /// were added up.
  std::vector<Written> written;
  bool isFolded = false;
  /// Those of the update, where they are not the step's.
  NumberArray ownScalars;
  /// The slot of the newest weights.
  unsigned newest = 0;
  /// Of a virtual worker: the last wave that has all of its updates, as the
  /// rank counts steps.
  uint64_t wave = 0;
  /// By weight slot, without a flush: whether P has run since they changed.
  std::vector<bool> isPrepared;

  /// Program::countUploads() when P ran last; 0 before.
  uint64_t preparedOf = 0;
  /// Whether the next P prepares what updates leave prepared otherwise.
  bool preparesAll = true;
  /// The same for the corrected weights; 0: they changed since.
  uint64_t correctedOf = 0;
};

/// What a phase uses that changes from step to step where there is no flush.
struct CallPlace {
  /// Of the residuals and channels: the micro-batch, counted over all steps
  /// where there is no flush, and from there modulo the slots.
  uint64_t microbatch = 0;
  unsigned residualSlot = 0;
  unsigned weightSlot = 0;
  /// The corrected weights instead.
  bool isCorrected = false;
};

class PhaseCall {
public:
  /// `stages` by stage of the plan. `what` names the phase in the error of a
  /// kernel that fails.
  PhaseCall(const Plan &plan, std::vector<StageState> &stages,
            const PlanAction &action, Phase phase, const CallPlace &place,
            std::string what);
  PhaseCall(const PhaseCall &) = delete;
  PhaseCall &operator=(const PhaseCall &) = delete;

  /// Enqueues the phase, with the copies of feeds before it and of fetches
  /// after it. `number` is that of the step, from 1, as the rank counts. With
  /// `useGraphs`, the second run captures a graph and later runs launch it.
  /// `timer` may be null; otherwise it takes the times of kernels, and no graph
  /// is used. `isFirst`: it is the first B or W of its step, in a stage that
  /// writes gradients, or a P of parameters that no update made.
  void enqueue(Stream &stream, Step &step, uint64_t number, bool useGraphs,
               KernelTimer *timer, bool isFirst);

  /// A call of W and its `isFirst`.
  struct WithFirst {
    PhaseCall *call;
    bool isFirst;
  };
  /// Enqueues W for several micro-batches of a stage whose W takes them
  /// together, on a device that reads the caller's memory.
  static void enqueueTogether(const std::vector<WithFirst> &calls,
                              Stream &stream, Step &step, KernelTimer *timer);

  /// That is so in steps of a whole mini-batch; graphs are made of these runs.
  void markFirst() { arguments.is_first = 1; }
  Phase getPhase() const { return phase; }

  /// Whether the following runs look at what each kernel writes. Not while one
  /// runs.
  void probe(bool isProbed);
  bool isProbed() const { return arguments.is_probed != 0; }
  /// The first number that is not finite in the runs since probe(true).
  const std::optional<NonFinite> &findNonFinite() const { return nonFinite; }

private:
  friend void ::pp_probe_kernel(const pp_phase_arguments *, int64_t);
  /// An input or output that the caller owns.
  struct Port {
    PlanReference reference;
    size_t position;
    uint64_t bytes;
  };
  void run(bool isFirst);
  /// Runs the phase for the micro-batches of these arguments, at once.
  void runAll(std::span<const pp_phase_arguments> all);
  /// Where the device reads the caller's memory: points to that of a step.
  void setPorts(Step &step);
  /// Looks at what kernel `number` has just written, or has been given to
  /// write.
  void look(uint64_t number);

  StageState *stage;
  Stream *stream = nullptr; // of the last run
  pp_phase_function function = nullptr;
  pp_phase_arguments arguments{};
  std::vector<char *> inputs, outputs;
  std::vector<Port> feeds, fetches;
  Phase phase;
  unsigned stageNumber;
  unsigned microbatch;
  std::string what;
  std::optional<NonFinite> nonFinite;
  std::unique_ptr<Graph> graph;
  uint64_t runs = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_PHASECALL_H
