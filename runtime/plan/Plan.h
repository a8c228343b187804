//===- Plan.h - The checked form of a plan --------------------------------===//
//
// docs/plan-format.md says what each field means. A Plan object exists only
// after every check passed: offsets lie in bounds, every reference resolves,
// and the action lists complete under the slot rules.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_PLAN_H
#define PP_RUNTIME_PLAN_PLAN_H

#include "plan/Action.h"
#include "plan/Area.h"
#include "plan/CheckpointMode.h"
#include "plan/DataType.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pp::runtime {

using pp::ActionKind;
using pp::Area;
using pp::CheckpointMode;
using pp::microbatchPhases;
using pp::nameOf;
using pp::Phase;

/// A tensor that the caller feeds or fetches; `shape` is one micro-batch where
/// `batched`, else the whole tensor.
struct PlanPort {
  std::string name;
  /// Feeds only: input, target, loss_weight, sample_mask or random_counter.
  std::string role;
  DataType type;
  Shape shape;
  bool batched;
  uint64_t bytes; // of `shape`
  /// Of whole numbers that are fed: the smallest and the largest that the
  /// program takes, or these two for each element of a sample; empty: all. And
  /// one more, whose elements the loss leaves out.
  std::vector<int64_t> range;
  std::optional<int64_t> ignoreIndex;
  /// Of labels from 0 to the largest: what each counts in the loss. Empty: 1.
  std::vector<double> classWeights;
  /// Of a loss weight: the target whose labels it counts; empty: the only one.
  std::string counted;
  /// Of targets: the output of the model that they are compared with; empty:
  /// the only one.
  std::string compared;
  /// Of fetches: where the model has the samples, which have an axis 0 of their
  /// own here: on `axis`, of outer x samples x inner.
  struct Samples {
    int64_t axis = 0, outer = 1, inner = 1;

    bool operator==(const Samples &) const = default;
  };
  Samples samples;

  /// The smallest and the largest number at element `position` of a sample.
  std::pair<int64_t, int64_t> rangeAt(uint64_t position) const {
    uint64_t at = range.size() == 2 ? 0 : 2 * position;
    return {range[at], range[at + 1]};
  }

  /// What the runtime feeds itself: 1 / the number of labels of a mini-batch
  /// that the loss does not leave out, or what these count together.
  static constexpr const char *lossWeight = "loss_weight";
  bool isLossWeight() const { return role == lossWeight; }
  /// 1 for each row of a micro-batch that is a sample, else 0.
  static constexpr const char *sampleMask = "sample_mask";
  bool isSampleMask() const { return role == sampleMask; }
  /// And what random numbers of a micro-batch are drawn from.
  static constexpr const char *randomCounter = "random_counter";
  bool isRandomCounter() const { return role == randomCounter; }
  bool isFedByRuntime() const {
    return isLossWeight() || isSampleMask() || isRandomCounter();
  }

  /// Whether each micro-batch has a value of its own.
  bool isOfMicrobatch() const { return batched || isRandomCounter(); }
};

/// One value handed to the optimizer function.
struct PlanScalar {
  /// The device sets the last two in each step.
  enum class Kind {
    Value,
    OneMinusPowerOf,
    PowerOfStep,
    IsFirstStep,
    LossScale,
    IsSkipped
  };
  std::string name;
  Kind kind;
  /// Value, LossScale: the first, OneMinusPowerOf: the base, PowerOfStep: the
  /// exponent.
  double value = 0;
  std::string baseOf; // OneMinusPowerOf: the scalar that is the base, or empty
};

/// Whether gradients can be multiplied by it in f32.
bool isLossScale(double value);

/// The optimizer's state that is an average of a parameter's values.
inline constexpr const char *averageStateName = "ema";
/// Those of Adafactor that are no tensor of a parameter's shape: means of
/// squares of rows and columns of its matrices, and of what has none.
inline constexpr const char *factoredRowsName = "row_var";
inline constexpr const char *factoredColumnsName = "col_var";
inline constexpr const char *unfactoredName = "variance";

struct PlanOptimizer {
  /// Of parameters, gradients, states, scalars and the loss: f32 or f64.
  DataType type = DataType::F32;
  std::string kind;
  std::vector<std::string> states;
  std::vector<PlanScalar> scalars;

