//===- AssignSlots.cpp - Slots of a schedule ------------------------------===//

#include "AssignSlots.h"

#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"

#include <numeric>

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

/// The residual slot that an action uses; none for transfers and what runs once
/// per step.
static std::optional<int64_t> slotOf(ActionAttr action,
                                     const planner::SlotAssignment &slots) {
  if (action.getMicrobatch() < 0 || isTransfer(action.getKind()))
    return std::nullopt;
  const planner::StageSlots &own = slots.stages[action.getStage()];
  if (own.count == 0)
    return 0;
  bool isForward = action.getKind() == ActionKind::Forward;
  return (isForward ? own.forward : own.backward)[action.getMicrobatch()];
}

namespace {
/// The most slots that any copy of each listed channel has.
struct MostSlots {
  MostSlots(size_t listed, const std::vector<int> &origin,
            const planner::SlotAssignment &slots)
      : receive(listed, 0), send(listed, 0) {
    for (size_t c = 0; c < origin.size(); ++c) {
      const planner::ChannelSlots &own = slots.channels[c];
      receive[origin[c]] = std::max(receive[origin[c]], own.receiveCount);
      send[origin[c]] = std::max(send[origin[c]], own.sendCount);
    }
  }
  std::vector<int> receive, send;
};
} // namespace

/// The slots of replicas as those of their stages and listed channels.
static planner::SlotAssignment
joinReplicas(const planner::Schedule &schedule,
             const std::vector<planner::Channel> &listed,
             const planner::SlotAssignment &slots) {
  planner::SlotAssignment result;
  result.stages.resize(schedule.parts());
  result.channels.resize(listed.size());
  auto microbatches = static_cast<size_t>(schedule.microbatches);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const planner::StageSlots &own = slots.stages[stage];
    planner::StageSlots &all = result.stages[schedule.replicaOf(stage).part];
    all.count = std::max(all.count, own.count);
    all.forward.resize(microbatches);
    all.backward.resize(microbatches);
    for (size_t k = 0; k < microbatches; ++k)
      if (schedule.runs(stage, static_cast<int>(k))) {
        all.forward[k] = own.forward[k];
        all.backward[k] = own.backward[k];
      }
  }
  std::vector<int> origin = planner::findCopiedChannels(schedule, listed);
  MostSlots most(listed.size(), origin, slots);
  for (size_t c = 0; c < origin.size(); ++c) {
    const planner::ChannelSlots &own = slots.channels[c];
    planner::ChannelSlots &all = result.channels[origin[c]];
    planner::Replica from = schedule.replicaOf(schedule.channels[c].from),
                     to = schedule.replicaOf(schedule.channels[c].to);
    // A copy meets every so many-th one of the other end.
    int distance = std::gcd(from.count, to.count);
    int sender = from.number / distance, receiver = to.number / distance;
    all.release = own.release;
    all.sendCount = most.send[origin[c]] * (to.count / distance);
    all.receiveCount = most.receive[origin[c]] * (from.count / distance);
    all.send.resize(microbatches);
    all.receive.resize(microbatches);
    for (size_t k = 0; k < microbatches; ++k)
      if (schedule.carries(schedule.channels[c], static_cast<int>(k))) {
        all.send[k] = receiver * most.send[origin[c]] + own.send[k];
        all.receive[k] = sender * most.receive[origin[c]] + own.receive[k];
      }
  }
  return result;
}

/// The same without a flush: by number of a micro-batch over all steps, modulo
/// the length of a table. As many as any copy needs.
static planner::SlotAssignment
joinRollingReplicas(const planner::Schedule &schedule,
                    const std::vector<planner::Channel> &listed) {
  planner::SlotAssignment slots = planner::assignRollingSlots(schedule), result;
  result.stages.resize(schedule.parts());
  result.channels.resize(listed.size());
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const planner::StageSlots &own = slots.stages[stage];
    planner::StageSlots &all = result.stages[schedule.replicaOf(stage).part];
    if (own.count >= all.count)
      all = own;
  }
  std::vector<int> origin = planner::findCopiedChannels(schedule, listed);
  MostSlots most(listed.size(), origin, slots);
  for (size_t c = 0; c < origin.size(); ++c) {
    planner::ChannelSlots &all = result.channels[origin[c]];
    int senders = schedule.replicaOf(schedule.channels[c].from).count,
        receivers = schedule.replicaOf(schedule.channels[c].to).count;
    int distance = std::gcd(senders, receivers);
    int period = std::lcm(senders, receivers);
    int sent = most.send[origin[c]], received = most.receive[origin[c]];
    all.release = slots.channels[c].release;
    all.sendCount = sent * (receivers / distance);
    all.receiveCount = received * (senders / distance);
    int length = std::lcm(std::max(sent, 1), std::max(received, 1)) * period;
    all.send.resize(length);
    all.receive.resize(length);
    for (int k = 0; k < length; ++k) {
      all.send[k] =
          k % receivers / distance * sent + (sent ? k / period % sent : 0);
      all.receive[k] = k % senders / distance * received +
                       (received ? k / period % received : 0);
    }
  }
  return result;
}

