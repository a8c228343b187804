//===- LocalTransport.cpp -------------------------------------------------===//
#include "transport/LocalTransport.h"

using namespace pp::runtime;

LocalTransport::LocalTransport(const Plan &plan, const Placement &placement,
                               const std::deque<StageMemory> &memories,
                               Device &device)
    : DirectTransport(plan) {
  for (Channel &channel : channels) {
    const PlanChannel &plan = *channel.plan;
    if (!placement.isLocal(plan))
      continue;
    channel.sendBase = memories[plan.from].at(plan.sendOffset);
    channel.receiveBase = memories[plan.to].at(plan.receiveOffset);
    for (unsigned i = 0; i < plan.receiveSlots; ++i)
      channel.slots.push_back(
          {&flags.emplace_back(), device.createEvent(), device.createEvent()});
    addSendSlots(channel, device);
  }
}