  /// The number of averageStateName among the states.
  std::optional<unsigned> averageState() const {
    for (unsigned i = 0; i < states.size(); ++i)
      if (states[i] == averageStateName)
        return i;
    return std::nullopt;
  }
};

/// A value that crosses stages. Offsets are from the start of the stage's
/// memory; slot `s` lies at `offset + s * alignUp(bytes)`.
struct PlanChannel {
  std::string name, kind;
  unsigned from, to;
  Phase fromPhase, toPhase;
  DataType type;
  Shape shape;
  uint64_t bytes;
  uint64_t sendOffset, receiveOffset;
  unsigned sendSlots, receiveSlots;
  std::vector<unsigned> sendSlot, receiveSlot; // by numberOf()
  ActionKind release;
  /// The channel of the opposite direction that this one replies to. Both use
  /// one place: the send slot of that channel is the receive slot of this one.
  /// The value of this channel is made from the value of that one, so it comes
  /// after that value has been received.
  std::optional<unsigned> repliesTo = std::nullopt;
  /// Released by SumGradients: PlanSum::group.
  unsigned addedIn = 0;
  /// Of optimizer state, where virtual workers have nothing in flight; see
  /// SharePlan.h.
  bool isOfIdle = false;

  /// Both stages are on one rank: the value is made in its receive slot, and
  /// nothing is sent.
  bool isResident() const { return sendSlots == 0; }
  /// The entry of a micro-batch in the tables of slots. Without a flush,
  /// micro-batches are counted over all steps.
  unsigned numberOf(uint64_t microbatch) const {
    return static_cast<unsigned>(microbatch % receiveSlot.size());
  }
  /// Between replicas of a stage, or stages with the same parameter, once per
  /// step, or update, as micro-batch 0. Its send
  /// slot is a part of an area that is cleared at the beginning of a step.
  bool isReduction() const {
    return release == ActionKind::SumGradients || release == ActionKind::Update;
  }
  /// Between a virtual worker and a shard, once per wave. Slots are those of
  /// the wave, counted over all steps.
  bool isOfWaves() const { return pp::isOfWaves(release); }
};

/// A byte range in the memory of a stage.
struct PlanArea {
  uint64_t offset = 0, bytes = 0;
};

struct PlanAreas {
  PlanArea parameters, buffers, gradients, optimizer, prepared, statistics,
      residuals, scratch, channels, discard, loss, lossScale, exchange,
      versions, lanes, corrected, shared;
  uint64_t residualSlots = 0, residualSlotBytes = 0;

  /// Its name in the plan, and where it is here.
  struct Named {
    const char *name;
    PlanArea PlanAreas::*area;
    /// Left out of the plan where it is empty.
    bool isOptional = false;
  };
  /// All of them, in the order in which they lie.
  static const std::array<Named, 17> all;
  /// Where the parameters of weight slot `slot` lie, and what was prepared of
  /// them: slot 0 in the areas of these names, the others in `versions`.
  uint64_t parametersOf(unsigned slot) const {
    return slot ? versions.offset + (slot - 1) * versionBytes()
                : parameters.offset;
  }
  uint64_t preparedOf(unsigned slot) const {
    return slot ? parametersOf(slot) + parameters.bytes : prepared.offset;
  }
  uint64_t versionBytes() const { return parameters.bytes + prepared.bytes; }
  /// Where the gradients of lane `lane` of the replica are added, and its
  /// statistics: lane 0 in the areas of these names, the others in `lanes`.
  uint64_t gradientsOf(unsigned lane) const {
    return lane ? lanes.offset + (lane - 1) * laneBytes() : gradients.offset;
  }
  uint64_t statisticsOf(unsigned lane) const {
    return lane ? gradientsOf(lane) + gradients.bytes : statistics.offset;
  }
  /// Of corrected weights: the mean of their changes, they themselves, and what
  /// is prepared of them.
  uint64_t changes() const { return corrected.offset; }
  uint64_t correctedParameters() const { return changes() + parameters.bytes; }
  uint64_t correctedPrepared() const {
    return correctedParameters() + parameters.bytes;
  }
  uint64_t correctedBytes() const {
    return 2 * parameters.bytes + prepared.bytes;
  }
  uint64_t laneBytes() const { return gradients.bytes + statistics.bytes; }
};