planner::SlotAssignment
pp::pipeline::spreadSlots(const planner::Schedule &schedule,
                          const std::vector<planner::Channel> &listed,
                          const planner::SlotAssignment &slots) {
  if (schedule.replicas.empty())
    return slots;
  planner::SlotAssignment result;
  for (const planner::Replica &replica : schedule.replicas)
    result.stages.push_back(slots.stages[replica.part]);
  for (int channel : planner::findCopiedChannels(schedule, listed))
    result.channels.push_back(slots.channels[channel]);
  return result;
}

/// The slots of a stage and of a channel, as many as any worker needs.
static planner::SlotAssignment
joinWorkers(const std::vector<planner::Schedule> &workers) {
  planner::SlotAssignment all = planner::assignRollingSlots(workers.front());
  auto count = [](std::vector<int> &table, int slots, int length) {
    table.resize(slots ? length : 0);
    for (int i = 0; i < static_cast<int>(table.size()); ++i)
      table[i] = i % slots;
  };
  for (const planner::Schedule &worker : ArrayRef(workers).drop_front()) {
    planner::SlotAssignment own = planner::assignRollingSlots(worker);
    for (auto [stage, other] : llvm::zip_equal(all.stages, own.stages)) {
      stage.count = std::max(stage.count, other.count);
      count(stage.forward, stage.count, stage.count);
      stage.backward = stage.forward;
    }
    for (auto [channel, other] : llvm::zip_equal(all.channels, own.channels)) {
      channel.sendCount = std::max(channel.sendCount, other.sendCount);
      channel.receiveCount = std::max(channel.receiveCount, other.receiveCount);
      int length = std::lcm(std::max(channel.sendCount, 1),
                            std::max(channel.receiveCount, 1));
      count(channel.send, channel.sendCount, length);
      count(channel.receive, channel.receiveCount, length);
    }
  }
  return all;
}

planner::SlotAssignment
pp::pipeline::assignSlots(ScheduleOp op, const ChannelTable &channels) {
  Builder builder(op.getContext());
  planner::Schedule schedule = toPlanner(op, channels);
  bool hasCopies = !schedule.replicas.empty();
  planner::SlotAssignment slots =
      !schedule.isRolling() ? planner::chooseSlots(schedule)
      : hasCopies ? joinRollingReplicas(schedule, channels.toPlanner())
                  : joinWorkers(toWorkers(op, channels));
  if (hasCopies && !schedule.isRolling())
    slots = joinReplicas(schedule, channels.toPlanner(), slots);
  size_t number = 0;
  for (ChannelOp channel : channels.all()) {
    const planner::ChannelSlots &own = slots.channels[number++];
    auto list = [](const std::vector<int> &slots) {
      return SmallVector<int64_t>(slots.begin(), slots.end());
    };
    channel.setReleaseAttr(ActionKindAttr::get(op.getContext(), own.release));
    channel.setSendSlotsAttr(builder.getDenseI64ArrayAttr(list(own.send)));
    channel.setReceiveSlotsAttr(
        builder.getDenseI64ArrayAttr(list(own.receive)));
  }
  // Without a flush, the slot follows from the number of the micro-batch.
  if (schedule.isRolling())
    return slots;
  SmallVector<Attribute> ranks;
  for (auto rank : op.getRanks().getAsRange<ArrayAttr>()) {
    SmallVector<Attribute> actions;
    for (auto action : rank.getAsRange<ActionAttr>()) {
      std::optional<int64_t> slot = slotOf(action, slots);
      actions.push_back(slot ? action.withSlot(*slot) : action);
    }
    ranks.push_back(builder.getArrayAttr(actions));
  }
  op.setRanksAttr(builder.getArrayAttr(ranks));
  return slots;
}
