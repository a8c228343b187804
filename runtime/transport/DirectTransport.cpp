//===- DirectTransport.cpp ------------------------------------------------===//
#include "transport/DirectTransport.h"
#include "support/Spin.h"

using namespace pp::runtime;

DirectTransport::DirectTransport(const Plan &plan)
    : counters(plan), spins(spinsFor(plan.ranks.size())) {
  for (const PlanChannel &channel : plan.channels)
    channels.emplace_back().plan = &channel;
}

void DirectTransport::addSendSlots(Channel &channel, Device &device) {
  for (unsigned i = 0; i < channel.plan->sendSlots; ++i)
    channel.sendSlots.push_back({device.createEvent(), device.createEvent()});
}

void DirectTransport::prepareSend(unsigned index, unsigned microbatch,
                                  RankStreams &streams) {
  Channel &channel = channels[index];
  streams.compute->wait(
      *channel.sendSlots[channel.plan->sendSlot[microbatch]].left);
}

void DirectTransport::send(unsigned index, unsigned microbatch,
                           RankStreams &streams) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  SendSlot &sendSlot = channel.sendSlots[plan.sendSlot[microbatch]];
  Slot &slot = channel.slots[plan.receiveSlot[microbatch]];
  streams.compute->record(*sendSlot.produced);
  slot.flag->waitFor(0, spins);
  uint64_t stride = alignUp(plan.bytes);
  Stream &stream = *streams.send;
  stream.wait(*sendSlot.produced);
  stream.wait(*slot.freed);
  stream.copy(channel.receiveBase + plan.receiveSlot[microbatch] * stride,
              channel.sendBase + plan.sendSlot[microbatch] * stride,
              plan.bytes);
  stream.record(*slot.arrived);
  stream.record(*sendSlot.left);
  counters.addSent(index);
  slot.flag->change(0, microbatch + 1);
}

void DirectTransport::receive(unsigned index, unsigned microbatch,
                              RankStreams &streams) {
  Channel &channel = channels[index];
  Slot &slot = channel.slots[channel.plan->receiveSlot[microbatch]];
  slot.flag->waitFor(microbatch + 1, spins);
  streams.compute->wait(*slot.arrived);
  counters.addReceived(index);
}

void DirectTransport::release(unsigned index, unsigned microbatch,
                              RankStreams &streams) {
  Channel &channel = channels[index];
  Slot &slot = channel.slots[channel.plan->receiveSlot[microbatch]];
  streams.compute->record(*slot.freed);
  slot.flag->change(microbatch + 1, 0);
}

void DirectTransport::abort() noexcept {
  for (Channel &channel : channels)
    for (Slot &slot : channel.slots)
      slot.flag->abort();
}