inline constexpr std::array<PlanAreas::Named, 17> PlanAreas::all = {{
    {"parameters", &PlanAreas::parameters},
    {"gradients", &PlanAreas::gradients},
    {"optimizer", &PlanAreas::optimizer},
    {"buffers", &PlanAreas::buffers},
    {"prepared", &PlanAreas::prepared, /*isOptional=*/true},
    {"statistics", &PlanAreas::statistics},
    {"residuals", &PlanAreas::residuals},
    {"scratch", &PlanAreas::scratch},
    {"channels", &PlanAreas::channels},
    {"discard", &PlanAreas::discard},
    {"loss", &PlanAreas::loss},
    {"loss_scale", &PlanAreas::lossScale, /*isOptional=*/true},
    {"exchange", &PlanAreas::exchange, /*isOptional=*/true},
    {"versions", &PlanAreas::versions, /*isOptional=*/true},
    {"lanes", &PlanAreas::lanes, /*isOptional=*/true},
    {"corrected", &PlanAreas::corrected, /*isOptional=*/true},
    {"shared", &PlanAreas::shared, /*isOptional=*/true},
}};

/// Where the first value of a parameter or buffer comes from.
struct PlanSource {
  enum class Kind { File, Splat, Bytes };
  Kind kind;
  unsigned file = 0;
  uint64_t offset = 0;       // in the file
  bool isTransposed = false; // the file has the columns of the matrix as rows
  /// What the file has where it is not what the tensor has: numbers of 16 bits
  /// that are widened.
  std::optional<DataType> stored;
  /// Of the bytes in the file, as it was compiled; see ContentHash.
  std::optional<uint64_t> hash;
  double splat = 0;
  std::string bytes; // decoded
  /// Of a tensor that shares its values in the model's file with another one,
  /// which an exporter merged: (node, input) that read it. For the export.
  std::vector<std::pair<uint64_t, uint64_t>> readers;
};

/// A parameter or buffer; `offset` is in its area.
struct PlanTensor {
  std::string name;
  DataType type;
  Shape shape;
  uint64_t offset, bytes;
  bool isMutable; // always for parameters
  PlanSource source;
  std::string reason; // why it is trained or not; may be empty
  /// Of a parameter: where the update leaves it in 16 bits, in the area
  /// `prepared`.
  std::optional<uint64_t> prepared = std::nullopt;
};

struct PlanKernel {
  std::string descriptor;
  uint64_t scratchpad;
};

/// One pointer handed to a phase.
struct PlanReference {
  enum class Kind { Feed, Channel, Fetch, Loss, LossScale };
  Kind kind;
  unsigned index; // of the feed, fetch or, as it is listed, channel
};

/// What a kernel writes, for the search for numbers that are not finite.
struct PlanProbe {
  struct Floats {
    DataType type; // of floating point
    Area area;
    uint64_t offset; // in bytes; of Input and Output the number
    uint64_t count;
  };
  std::string node; // of the ONNX model
  std::vector<Floats> outputs;
};

struct PlanPhase {
  bool present = false;
  std::vector<PlanReference> inputs, outputs;
  // F only, for R: offsets in the area `discard` of the outputs and of the
  // statistics, which a second run must not count again.
  std::vector<uint64_t> discards;
  std::optional<uint64_t> discardStatistics;
  std::vector<PlanProbe> probes; // by number of pp_probe_kernel
};

/// What a stage adds up, of its replicas or of the parts of a tied gradient.
/// Offsets are in the stage's memory.
struct PlanSum {
  std::vector<uint64_t> parts; // by replica, or in their order
  uint64_t target = 0;         // one of `parts`; the others may be overwritten
  unsigned kernel = 0;         // `add`
  /// Of which SumGradients it is a part; see PlanAction::slot.
  static constexpr unsigned ofReplicas = 0, ofTies = 1;
  unsigned group = ofReplicas;
  /// The gradients of other stages of the same rank, which have no channel:
  /// their parts are copied to their places before, and get the sum after.
  struct Neighbor {
    unsigned stage;
    uint64_t offset; // in the memory of `stage`
    uint64_t place;
    bool getsSum;
  };
  std::vector<Neighbor> neighbors;
  uint64_t bytes = 0; // of each part
};

