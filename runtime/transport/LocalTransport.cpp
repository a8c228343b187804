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
  if (plan.findLossScale()) {
    for (size_t r = 0; r < plan.ranks.size(); ++r) {
      Participant &participant = participants.emplace_back();
      for (auto &event : participant.published)
        event = device.createEvent();
    }
    common = device.allocate(alignUp(2 * plan.ranks.size() * sizeof(float)),
                             "flags of all ranks");
  }
  // Spinning pays only where every rank has a core of its own.
  spins = std::thread::hardware_concurrency() >= plan.ranks.size() ? 2000 : 20;
}

template <typename Condition>
void LocalTransport::waitUntil(std::atomic<uint32_t> &state,
                               Condition condition) {
  for (unsigned i = 0;; ++i) {
    uint32_t current = state.load(std::memory_order_acquire);
    if (current == abortedState)
      throw Aborted();
    if (condition(current))
      return;
    if (i < spins)
      spinPause();
    else
      state.wait(current, std::memory_order_acquire);
  }
}

void LocalTransport::waitFor(Slot &slot, uint32_t state) {
  waitUntil(slot.state, [=](uint32_t current) { return current == state; });
}

/// Compare-and-swap, so that an abort in between is not overwritten.
void LocalTransport::change(std::atomic<uint32_t> &state, uint32_t from,
                            uint32_t to) {
  if (!state.compare_exchange_strong(from, to, std::memory_order_acq_rel))
    throw Aborted();
  state.notify_all();
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
  change(slot.state, 0, microbatch + 1);
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
  change(slot.state, microbatch + 1, 0);
}

void LocalTransport::agree(unsigned rank, float *flags, RankStreams &streams) {
  Stream &stream = *streams.compute;
  Participant &own = participants[rank];
  uint32_t round = own.rounds.load(std::memory_order_relaxed);
  if (round == abortedState)
    throw Aborted();
  unsigned parity = round % 2;
  auto *place =
      reinterpret_cast<float *>(common.get()) + parity * participants.size();
  stream.copy(place + rank, flags + rank, sizeof(float));
  stream.record(*own.published[parity]);
  change(own.rounds, round, round + 1);
  for (Participant &other : participants) {
    if (&other == &own)
      continue;
    waitUntil(other.rounds, [=](uint32_t rounds) { return rounds > round; });
    stream.wait(*other.published[parity]);
  }
  stream.copy(flags, place, participants.size() * sizeof(float));
}

void LocalTransport::abort() noexcept {
  for (Participant &participant : participants) {
    participant.rounds.store(abortedState, std::memory_order_release);
    participant.rounds.notify_all();
  }
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
