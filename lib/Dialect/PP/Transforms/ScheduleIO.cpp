//===- ScheduleIO.cpp - Schedules between IR and planner ------------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Planner/Schedule/Replicas.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

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

/// The planner has no phase after the backward pass of a micro-batch.
static Phase lastOfMicrobatch(Phase phase) {
  return std::min(phase, Phase::BackwardWeight);
}

std::vector<planner::Channel>
pp::pipeline::toChannels(MutableArrayRef<Crossing> crossings) {
  std::vector<planner::Channel> channels;
  for (Crossing &crossing : crossings) {
    planner::Channel channel;
    channel.from = static_cast<int>(crossing.producer.getStage());
    channel.to = static_cast<int>(crossing.to);
    channel.fromPhase = lastOfMicrobatch(crossing.producer.getPhase());
    channel.toPhase = lastOfMicrobatch(crossing.toPhase);
    channel.lastReader = lastOfMicrobatch(crossing.lastReader);
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

ChannelTable::ChannelTable(ModuleOp module)
    : channels(module.getOps<ChannelOp>()) {
  for (ChannelOp channel : channels)
    numbers[channel.getSymNameAttr()] = static_cast<int>(numbers.size());
}

std::vector<planner::Channel> ChannelTable::toPlanner() const {
  std::vector<planner::Channel> result;
  for (ChannelOp channel : channels)
    result.push_back(
        {static_cast<int>(channel.getFrom()), static_cast<int>(channel.getTo()),
         lastOfMicrobatch(channel.getFromPhase()),
         lastOfMicrobatch(channel.getToPhase()),
         lastOfMicrobatch(channel.getLastReader()), channel.getValue().str(),
         static_cast<int64_t>(getTensorBytes(channel.getType()))});
  return result;
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

LogicalResult pp::pipeline::checkStageReplicas(ScheduleOp op,
                                               func::FuncOp step) {
  auto numbers = op.getStageReplicas();
  if (!numbers)
    return success();
  auto count = static_cast<int64_t>(numbers->size());
  if (count != countStages(step))
    return op.emitOpError()
           << "has numbers of replicas for " << count
           << " stages, but the step has " << countStages(step);
  for (auto channel : op->getParentOfType<ModuleOp>().getOps<ChannelOp>())
    if (static_cast<int64_t>(std::max(channel.getFrom(), channel.getTo())) >=
        count)
      return channel.emitOpError()
             << "'" << channel.getSymName() << "' names a stage that is not "
             << "there";
  return success();
}

planner::Schedule pp::pipeline::toReplicas(ScheduleOp op) {
  planner::Schedule schedule;
  schedule.microbatches = static_cast<int>(op.getMicrobatches());
  for (auto [part, count] :
       llvm::enumerate(op.getStageReplicas().value_or(ArrayRef<int64_t>())))
    for (int number = 0; number < count; ++number) {
      schedule.rankOfStage.push_back(schedule.stages++);
      schedule.replicas.push_back(
          {static_cast<int>(part), number, static_cast<int>(count)});
    }
  return schedule;
}

/// With replicas of stages, each of which has a list.
static planner::Schedule replicasToPlanner(ScheduleOp op,
                                           const ChannelTable &channels) {
  planner::Schedule schedule = toReplicas(op);
  if (auto versions = op.getVersions())
    for (const planner::Replica &replica : schedule.replicas)
      schedule.versions.push_back(static_cast<int>((*versions)[replica.part]));
  std::vector<planner::Channel> listed = channels.toPlanner();
  schedule.channels = planner::replicateChannels(schedule, listed);
  // By the listed channel, the sender's replica and the receiver's.
  std::map<std::tuple<int, int, int>, int> copies;
  std::vector<int> origin = planner::findCopiedChannels(schedule, listed);
  for (auto [number, channel] : llvm::enumerate(schedule.channels))
    copies[{origin[number], schedule.replicaOf(channel.from).number,
            schedule.replicaOf(channel.to).number}] = static_cast<int>(number);
  std::vector<int> firstOf, seen;
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.replicaOf(stage).number == 0)
      firstOf.push_back(stage);
  seen.assign(firstOf.size(), 0);
  auto ranks = op.getRanks().getAsRange<ArrayAttr>();
  for (auto [number, rank] : llvm::enumerate(ranks)) {
    std::vector<planner::Action> &actions = schedule.ranks.emplace_back();
    if (rank.empty())
      continue;
    int part = cast<ActionAttr>(rank[0]).getStage();
    int stage = firstOf[part] + seen[part]++;
    schedule.rankOfStage[stage] = static_cast<int>(number);
    for (auto action : rank.getAsRange<ActionAttr>()) {
      planner::Action &own = actions.emplace_back(
          planner::Action{action.getKind(), stage, action.getMicrobatch()});
      own.lag = action.getLag();
      own.version = action.getVersion();
      if (FlatSymbolRefAttr channel = action.getChannel()) {
        int index = channels.numberOf(channel);
        auto replicaAt = [&](int end) {
          return own.microbatch % schedule.replicaOf(firstOf[end]).count;
        };
        own.channel = copies.at({index, replicaAt(listed[index].from),
                                 replicaAt(listed[index].to)});
      }
    }
  }
  // The groups of the actions that are there.
  std::vector<int> groupOf(firstOf.size(), -1);
  for (std::vector<planner::Action> &actions : schedule.ranks)
    for (planner::Action &action : actions) {
      if (!action.isCollective())
        continue;
      planner::Replica replica = schedule.replicaOf(action.stage);
      int &group = groupOf[replica.part];
      if (group < 0) {
        group = static_cast<int>(schedule.groups.size());
        planner::RankGroup &own = schedule.groups.emplace_back();
        own.name = "gradients of stage " + std::to_string(replica.part);
        for (int number = 0; number < replica.count; ++number)
          own.stages.push_back(firstOf[replica.part] + number);
      }
      action.group = group;
    }
  return schedule;
}

static planner::Schedule listsToPlanner(ScheduleOp op,
                                        const ChannelTable &channels,
                                        ArrayRef<Attribute> lists) {
  planner::Schedule schedule;
  schedule.microbatches = static_cast<int>(op.getMicrobatches());
  schedule.channels = channels.toPlanner();
  // A stage that does nothing is on rank 0: the verifier will say so.
  auto place = [&](int stage) -> int & {
    schedule.stages = std::max(schedule.stages, stage + 1);
    schedule.rankOfStage.resize(schedule.stages, -1);
    return schedule.rankOfStage[stage];
  };
  for (const planner::Channel &channel : schedule.channels)
    place(std::max(channel.from, channel.to));
  for (Attribute list : lists) {
    auto rank = cast<ArrayAttr>(list);
    int number = static_cast<int>(schedule.ranks.size());
    std::vector<planner::Action> &actions = schedule.ranks.emplace_back();
    for (auto action : rank.getAsRange<ActionAttr>()) {
      if (int &home = place(action.getStage()); home < 0)
        home = number;
      planner::Action &own = actions.emplace_back(planner::Action{
          action.getKind(), action.getStage(), action.getMicrobatch()});
      own.lag = action.getLag();
      own.version = action.getVersion();
      if (FlatSymbolRefAttr channel = action.getChannel())
        own.channel = channels.numberOf(channel);
      if (own.isCollective())
        own.group = own.stage;
    }
  }
  for (int &rank : schedule.rankOfStage)
    rank = std::max(rank, 0);
  if (auto versions = op.getVersions())
    schedule.versions.assign(versions->begin(), versions->end());
  if (std::optional<uint64_t> distance = op.getClockDistance())
    schedule.clockDistance = static_cast<int>(*distance);
  func::FuncOp step = op.getReplicas() > 1 && !op.getVersions()
                          ? findStep(op->getParentOfType<ModuleOp>())
                          : nullptr;
  if (step && isTraining(step))
    schedule.groups = planner::gradientGroups(schedule.stages);
  return schedule;
}

/// The lists of each virtual worker.
static SmallVector<ArrayRef<Attribute>> listsOfWorkers(ScheduleOp op) {
  ArrayRef<Attribute> all = op.getRanks().getValue();
  SmallVector<ArrayRef<Attribute>> workers;
  size_t begin = 0;
  DenseSet<int64_t> seen;
  for (size_t i = 0; i < all.size() && op.getClockDistance(); ++i) {
    auto actions = cast<ArrayAttr>(all[i]).getAsRange<ActionAttr>();
    if (llvm::any_of(actions, [&](ActionAttr action) {
          return seen.contains(action.getStage());
        })) {
      workers.push_back(all.slice(begin, i - begin));
      begin = i;
      seen.clear();
    }
    for (ActionAttr action : actions)
      seen.insert(action.getStage());
  }
  workers.push_back(all.drop_front(begin));
  return workers;
}

std::vector<planner::Schedule>
pp::pipeline::toWorkers(ScheduleOp op, const ChannelTable &channels) {
  std::vector<planner::Schedule> workers;
  if (op.getStageReplicas())
    return {replicasToPlanner(op, channels)};
  for (ArrayRef<Attribute> lists : listsOfWorkers(op))
    workers.push_back(listsToPlanner(op, channels, lists));
  return workers;
}

planner::Schedule pp::pipeline::toPlanner(ScheduleOp op,
                                          const ChannelTable &channels) {
  if (op.getStageReplicas())
    return replicasToPlanner(op, channels);
  return listsToPlanner(op, channels, listsOfWorkers(op).front());
}

FailureOr<ArrayAttr> pp::pipeline::toRanks(Location loc,
                                           const planner::Schedule &schedule,
                                           const ChannelTable &channels) {
  MLIRContext *context = loc.getContext();
  // Replicas of stages are told apart by their lists, and the channels between
  // them by their micro-batches.
  std::vector<int> listed;
  if (!schedule.replicas.empty())
    listed = planner::findCopiedChannels(schedule, channels.toPlanner());
  SmallVector<Attribute> ranks;
  for (const auto &rank : schedule.ranks) {
    SmallVector<Attribute> actions;
    for (const planner::Action &action : rank) {
      FlatSymbolRefAttr channel;
      bool isForward = true;
      if (action.isTransfer()) {
        channel = channels.nameOf(listed.empty() ? action.channel
                                                 : listed[action.channel]);
        isForward =
            schedule.channels[action.channel].fromPhase == Phase::Forward;
      }
      auto attribute = ActionAttr::getChecked(
          [&]() { return emitError(loc); }, context, action.kind,
          schedule.replicaOf(action.stage).part, isForward, action.microbatch,
          channel, std::optional<int64_t>(), action.lag, action.version);
      if (!attribute)
        return failure();
      actions.push_back(attribute);
    }
    ranks.push_back(ArrayAttr::get(context, actions));
  }
  return ArrayAttr::get(context, ranks);
}

FailureOr<ArrayAttr>
pp::pipeline::toRanks(Location loc, ArrayRef<planner::Schedule> schedules,
                      const ChannelTable &channels) {
  SmallVector<Attribute> lists;
  for (const planner::Schedule &schedule : schedules) {
    auto own = toRanks(loc, schedule, channels);
    if (failed(own))
      return failure();
    llvm::append_range(lists, own->getValue());
  }
  return ArrayAttr::get(loc.getContext(), lists);
}

bool pp::pipeline::isTraining(func::FuncOp step) {
  return step
      .walk([](StageOp stage) {
        bool isOfInference = stage.getPhase() == Phase::Forward ||
                             stage.getPhase() == Phase::Prepare;
        return isOfInference ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

std::vector<bool> pp::pipeline::findPreparingStages(func::FuncOp step) {
  std::vector<bool> prepares(countStages(step), false);
  step.walk([&](StageOp stage) {
    if (stage.getPhase() == Phase::Prepare)
      prepares[stage.getStage()] = true;
  });
  return prepares;
}

int64_t pp::pipeline::countStages(func::FuncOp step) {
  int64_t stages = 0;
  step.walk([&](StageOp stage) {
    stages = std::max<int64_t>(stages, stage.getStage() + 1);
  });
  return stages;
}
