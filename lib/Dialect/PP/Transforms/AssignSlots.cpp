//===- AssignSlots.cpp - Slots of a schedule ------------------------------===//

#include "AssignSlots.h"

#include "pp/Planner/Schedule/Rolling.h"

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

planner::SlotAssignment
pp::pipeline::assignSlots(ScheduleOp op, const ChannelTable &channels) {
  Builder builder(op.getContext());
  planner::Schedule schedule = toPlanner(op, channels);
  planner::SlotAssignment slots = schedule.isRolling()
                                      ? planner::assignRollingSlots(schedule)
                                      : planner::assignSlots(schedule);
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