/// A parameter that is used in several places of the model. Each stage with one
/// of them has the parameter and adds up a part of its gradient; once per step,
/// the stage of the first part adds all of them in their order, and gives the
/// sum to the others.
struct PlanTie {
  struct Part {
    unsigned stage = 0;
    uint64_t offset = 0; // of the part's sum, in the stage's memory
    /// In the memory of the first part's stage, where that is another one.
    std::optional<uint64_t> place = std::nullopt;
  };
  std::string name; // of the parameter
  uint64_t bytes = 0;
  std::vector<Part> parts;
};

struct PlanStage {
  std::string name;
  unsigned code = 0; // the program's stage that it runs
  /// Which of how many copies it is, where the plan is that of all copies.
  unsigned replica = 0, replicas = 1;
  std::vector<std::string> nodes;
  double forwardSeconds, backwardSeconds;
  double prepareSeconds = 0; // once per step
  uint64_t memoryBytes;
  PlanAreas areas;
  std::vector<PlanTensor> parameters, buffers;
  std::vector<PlanKernel> kernels;
  /// On a GPU: the kernel that updates the parameters.
  std::optional<unsigned> optimizerKernel;
  /// With a loss scale: the kernels that look for gradients that are not finite
  /// (where the stage has parameters), and that change the scale.
  std::optional<unsigned> finiteKernel, lossScaleKernel;
  /// The same for the losses, where the stage computes them.
  std::optional<unsigned> finiteLossKernel;
  std::vector<PlanSum> sums;
  std::array<PlanPhase, microbatchPhases> phases;
  /// Whether the stage has a P, which is handed nothing.
  bool prepares = false;
  /// Whether the first B of a step and its first W write the gradients that
  /// they add to, which nobody clears then.
  bool writesGradients = false;
  /// For how many micro-batches a W may run at once: those that stand side by
  /// side.
  unsigned weightsTogether = 1;
  /// Weight versions that the stage keeps; version v lies in slot v modulo
  /// their number. More than 1 only without a flush.
  unsigned versions = 1;
  /// Whether passes read the newest weights, whatever they are (PipeMare), and
  /// how many updates old those of F are then when the update comes, on
  /// average: 0 in the last stage.
  bool readsNewest = false;
  double delay = 0;
  /// With a delay: backward passes read weights that are corrected by the mean
  /// of their latest changes, times the delay, and this is how much of the mean
  /// is left after that many updates (PipeMare's T2). 0: they read the newest.
  double correction = 0;

  /// Whether it has this micro-batch, and not another copy.
  bool runs(uint64_t microbatch) const {
    return microbatch % replicas == replica;
  }
  /// The slot of a version; numbers below 0 are first weights, as 0 is.
  unsigned slotOf(int64_t version) const {
    int64_t slot = version % static_cast<int64_t>(versions);
    return static_cast<unsigned>(slot < 0 ? slot + versions : slot);
  }
};

struct PlanAction {
  ActionKind kind;
  unsigned stage = 0;   // for SEND and RECV the local stage
  unsigned channel = 0; // Send, Receive
  unsigned microbatch = 0;
  unsigned slot = 0; // residual slot: F R I W B; SUM_GRAD: PlanSum::group
  // Without a flush; the residual slot is then that of the micro-batch's number
  // over all steps, modulo the slots there are.
  unsigned lag = 0; // steps before the one that was handed in
  /// Of the weights that it uses (of U: makes), less the number of its step.
  int version = 0;
};

/// A kernel whose runs a program announces (pp_mark_kernel).
struct PlanMark {
  std::string key;               // what cost files call it
  std::string node;              // of the ONNX model; the first one
  std::string operations;        // for people: "conv", "add+relu"
  uint64_t flops = 0, bytes = 0; // of a run; read and written
};

struct PlanRank {
  std::vector<unsigned> stages;
  std::vector<PlanAction> actions;
  /// Of a rank that the executor adds, which has no stage: the one whose memory
  /// has its shard of the weights that virtual workers share.
  std::optional<unsigned> shardOf = std::nullopt;
};

