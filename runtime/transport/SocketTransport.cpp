//===- SocketTransport.cpp ------------------------------------------------===//
#include "transport/SocketTransport.h"
#include "support/Error.h"
#include "support/Spin.h"
#include "support/Thread.h"

#include <cstdlib>

using namespace pp::runtime;

/// What goes over a socket; a value's bytes follow.
struct SocketTransport::Message {
  static constexpr uint32_t valueKind = 0x4c415650, creditKind = 0x44524350,
                            goodbyeKind = 0x45594250;
  uint32_t kind;
  uint32_t channel, microbatch, reserved;
  uint64_t bytes;
};

SocketTransport::SocketTransport(const Plan &plan, const Placement &placement,
                                 const std::deque<StageMemory> &memories,
                                 Device &device, ProcessGroup &group,
                                 const std::set<unsigned> &others,
                                 FailureHandler onFailure)
    : group(group), onFailure(std::move(onFailure)),
      isAsynchronous(!device.isHostMemory()),
      spins(spinsFor(plan.ranks.size())), counters(plan) {
  for (const PlanChannel &channel : plan.channels) {
    Channel &entry = channels.emplace_back();
    entry.plan = &channel;
    if (!placement.isBorder(channel) || others.count(placement.peerOf(channel)))
      continue;
    entry.peer = placement.peerOf(channel);
    peers.insert(entry.peer);
    bool isSender = placement.hasStage(channel.from);
    entry.base = isSender ? memories[channel.from].at(channel.sendOffset)
                          : memories[channel.to].at(channel.receiveOffset);
    entry.slots = std::make_unique<Slot[]>(channel.receiveSlots);
    auto place = [&] {
      return device.allocateHost(alignUp(channel.bytes),
                                 fmt::format("channel '{}'", channel.name));
    };
    if (isSender) {
      entry.sendSlots = std::make_unique<SendSlot[]>(channel.sendSlots);
      for (unsigned i = 0; isAsynchronous && i < channel.sendSlots; ++i) {
        entry.sendSlots[i].host = place();
        entry.sendSlots[i].produced = device.createEvent();
        entry.sendSlots[i].left = device.createEvent();
      }
      continue;
    }
    for (unsigned i = 0; isAsynchronous && i < channel.receiveSlots; ++i) {
      entry.slots[i].host = place();
      entry.slots[i].arrived = device.createEvent();
      entry.slots[i].freed = device.createEvent();
    }
  }
  for (auto &[peer, socket] : group.connect({peers.begin(), peers.end()})) {
    Connection &connection = connections[peer];
    connection.peer = peer;
    connection.socket = std::move(socket);
  }
}

void SocketTransport::start() {
  for (auto &[peer, connection] : connections)
    connection.reader =
        startThread(fmt::format("what comes from {}", group.describe(peer)),
                    [this, &connection = connection] { read(connection); });
  if (isAsynchronous && !connections.empty())
    worker =
        startThread("values on their way to sockets", [this] { runJobs(); });
}

void SocketTransport::stop(bool isOrderly) noexcept {
  if (isOrderly)
    for (auto &[peer, connection] : connections)
      try {
        post(connection, {Message::goodbyeKind, 0, 0, 0, 0}, nullptr);
      } catch (const Aborted &) {
        // It has gone before.
      }
  abort();
  for (auto &[peer, connection] : connections)
    if (connection.reader.joinable())
      connection.reader.join();
  if (worker.joinable())
    worker.join();
}

void SocketTransport::post(Connection &connection, const Message &message,
                           const char *data) {
  try {
    std::lock_guard<std::mutex> lock(connection.sending);
    connection.socket.send(&message, sizeof(message));
    connection.socket.send(data, message.bytes);
  } catch (const Error &) {
    // The reader's thread finds out why.
    throw Aborted();
  }
}

void SocketTransport::runAfter(Event &event, std::function<void()> work) {
  std::lock_guard<std::mutex> lock(mutex);
  jobs.push_back({&event, std::move(work)});
  changed.notify_all();
}

void SocketTransport::runJobs() {
  try {
    while (true) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return isStopping || !jobs.empty(); });
      if (isStopping)
        return;
      Job job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job.event->synchronize();
      job.work();
    }
  } catch (const Aborted &) {
  } catch (...) {
    onFailure(std::current_exception());
  }
}

void SocketTransport::prepareSend(unsigned index, unsigned microbatch,
                                  RankStreams &streams) {
  Channel &channel = channels[index];
  // Elsewhere the value has left when send() returns.
  if (isAsynchronous)
    streams.compute->wait(
        *channel.sendSlots[channel.plan->sendSlot[microbatch]].left);
}

