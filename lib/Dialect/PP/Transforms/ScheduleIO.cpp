//===- ScheduleIO.cpp - Schedules between IR and planner ------------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Planner/Schedule/Replicas.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

Value pp::pipeline::throughPortals(Value value) {
  while (auto pop = value.getDefiningOp<PopOp>()) {
    StashOp found;
    for (Operation &op : *pop->getBlock())
      if (auto stash = dyn_cast<StashOp>(op);
          stash && stash.getPortalAttr() == pop.getPortalAttr())
        found = stash;
    if (!found)
      return value;
    value = found.getValue();
  }
  return value;
}

SmallVector<Crossing> pp::pipeline::findCrossings(func::FuncOp step) {
  // Portals by name, so that the walk below is linear.
  DenseMap<Attribute, Value> stashed;
  step.walk([&](StashOp stash) {
    stashed[stash.getPortalAttr()] = stash.getValue();
  });
  llvm::MapVector<std::pair<Value, int64_t>, Crossing> crossings;
  step.walk([&](StageOp reader) {
    for (Value operand : reader.getInputs()) {
      auto pop = operand.getDefiningOp<PopOp>();
      Value value = pop ? stashed.lookup(pop.getPortalAttr()) : operand;
      auto producer = value ? value.getDefiningOp<StageOp>() : StageOp();
      if (!producer || producer.getStage() == reader.getStage())
        continue;
      int64_t to = reader.getStage();
      auto [entry, isNew] = crossings.try_emplace(
          {value, to},
          Crossing{producer, cast<OpResult>(value).getResultNumber(), to,
                   reader.getPhase(), reader.getPhase(), pop != nullptr});
      Crossing &crossing = entry->second;
      crossing.toPhase = std::min(crossing.toPhase, reader.getPhase());
      crossing.lastReader = std::max(crossing.lastReader, reader.getPhase());
    }
  });
  SmallVector<Crossing> result;
  for (auto &[key, crossing] : crossings)
    result.push_back(crossing);
  return result;
}

StringRef pp::pipeline::getKind(Crossing &crossing) {
  bool forward = crossing.producer.getPhase() == Phase::Forward;
  if (crossing.isPortal)
    return forward ? "portal" : "gradient_portal";
  return forward ? "next" : "gradient";
}

static planner::Phase toPlanner(Phase phase) {
  switch (phase) {
  case Phase::Forward:
    return planner::Phase::Forward;
  case Phase::BackwardInput:
    return planner::Phase::BackwardInput;
  default:
    return planner::Phase::BackwardWeight;
  }
}

std::vector<planner::Channel>
pp::pipeline::toChannels(MutableArrayRef<Crossing> crossings) {
  std::vector<planner::Channel> channels;
  for (Crossing &crossing : crossings) {
    planner::Channel channel;
    channel.from = static_cast<int>(crossing.producer.getStage());
    channel.to = static_cast<int>(crossing.to);
    channel.fromPhase = toPlanner(crossing.producer.getPhase());
    channel.toPhase = toPlanner(crossing.toPhase);
    channel.lastReader = toPlanner(crossing.lastReader);
    Value returned = crossing.producer.getReturn().getValues()[crossing.result];
    Operation *maker = returned.getDefiningOp();
    std::string made = maker ? getDisplayName(maker) : "input";
    channel.name = std::string(letterOf(crossing.producer.getPhase())) + ":" +
                   made + ":" + std::to_string(crossing.result);
    channel.bytes = getTensorBytes(crossing.value().getType());
    channels.push_back(channel);
  }
  return channels;
}

ScheduleOp pp::pipeline::findSchedule(ModuleOp module) {
  ScheduleOp found;
  for (auto schedule : module.getOps<ScheduleOp>()) {
    if (found) {
      schedule.emitOpError("is the second schedule of the module");
      return nullptr;
    }
    found = schedule;
  }
  if (!found)
    module.emitError("has no schedule; run pp-schedule first");
  return found;
}

FailureOr<planner::Schedule>
pp::pipeline::readSchedule(ScheduleOp op,
                           std::vector<planner::Channel> channels) {
  std::string text;
  for (auto rank : op.getRanks().getAsRange<ArrayAttr>()) {
    text += llvm::join(
        llvm::map_range(rank.getAsRange<StringAttr>(),
                        [](StringAttr action) { return action.getValue(); }),
        ",");
    text += "\n";
  }
  std::vector<planner::RankGroup> groups;
  if (func::FuncOp step = op.getReplicas() > 1
                              ? findStep(op->getParentOfType<ModuleOp>())
                              : nullptr;
      step && isTraining(step))
    groups = planner::gradientGroups(static_cast<int>(countStages(step)));
  auto schedule = planner::parseSchedule(text, std::move(channels), groups);
  if (!schedule)
    return op.emitOpError() << "cannot be read: " << schedule.error();
  schedule->microbatches = static_cast<int>(op.getMicrobatches());
  return *schedule;
}

ArrayAttr pp::pipeline::writeRanks(MLIRContext *context,
                                   const planner::Schedule &schedule) {
  Builder builder(context);
  SmallVector<Attribute> ranks;
  for (const auto &rank : schedule.ranks) {
    SmallVector<Attribute> actions;
    for (const planner::Action &action : rank)
      actions.push_back(
          builder.getStringAttr(planner::toString(action, schedule.channels)));
    ranks.push_back(builder.getArrayAttr(actions));
  }
  return builder.getArrayAttr(ranks);
}

FailureOr<planner::PipelinePlan> pp::pipeline::readPlan(ModuleOp module,
                                                        StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return module.emitError() << "cannot read the plan '" << path
                              << "': " << buffer.getError().message();
  auto plan = planner::PipelinePlan::fromJson((*buffer)->getBuffer());
  if (!plan)
    return module.emitError()
           << "the plan '" << path << "' is wrong: " << plan.error();
  return *plan;
}

bool pp::pipeline::isTraining(func::FuncOp step) {
  return step
      .walk([](StageOp stage) {
        return stage.getPhase() == Phase::Forward ? WalkResult::advance()
                                                  : WalkResult::interrupt();
      })
      .wasInterrupted();
}

int64_t pp::pipeline::countStages(func::FuncOp step) {
  int64_t stages = 0;
  step.walk([&](StageOp stage) {
    stages = std::max<int64_t>(stages, stage.getStage() + 1);
  });
  return stages;
}
