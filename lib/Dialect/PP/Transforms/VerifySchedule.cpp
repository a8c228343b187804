//===- VerifySchedule.cpp - Prove that a schedule is right ----------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Verify.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

/// Every value that crosses goes through the channel that its reader names,
/// and every channel moves one.
static LogicalResult verifyChannels(ModuleOp module, func::FuncOp step) {
  DenseMap<Attribute, Value> written;
  WalkResult result = step.walk([&](StageOp stage) -> WalkResult {
    if (!stage.getSources())
      return stage.emitOpError(
          "names no channels; run pp-insert-transfers first");
    for (auto [number, value] : llvm::enumerate(stage.getOutputs()))
      for (Attribute target : stage.getTargetsOf(number))
        if (auto end = cast<EndAttr>(target); end.getChannel())
          if (!written.try_emplace(end.getChannel(), value).second)
            return stage.emitOpError()
                   << "writes to " << end.getChannel() << " a second time";
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  DenseSet<Attribute> read;
  DenseMap<Attribute, Value> stashed;
  step.walk([&](StashOp stash) {
    stashed[stash.getPortalAttr()] = stash.getValue();
  });
  result = step.walk([&](StageOp stage) -> WalkResult {
    for (auto [operand, source] : llvm::zip(
             stage.getInputs(), stage.getSourcesAttr().getAsRange<EndAttr>())) {
      FlatSymbolRefAttr channel = source.getChannel();
      if (!channel)
        continue;
      auto pop = operand.getDefiningOp<PopOp>();
      Value value = pop ? stashed.lookup(pop.getPortalAttr()) : operand;
      if (written.lookup(channel) != value)
        return stage.emitOpError() << "reads from " << channel
                                   << ", but another value is written to it";
      read.insert(channel);
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (auto channel : module.getOps<ChannelOp>())
    if (!read.contains(FlatSymbolRefAttr::get(channel.getSymNameAttr())))
      return channel.emitOpError()
             << "'" << channel.getSymName() << "' is read by no stage";
  return success();
}

/// There is a P for each phase prepare, and no other.
static LogicalResult verifyPreparations(ScheduleOp op,
                                        const planner::Schedule &schedule,
                                        const std::vector<bool> &prepares) {
  std::vector<bool> found(prepares.size(), false);
  for (const auto &rank : schedule.ranks)
    for (const planner::Action &action : rank)
      if (action.kind == ActionKind::Prepare)
        found[schedule.replicaOf(action.stage).part] = true;
  for (size_t stage = 0; stage < prepares.size(); ++stage)
    if (found[stage] != prepares[stage])
      return op.emitOpError()
             << "has " << (found[stage] ? "an" : "no") << " action '" << stage
             << "P', but stage " << stage << " has "
             << (prepares[stage] ? "a" : "no") << " phase prepare";
  return success();
}

LogicalResult pp::pipeline::verifySchedule(ScheduleOp op, func::FuncOp step) {
  auto module = op->getParentOfType<ModuleOp>();
  if (failed(verifyChannels(module, step)) ||
      failed(checkStageReplicas(op, step)))
    return failure();
  planner::Schedule schedule = toPlanner(op, ChannelTable(module));
  if (schedule.parts() != countStages(step))
    return op.emitOpError()
           << "schedules " << schedule.parts() << " stages, but the step has "
           << countStages(step);
  if (failed(verifyPreparations(op, schedule, findPreparingStages(step))))
    return failure();
  std::vector<std::string> faults;
  if (schedule.isRolling()) {
    auto rule = planner::weightRuleOf(op.getKind());
    if (!rule)
      return op.emitOpError() << "has weight versions, but the schedule '"
                              << op.getKind() << "' has no rule for them";
    bool hasWorkers = schedule.clockDistance.has_value();
    if (hasWorkers != (*rule == planner::WeightRule::Waves) ||
        (op.getReplicas() > 1 && !hasWorkers))
      return op.emitOpError()
             << "is the schedule '" << op.getKind() << "' with "
             << op.getReplicas() << " replicas and "
             << (hasWorkers ? "a" : "no")
             << " clock distance, which goes with virtual workers, that is "
                "with 'wsp' alone";
    if (op.getStageReplicas() && *rule != planner::WeightRule::Stashing)
      return op.emitOpError() << "has replicas of stages, but the schedule '"
                              << op.getKind() << "' has no rule for them";
    std::vector<planner::Schedule> workers =
        toWorkers(op, ChannelTable(module));
    if (workers.size() > 1 && workers.size() != op.getReplicas())
      return op.emitOpError()
             << "has the lists of " << workers.size()
             << " virtual workers, but there are " << op.getReplicas();
    for (const planner::Schedule &worker : workers)
      if (faults.empty())
        faults = worker.stages == schedule.stages
                     ? planner::verifyRolling(worker, *rule)
                     : std::vector<std::string>{
                           "its virtual workers have different stages"};
  } else {
    faults = planner::verifySchedule(schedule);
  }
  // A fault of one copy is one of all, and its text is shorter.
  if (faults.empty() && op.getReplicas() > 1 && !schedule.isRolling()) {
    auto all = planner::replicatePipeline(schedule,
                                          static_cast<int>(op.getReplicas()));
    faults = all ? planner::verifySchedule(*all)
                 : std::vector<std::string>{all.error()};
  }
  for (const std::string &fault : faults)
    op.emitOpError() << "is wrong: " << fault;
  return success(faults.empty());
}

namespace {

struct VerifySchedule : pipeline::impl::VerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp step = findStep(getOperation());
    ScheduleOp op = step ? findSchedule(getOperation()) : ScheduleOp();
    if (!op || failed(verifySchedule(op, step)))
      signalPassFailure();
  }
};

} // namespace
