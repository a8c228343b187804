//===- LocalTransport.cpp -------------------------------------------------===//
#include "transport/LocalTransport.h"

#include <thread>

using namespace pp::runtime;

static constexpr uint32_t abortedState = UINT32_MAX;

static void spinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

LocalTransport::LocalTransport(const Plan &plan,
                               const std::deque<StageMemory> &memories,
                               Device &device) {
  for (const PlanChannel &channel : plan.channels) {
    Channel &entry = channels.emplace_back();
    entry.plan = &channel;
    entry.sendBase = memories[channel.from].at(channel.sendOffset);
    entry.receiveBase = memories[channel.to].at(channel.receiveOffset);
    entry.slots = std::make_unique<Slot[]>(channel.receiveSlots);
    for (unsigned i = 0; i < channel.receiveSlots; ++i) {
      entry.slots[i].arrived = device.createEvent();
      entry.slots[i].freed = device.createEvent();
    }
    for (unsigned i = 0; i < channel.sendSlots; ++i)
      entry.sendSlots.push_back({device.createEvent(), device.createEvent()});
  }
  // Spinning pays only where every rank has a core of its own.
  spins = std::thread::hardware_concurrency() >= plan.ranks.size() ? 2000 : 20;
}

void LocalTransport::waitFor(Slot &slot, uint32_t state) {
  for (unsigned i = 0; i < spins; ++i) {
    uint32_t current = slot.state.load(std::memory_order_acquire);
    if (current == state)
      return;
    if (current == abortedState)
      throw Aborted();
    spinPause();
  }
  while (true) {
    uint32_t current = slot.state.load(std::memory_order_acquire);
    if (current == state)
      return;
    if (current == abortedState)
      throw Aborted();
    slot.state.wait(current, std::memory_order_acquire);
  }
}

/// Compare-and-swap, so that an abort in between is not overwritten.
void LocalTransport::change(Slot &slot, uint32_t from, uint32_t to) {
  if (!slot.state.compare_exchange_strong(from, to, std::memory_order_acq_rel))
    throw Aborted();
  slot.state.notify_all();
}

void LocalTransport::prepareSend(unsigned index, unsigned microbatch,
                                 RankStreams &streams) {
  Channel &channel = channels[index];
  streams.compute->wait(
      *channel.sendSlots[channel.plan->sendSlot[microbatch]].left);
}

void LocalTransport::send(unsigned index, unsigned microbatch,
                          RankStreams &streams) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  SendSlot &sendSlot = channel.sendSlots[plan.sendSlot[microbatch]];
  Slot &slot = channel.slots[plan.receiveSlot[microbatch]];
  streams.compute->record(*sendSlot.produced);
  waitFor(slot, 0);
  uint64_t stride = alignUp(plan.bytes);
  Stream &stream = *streams.send;
  stream.wait(*sendSlot.produced);
  stream.wait(*slot.freed);
  stream.copy(channel.receiveBase + plan.receiveSlot[microbatch] * stride,
              channel.sendBase + plan.sendSlot[microbatch] * stride,
              plan.bytes);
  stream.record(*slot.arrived);
  stream.record(*sendSlot.left);
  channel.sent.fetch_add(1, std::memory_order_relaxed);
  change(slot, 0, microbatch + 1);
}

void LocalTransport::receive(unsigned index, unsigned microbatch,
                             RankStreams &streams) {
  Channel &channel = channels[index];
  Slot &slot = channel.slots[channel.plan->receiveSlot[microbatch]];
  waitFor(slot, microbatch + 1);
  streams.compute->wait(*slot.arrived);
  channel.received.fetch_add(1, std::memory_order_relaxed);
}

void LocalTransport::release(unsigned index, unsigned microbatch,
                             RankStreams &streams) {
  Channel &channel = channels[index];
  Slot &slot = channel.slots[channel.plan->receiveSlot[microbatch]];
  streams.compute->record(*slot.freed);
  change(slot, microbatch + 1, 0);
}

void LocalTransport::abort() noexcept {
  for (Channel &channel : channels)
    for (unsigned i = 0; i < channel.plan->receiveSlots; ++i) {
      channel.slots[i].state.store(abortedState, std::memory_order_release);
      channel.slots[i].state.notify_all();
    }
}

std::vector<ChannelTraffic> LocalTransport::traffic() const {
  std::vector<ChannelTraffic> result;
  for (const Channel &channel : channels) {
    uint64_t sent = channel.sent.load(std::memory_order_relaxed);
    uint64_t received = channel.received.load(std::memory_order_relaxed);
    result.push_back(
        {sent * channel.plan->bytes, received * channel.plan->bytes, sent});
  }
  return result;
}