/// Which of several sizes of a dimension a program is for.
struct PlanBucket {
  std::string dim;
  int64_t size = 1;
};

struct Plan {
  std::string model, mode, hash, schedule;
  /// Of a binary with programs for several sizes.
  std::optional<PlanBucket> bucket;
  CheckpointMode checkpoint = CheckpointMode::Never;
  std::string modelHash; // may be empty
  std::string target;    // "cpu" or "cuda:sm_90"
  /// Of a step, over all replicas. Replica q of a stage runs the micro-batches
  /// k * replicas + q.
  unsigned batch, microbatches;
  /// Of every stage: the plan lists what one copy of the pipeline does.
  unsigned replicas = 1;
  /// By stage, where they are not equal; `replicas` is 1 then. The plan lists a
  /// rank for each copy of each stage, which is its only one, and gives all
  /// micro-batches their numbers in the step.
  std::vector<unsigned> stageReplicas;
  /// Sums that a step's gradients and statistics are added in, over all
  /// replicas, which divide them: micro-batch k adds to sum k modulo their
  /// number, a power of two, and the sums are added in pairs, the first half to
  /// the second, until one is left. 0: a replica adds in one sum, and replicas
  /// are added in their order.
  unsigned gradientLanes = 0;
  /// Why a training step must have `batch` samples; empty: it may have fewer.
  std::string wholeBatches;
  /// Whether all actions of a step run before those of the next. If not, a
  /// rank's list runs once for each step that is handed in, and each action of
  /// it is for an earlier step, by its lag.
  bool flushes = true;
  /// Without a flush: replicas are virtual workers, and this is how many waves
  /// the weights that they share may be behind (WSP). A step is a wave of all
  /// workers, and a stage has an update for each of its micro-batches. Nothing:
  /// there are no workers.
  std::optional<unsigned> clockDistance;
  /// That compute the stages of a rank together.
  unsigned threads = 1;
  std::vector<std::string> weights;
  std::vector<uint64_t> weightsBytes;
  std::vector<PlanPort> feeds, fetches;
  PlanOptimizer optimizer;
  std::vector<PlanChannel> channels;
  /// In the plan of all copies, by channel as it is listed: the channels
  /// between copies. Micro-batch k goes through that of k modulo their number.
  std::vector<std::vector<unsigned>> channelCopies;
  std::vector<PlanStage> stages;
  std::vector<PlanRank> ranks;
  std::vector<PlanTie> ties;
  /// Of a program that marks its kernels, by their numbers.
  std::vector<PlanMark> marks;