void SocketTransport::send(unsigned index, unsigned microbatch,
                           RankStreams &streams) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  Connection &connection = connections.at(channel.peer);
  SendSlot &sendSlot = channel.sendSlots[plan.sendSlot[microbatch]];
  Slot &slot = channel.slots[plan.receiveSlot[microbatch]];
  const char *source =
      channel.base + plan.sendSlot[microbatch] * alignUp(plan.bytes);
  Message message{Message::valueKind, index, microbatch, 0, plan.bytes};
  if (isAsynchronous)
    streams.compute->record(*sendSlot.produced);
  slot.flag.waitFor(0, spins);
  slot.flag.change(0, microbatch + 1);
  counters.addSent(index);
  sendSlot.busy.waitFor(0, spins);
  sendSlot.busy.change(0, 1);
  if (!isAsynchronous) {
    post(connection, message, source);
    return sendSlot.busy.change(1, 0);
  }
  Stream &stream = *streams.send;
  stream.wait(*sendSlot.produced);
  stream.copy(sendSlot.host.get(), source, plan.bytes);
  stream.record(*sendSlot.left);
  runAfter(*sendSlot.left, [this, &connection, message, &sendSlot] {
    post(connection, message, sendSlot.host.get());
    sendSlot.busy.change(1, 0);
  });
}

void SocketTransport::receive(unsigned index, unsigned microbatch,
                              RankStreams &streams) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  unsigned number = plan.receiveSlot[microbatch];
  Slot &slot = channel.slots[number];
  slot.flag.waitFor(microbatch + 1, spins);
  slot.flag.change(microbatch + 1, Slot::taken);
  counters.addReceived(index);
  if (!isAsynchronous)
    return;
  Stream &stream = *streams.receive;
  stream.wait(*slot.freed);
  stream.copy(channel.base + number * alignUp(plan.bytes), slot.host.get(),
              plan.bytes);
  stream.record(*slot.arrived);
  streams.compute->wait(*slot.arrived);
  // The place on the host is free before the slot on the device is.
  runAfter(*slot.arrived,
           [this, index, microbatch] { sendCredit(index, microbatch); });
}

void SocketTransport::release(unsigned index, unsigned microbatch,
                              RankStreams &streams) {
  Channel &channel = channels[index];
  if (isAsynchronous)
    streams.compute->record(
        *channel.slots[channel.plan->receiveSlot[microbatch]].freed);
  else
    sendCredit(index, microbatch);
}

void SocketTransport::sendCredit(unsigned index, unsigned microbatch) {
  Channel &channel = channels[index];
  channel.slots[channel.plan->receiveSlot[microbatch]].flag.change(Slot::taken,
                                                                   0);
  post(connections.at(channel.peer),
       {Message::creditKind, index, microbatch, 0, 0}, nullptr);
}

void SocketTransport::read(Connection &connection) {
  try {
    while (true) {
      Message message{};
      connection.socket.receive(&message, sizeof(message));
      if (message.kind == Message::goodbyeKind)
        return;
      take(connection, message);
    }
  } catch (const Aborted &) {
    return;
  } catch (const ConnectionClosed &) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (isStopping)
        return;
    }
    onFailure(group.lost(connection.peer));
  } catch (...) {
    onFailure(std::current_exception());
  }
}

void SocketTransport::take(Connection &connection, const Message &message) {
  bool isValue = message.kind == Message::valueKind;
  bool fits =
      (isValue || message.kind == Message::creditKind) &&
      message.channel < channels.size() &&
      message.microbatch < channels[message.channel].plan->receiveSlot.size() &&
      channels[message.channel].slots &&
      channels[message.channel].peer == connection.peer &&
      (channels[message.channel].sendSlots == nullptr) == isValue;
  uint64_t expected =
      fits && isValue ? channels[message.channel].plan->bytes : 0;
  if (!fits || message.bytes != expected)
    failInternal("{} sent what the plan does not know: kind {:x}, channel {}, "
                 "micro-batch {}, {} bytes",
                 group.describe(connection.peer), message.kind, message.channel,
                 message.microbatch, message.bytes);
  Channel &channel = channels[message.channel];
  unsigned number = channel.plan->receiveSlot[message.microbatch];
  Slot &slot = channel.slots[number];
  if (!isValue)
    return slot.flag.change(message.microbatch + 1, 0);
  if (slot.flag.get() != 0)
    failInternal("{} sent micro-batch {} of channel '{}' before its slot was "
                 "free",
                 group.describe(connection.peer), message.microbatch,
                 channel.plan->name);
  char *target = isAsynchronous
                     ? slot.host.get()
                     : channel.base + number * alignUp(channel.plan->bytes);
  // The peer has what was sent out of this place, but send() may not have
  // returned.
  if (auto sent = channel.plan->repliesTo)
    channels[*sent].sendSlots[0].busy.waitFor(0, spins);
  connection.socket.receive(target, message.bytes);
  slot.flag.change(0, message.microbatch + 1);
}

void SocketTransport::abort() noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
    changed.notify_all();
  }
  for (Channel &channel : channels) {
    for (unsigned i = 0; channel.slots && i < channel.plan->receiveSlots; ++i)
      channel.slots[i].flag.abort();
    for (unsigned i = 0; channel.sendSlots && i < channel.plan->sendSlots; ++i)
      channel.sendSlots[i].busy.abort();
  }
  for (auto &[peer, connection] : connections)
    connection.socket.shutdown();
}

TransportKind SocketTransport::kind() {
  return {"host-staged", "sockets", /*sharesMemory=*/false,
          [](const Device &, const ProcessGroup &) { return true; },
          [](const TransportContext &context,
             const std::set<unsigned> &served) -> std::unique_ptr<Transport> {
            return std::make_unique<SocketTransport>(
                context.plan, context.placement, context.memories,
                context.device, context.group, served, context.onFailure);
          }};
}
