//===- Schedule.cpp - Order the actions of each rank ----------------------===//

#include "AutomaticSchedule.h"
#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Waves.h"
#include "pp/Planner/Schedule/WeightsTogether.h"
#include "pprt/pprt.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_SCHEDULE
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct Schedule : pipeline::impl::ScheduleBase<Schedule> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp step = findStep(module);
    if (!step)
      return signalPassFailure();
    if (failed(makeSchedule(module, step)))
      signalPassFailure();
  }

  LogicalResult makeSchedule(ModuleOp module, func::FuncOp step) {
    int64_t stages = countStages(step);
    if (stages == 0)
      return module.emitError("has no stages; run pp-outline-stages first");
    if (!module.getOps<ScheduleOp>().empty())
      return module.emitError("has a schedule already");
    if (threads < 1 || threads > PP_MOST_THREADS)
      return module.emitError() << "threads is " << threads.getValue()
                                << ", must be from 1 to " << PP_MOST_THREADS;
    bool training = isTraining(step);
    auto checkpoint =
        module->getAttrOfType<CheckpointModeAttr>(checkpointAttrName);
    CheckpointMode mode =
        checkpoint ? checkpoint.getValue() : CheckpointMode::Never;
    std::string name = schedule;
    others.clear();
    FailureOr<planner::Schedule> result =
        plan ? takeFromPlan(module, training, stages, name)
             : generate(module, step, training, mode, name);
    if (failed(result))
      return failure();
    if (failed(checkLanes(module, *result)))
      return failure();
    if (result->isRolling() && !stageReplicas.empty() &&
        failed(shareStatistics(step)))
      return failure();
    if (clockDistance != 0 && !result->clockDistance)
      return module.emitError()
             << "clock-distance is " << clockDistance.getValue()
             << ", which is for the schedule 'wsp', but the schedule is '"
             << name << "'";
    if (correction != 0 &&
        (!(correction > 0 && correction < 1) ||
         planner::weightRuleOf(name) != planner::WeightRule::Latest))
      return module.emitError()
             << "correction is " << correction.getValue()
             << ", must be between 0 and 1, and is for the schedule "
                "'pipemare', but the schedule is '"
             << name << "'";
    if (failed(joinWeights(module, training, name, *result)))
      return failure();
    others.insert(others.begin(), *result);
    std::vector<bool> prepares = findPreparingStages(step), ofReplicas;
    for (int stage = 0; stage < result->stages; ++stage)
      ofReplicas.push_back(prepares[result->replicaOf(stage).part]);
    for (planner::Schedule &worker : others) {
      if (training)
        planner::insertRecompute(worker, mode);
      planner::insertPreparation(worker, ofReplicas);
    }
    result = others.front();
    if (training && replicas > 1 && !result->isRolling())
      result = *planner::insertGradientReductions(*result);
    if (training && !stageReplicas.empty())
      planner::insertDealtReductions(*result);
    others.front() = *result;
    auto ranks = toRanks(step.getLoc(), others, ChannelTable(module));
    if (failed(ranks))
      return failure();
    OpBuilder builder(module.getBodyRegion());
    builder.setInsertionPointAfter(step);
    DenseI64ArrayAttr versions, numbers;
    if (!stageReplicas.empty())
      numbers = builder.getDenseI64ArrayAttr(replicasOfStages());
    if (result->isRolling()) {
      SmallVector<int64_t> kept;
      for (int stage = 0; stage < result->stages; ++stage)
        if (result->replicaOf(stage).number == 0)
          kept.push_back(result->versions[stage]);
      versions = builder.getDenseI64ArrayAttr(kept);
    }
    ScheduleOp::create(builder, step.getLoc(), name, result->microbatches,
                       replicas, numbers, threads,
                       training ? lanes.getValue() : 1, mode, versions,
                       training && correction != 0
                           ? builder.getF64FloatAttr(correction.getValue())
                           : FloatAttr(),
                       result->clockDistance
                           ? builder.getI64IntegerAttr(*result->clockDistance)
                           : IntegerAttr(),
                       *ranks);
    return success();
  }

  LogicalResult joinWeights(ModuleOp module, bool training, StringRef name,
                            planner::Schedule &result) const {
    if (weightsTogether == 1)
      return success();
    auto refuse = [&](const Twine &why) {
      return module.emitError() << "weights-together is "
                                << weightsTogether.getValue() << ", " << why;
    };
    if (weightsTogether < 1 || weightsTogether > PP_MOST_TOGETHER)
      return refuse("must be from 1 to " + Twine(PP_MOST_TOGETHER));
    if (memory != 0)
      return refuse("but 'memory' is what the searched order keeps, and W that "
                    "wait for each other would keep more");
    if (training && result.isRolling())
      return refuse("but schedule '" + Twine(name) +
                    "' has no flush, after which its W could all have run");
    if (training)
      planner::joinWeights(result, static_cast<int>(weightsTogether));
    return success();
  }

  /// Each update of a stage has a micro-batch of each of its replicas.
  LogicalResult shareStatistics(func::FuncOp step) const {
    for (auto stage : step.getOps<StageOp>()) {
      WalkResult result = stage->walk([&](KernelOpInterface op) {
        return WalkResult(
            op.setMicrobatchesOfUpdate(stageReplicas[stage.getStage()]));
      });
      if (result.wasInterrupted())
        return failure();
    }
    return success();
  }

  /// Where they are equal, one number for all.
  SmallVector<int64_t> replicasOfStages() const {
    if (stageReplicas.empty())
      return {replicas.getValue()};
    return SmallVector<int64_t>(stageReplicas.begin(), stageReplicas.end());
  }

  LogicalResult checkLanes(ModuleOp module, const planner::Schedule &result) {
    if (lanes == 1)
      return success();
    auto refuse = [&](const Twine &why) {
      return module.emitError()
             << "lanes is " << lanes.getValue() << ", " << why;
    };
    if (lanes < 1 || lanes > 1024 || !llvm::isPowerOf2_64(lanes.getValue()))
      return refuse("must be a power of two, up to 1024");
    for (int64_t count : replicasOfStages())
      if (count > 0 && lanes.getValue() % count != 0)
        return refuse("but " + Twine(count) +
                      " replicas cannot share them evenly");
    if (result.isRolling())
      return refuse("but schedule '" + Twine(schedule.getValue()) +
                    "' has no flush, and no replicas that could change the "
                    "order of its sums");
    if (getTarget(module).isGpu())
      return refuse("but sums of GPUs are added without them; use "
                    "--target=cpu");
    return success();
  }

  FailureOr<planner::Schedule> generate(ModuleOp module, func::FuncOp step,
                                        bool training,
                                        planner::CheckpointMode checkpoint,
                                        std::string &name) {
    int64_t stages = countStages(step);
    if (microbatches < 1 || microbatches > (1 << 20))
      return module.emitError() << "microbatches is " << microbatches.getValue()
                                << ", must be from 1 to 1048576";
    if (training != (schedule != "inference"))
      return module.emitError() << "schedule '" << schedule << "' is for "
                                << (training ? "inference" : "training")
                                << ", but this step is for "
                                << (training ? "training" : "inference");
    if (ranks < 0 || ranks > stages)
      return module.emitError()
             << "ranks is " << ranks.getValue()
             << ", must be from 0 to the number of stages, " << stages;
    if (memory < 0)
      return module.emitError()
             << "memory is " << memory.getValue() << ", must be 0 or more";
    if (replicas < 1 || microbatches % replicas != 0)
      return module.emitError() << "replicas is " << replicas.getValue()
                                << ", must be 1 or more and divide the "
                                << microbatches.getValue() << " micro-batches";
    if (!stageReplicas.empty())
      return deal(module, step, stages, checkpoint);
    if (planner::isScheduleFile(schedule.getValue()))
      return readFile(module, training, name);
    planner::PipelineShape shape{static_cast<int>(stages),
                                 static_cast<int>(microbatches / replicas),
                                 static_cast<int>(ranks)};
    if (schedule == "auto") {
      auto found = searchSchedule(step, {shape, checkpoint, memory});
      if (failed(found))
        return failure();
      name = "auto (" + found->origin + ")";
      return found->schedule;
    }
    if (memory != 0)
      return module.emitError() << "memory is a limit for the schedule 'auto', "
                                   "but the schedule is '"
                                << schedule << "'";
    if (planner::weightRuleOf(schedule.getValue()))
      return makeRolling(module, step, shape, checkpoint);
    bool isV =
        planner::placementOf(schedule.getValue()) == planner::Placement::V;
    if (ranks == 0 && isV)
      shape.ranks = static_cast<int>((stages + 1) / 2);
    auto made = planner::makeSchedule(schedule, shape);
    if (!made)
      return module.emitError() << made.error();
    return *made;
  }

  /// What replicas of stages in unequal numbers do not go with.
  LogicalResult checkStageReplicas(ModuleOp module) {
    auto refuse = [&](const Twine &why) {
      return module.emitError() << "stage-replicas: " << why;
    };
    if (replicas != 1)
      return refuse("there are replicas of the pipeline too");
    // Else some copies of a channel are released by R and some by F.
    auto checkpoint =
        module->getAttrOfType<CheckpointModeAttr>(checkpointAttrName);
    if (checkpoint && checkpoint.getValue() == CheckpointMode::ExceptLast)
      return refuse("only one replica of a stage has the last micro-batch; use "
                    "--checkpoint=always or never");
    if (getTarget(module).isGpu())
      return refuse("they run on the processor only; use --target=cpu");
    return success();
  }

  /// With replicas of stages in unequal numbers.
  FailureOr<planner::Schedule> deal(ModuleOp module, func::FuncOp step,
                                    int64_t stages,
                                    planner::CheckpointMode checkpoint) {
    auto refuse = [&](const Twine &why) {
      return module.emitError() << "stage-replicas: " << why;
    };
    if (static_cast<int64_t>(stageReplicas.size()) != stages)
      return refuse(Twine(stageReplicas.size()) + " numbers for " +
                    Twine(stages) + " stages; there must be one for each");
    if (memory != 0 || ranks != 0)
      return refuse("'memory' and 'ranks' go with schedules of one replica");
    if (failed(checkStageReplicas(module)))
      return failure();
    std::vector<int> counts;
    for (int64_t count : stageReplicas) {
      if (count < 1 || count > microbatches)
        return refuse(Twine(count) + " replicas of a stage cannot share " +
                      Twine(microbatches) + " micro-batches");
      counts.push_back(static_cast<int>(count));
    }
    bool isRolling = planner::weightRuleOf(schedule.getValue()).has_value();
    if (isRolling && failed(checkRolling(module, step, checkpoint)))
      return failure();
    auto made =
        isRolling ? planner::makeRollingReplicas(schedule.getValue(), counts,
                                                 static_cast<int>(microbatches))
                  : planner::dealtSchedule(schedule.getValue(), counts,
                                           static_cast<int>(microbatches));
    if (!made)
      return module.emitError() << made.error();
    return *made;
  }

  /// The order of a file of PyTorch's.
  FailureOr<planner::Schedule> readFile(ModuleOp module, bool training,
                                        std::string &name) {
    auto refuse = [&](const Twine &why) {
      return module.emitError() << "schedule '" << schedule << "': " << why;
    };
    auto buffer = llvm::MemoryBuffer::getFile(schedule, /*IsText=*/true);
    if (!buffer)
      return refuse("cannot be read: " + buffer.getError().message());
    auto read = planner::importComputation((*buffer)->getBuffer().str());
    if (!read)
      return refuse(read.error());
    const planner::Schedule &order = read->schedule;
    if (order.isTraining() != training)
      return refuse(training ? "has no backward passes, but this step is for "
                               "training"
                             : "is for training, but this step is not");
    int64_t stages = countStages(findStep(module));
    if (order.stages != stages)
      return refuse("has " + Twine(order.stages) +
                    " stages, but the step has " + Twine(stages));
    if (order.microbatches * replicas != microbatches)
      return refuse("has " + Twine(order.microbatches) +
                    " micro-batches for each of " + Twine(replicas) +
                    " replicas, but the step has " + Twine(microbatches));
    auto rankCount = static_cast<int64_t>(order.ranks.size());
    if (ranks != 0 && ranks != rankCount)
      return refuse("has " + Twine(rankCount) + " ranks, not " + Twine(ranks));
    if (memory != 0)
      return refuse("'memory' is a limit for the schedule 'auto'");
    name = llvm::sys::path::filename(schedule).str();
    return order;
  }

  /// What does not go without a flush.
  LogicalResult checkRolling(ModuleOp module, func::FuncOp step,
                             planner::CheckpointMode checkpoint) {
    auto refuse = [&](const Twine &why) {
      return module.emitError() << "schedule '" << schedule
                                << "' runs without a flush, and " << why;
    };
    if (!allowStale)
      return refuse("so trains with weights that are some updates old: another "
                    "training than that of the model. --allow-stale allows it");
    bool hasWorkers = planner::weightRuleOf(schedule.getValue()) ==
                      planner::WeightRule::Waves;
    if (replicas != 1 && !hasWorkers)
      return refuse("has no copies of the pipeline; 'pipedream' has replicas "
                    "of stages, a number for each, and those of 'wsp' are "
                    "virtual workers");
    if (!workerStages.empty() && !hasWorkers)
      return refuse("has no virtual workers, which 'worker-stages' is for; use "
                    "the schedule 'wsp'");
    if (checkpoint == planner::CheckpointMode::ExceptLast)
      return refuse("has no last micro-batch that is followed by its backward "
                    "pass at once; use --checkpoint=always or never");
    if (checkpoint != planner::CheckpointMode::Never &&
        planner::weightRuleOf(schedule.getValue()) ==
            planner::WeightRule::Latest)
      return refuse("does not keep the weights of a forward pass, so cannot "
                    "compute it again; use --checkpoint=never");
    if (getTarget(module).isGpu())
      return refuse("runs on the processor only; use --target=cpu");
    // Forward passes of later steps run before an update.
    WalkResult result = step.walk([&](KernelOpInterface op) {
      auto stage = op->getParentOfType<StageOp>();
      for (const StateReference &state : op.getUpdatedStates())
        if (state.kind == StateKind::Statistics && stage &&
            stage.getPhase() < Phase::BackwardInput)
          return WalkResult(op->emitOpError()
                            << "adds to the statistics '"
                            << state.symbol.getValue()
                            << "' in a forward pass, but schedule '" << schedule
                            << "' runs without a flush");
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    for (unsigned index = 0; index < step.getNumArguments(); ++index)
      if (step::getRole(step, index) == step::Role::LossScale)
        return refuse("skips no step, since that takes all gradients at one "
                      "time; use --loss-scale=none");
    return success();
  }

  /// One without a flush.
  FailureOr<planner::Schedule> makeRolling(ModuleOp module, func::FuncOp step,
                                           planner::PipelineShape shape,
                                           planner::CheckpointMode checkpoint) {
    if (failed(checkRolling(module, step, checkpoint)))
      return failure();
    if (clockDistance < 0 || clockDistance > 1024)
      return module.emitError()
             << "clock-distance is " << clockDistance.getValue()
             << ", must be from 0 to 1024";
    shape.clockDistance = static_cast<int>(clockDistance);
    if (!workerStages.empty())
      return makeWorkers(module, shape);
    auto made = planner::makeRollingSchedule(schedule.getValue(), shape);
    if (!made)
      return module.emitError() << made.error();
    return *made;
  }

  /// Virtual workers with other ranks each. Returns the first one.
  FailureOr<planner::Schedule> makeWorkers(ModuleOp module,
                                           planner::PipelineShape shape) {
    if (static_cast<int64_t>(workerStages.size()) != replicas)
      return module.emitError()
             << "worker-stages has " << workerStages.size()
             << " virtual workers, but there are " << replicas.getValue();
    for (const std::string &worker : workerStages) {
      std::vector<int> counts;
      for (StringRef part : llvm::split(worker, '+')) {
        int count = 0;
        if (part.getAsInteger(10, count))
          return module.emitError() << "worker-stages: '" << worker
                                    << "' is no list of numbers, such as 2+1+1";
        counts.push_back(count);
      }
      auto made = planner::makeWaveSchedule(shape, counts);
      if (!made)
        return module.emitError()
               << "worker-stages: '" << worker << "': " << made.error();
      others.push_back(*made);
    }
    planner::Schedule first = others.front();
    others.erase(others.begin());
    return first;
  }

  /// Virtual workers behind the first one, where they are not all alike.
  std::vector<planner::Schedule> others;

  FailureOr<planner::Schedule> takeFromPlan(ModuleOp module, bool training,
                                            int64_t stages, std::string &name) {
    const GivenPlan &read = plan;
    if (read->training != training)
      return module.emitError() << "the plan '" << read.name << "' is for "
                                << (read->training ? "training" : "inference")
                                << ", but this step is for "
                                << (training ? "training" : "inference");
    if (read->schedule.parts() != stages)
      return module.emitError()
             << "the plan '" << read.name << "' has " << read->schedule.parts()
             << " stages, but the step has " << stages;
    name = read->scheduleName;
    replicas = read->replicas;
    std::vector<int> counts = read->stageReplicas();
    SmallVector<int64_t> numbers(counts.begin(), counts.end());
    stageReplicas = numbers;
    if (!counts.empty() && failed(checkStageReplicas(module)))
      return failure();
    return read->schedule;
  }
};

} // namespace