  bool isTraining() const { return mode == "train"; }
  /// The scalar that starts the loss scale; null if the program does not look
  /// for gradients that are not finite.
  const PlanScalar *findLossScale() const;
  /// Whether there is more to it than looking: a scale that may be another
  /// number than 1.
  bool scalesLoss() const;
  /// The targets of the first loss, which evaluation measures; null without
  /// any.
  const PlanPort *findTarget() const;
  unsigned microbatchSize() const { return batch / microbatches; }
  /// How many micro-batches have some of that many samples. The others, and
  /// all of their actions, are left out of a step.
  unsigned microbatchesWith(uint64_t samples) const {
    return static_cast<unsigned>((samples + microbatchSize() - 1) /
                                 microbatchSize());
  }
  /// Copies of a stage as it is listed, which is the program's stage.
  unsigned replicasOf(unsigned code) const {
    return stageReplicas.empty() ? replicas : stageReplicas[code];
  }
  /// What each copy of a listed stage has of the gradients' sums.
  unsigned lanesOf(unsigned code) const {
    return gradientLanes ? gradientLanes / replicasOf(code) : 1;
  }
  /// In the copy that runs the micro-batch.
  unsigned laneOf(unsigned code, unsigned microbatch) const {
    return microbatch / replicasOf(code) % lanesOf(code);
  }
  /// The most that a copy of a listed stage runs in a step.
  unsigned microbatchesOf(unsigned code) const {
    return (microbatches + replicasOf(code) - 1) / replicasOf(code);
  }
  /// As a list of actions numbers them.
  unsigned microbatchesListed() const { return microbatches / replicas; }
  /// Without a flush, replicas of stages share each update, which has one
  /// micro-batch of each of them.
  bool dealsUpdates() const { return !flushes && !stageReplicas.empty(); }
  /// Versions that a stage of the plan of all copies makes of its weights in a
  /// step.
  unsigned updatesOf(const PlanStage &stage) const {
    return dealsUpdates() ? microbatches / stage.replicas : updatesPerStep();
  }
  /// The most that any stage makes.
  unsigned updatesPerStep() const {
    if (clockDistance)
      return microbatchesListed();
    return dealsUpdates()
               ? microbatches / *std::min_element(stageReplicas.begin(),
                                                  stageReplicas.end())
               : 1;
  }
  /// Without a flush: the number of a micro-batch of step `step` among those of
  /// its replica, over all steps.
  uint64_t numberIn(uint64_t step, unsigned microbatch) const {
    return (step * microbatches + microbatch) / replicas;
  }
  /// The same, where `stage` is one of several replicas of a stage.
  uint64_t passIn(const PlanStage &stage, uint64_t step,
                  unsigned microbatch) const {
    uint64_t number = numberIn(step, microbatch);
    return dealsUpdates() ? number / stage.replicas : number;
  }
  /// Whether `microbatch` is the first whose gradients an update has.
  bool startsUpdate(unsigned microbatch) const {
    return clockDistance || dealsUpdates() || microbatch == 0;
  }
  /// Where a stage has several updates in a step: the first micro-batch, of all
  /// replicas, whose update makes a version, which is relative to its step.
  unsigned microbatchOf(const PlanStage &stage, int version) const {
    auto before = static_cast<unsigned>(version - 1);
    return dealsUpdates() ? before * stage.replicas
                          : before * replicas + stage.replica;
  }
  /// How many samples the update to a version has, of a step with `samples`.
  uint64_t samplesOfUpdate(const PlanStage &stage, int version,
                           uint64_t samples) const;
  /// Of each rank of a listed plan of virtual workers that are not alike: its
  /// worker. Their lists stand behind each other, and a rank with a stage that
  /// the worker has already is the first of the next one. Else all 0.
  std::vector<unsigned> workersOfRanks() const;
  /// Ranks with stages. Those of shards come behind them.
  unsigned ranksWithStages() const;
  /// Through which channel the value of a micro-batch goes that a phase names.
  unsigned channelOf(PlanReference reference, unsigned microbatch) const {
    if (channelCopies.empty())
      return reference.index;
    const std::vector<unsigned> &copies = channelCopies[reference.index];
    return copies[microbatch % copies.size()];
  }
  /// Whether a value of the micro-batch goes through the channel.
  bool carries(const PlanChannel &channel, unsigned microbatch) const {
    return channel.isReduction() || channel.isOfWaves() ||
           (stages[channel.from].runs(microbatch) &&
            stages[channel.to].runs(microbatch));
  }
  /// Of the stage that computes the loss.
  unsigned replicasOfLoss() const;
  /// How many steps must follow one before all of it has run.
  unsigned largestLag() const;

  /// fromJson, and then the plan of all replicas, shards and ties.
  static Plan parse(std::string_view text);
};

/// `1F0` as in torch's schedules: stage, kind, micro-batch; `1SEND_F0` and
/// `2RECV_F0` for channels.
std::string toString(const Plan &plan, const PlanAction &action);

/// Whether running `action` ends the use of a receive slot whose channel is
/// released by `release`; `recomputed` says whether the micro-batch has an R
/// (if not, a release by R means the F).
bool releases(ActionKind action, ActionKind release, bool recomputed);

/// The checks that need the whole plan, of one replica, or of all copies where
/// stages have unequal numbers of them: references between sections, the order
/// of actions, and that all ranks complete. Part of Plan::parse.
void checkActions(const Plan &plan);

/// The same for a plan without a flush: plays enough steps for a warm-up, a
/// steady state and an end, and looks into every slot: of residuals, channels
/// and weight versions. Part of checkActions.
void checkRollingActions(const Plan &plan);

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_PLAN_H
