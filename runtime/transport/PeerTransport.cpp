//===- PeerTransport.cpp --------------------------------------------------===//
#include "transport/PeerTransport.h"
#include "device/KeptShares.h"
#include "support/Error.h"

#include <new>

using namespace pp::runtime;

/// The channels between this process and a peer, and what either side tells the
/// other. Both walk the plan in the same order, so handles need no names.
class PeerTransport::Exchange {
public:
  Exchange(PeerTransport &transport, const Placement &placement,
           const std::deque<StageMemory> &memories, Device &device,
           unsigned peer)
      : transport(transport), placement(placement), memories(memories),
        device(device) {
    for (Channel &channel : transport.channels)
      if (placement.isBorder(*channel.plan) &&
          placement.peerOf(*channel.plan) == peer)
        shared.push_back(&channel);
  }

  bool isEmpty() const { return shared.empty(); }

  /// Makes this side's part; returns its handles.
  std::vector<std::string> offer() {
    std::vector<std::string> handles;
    size_t flagCount = 0;
    for (Channel *channel : shared)
      if (isReceiver(*channel))
        flagCount += channel->plan->receiveSlots;
    own = SharedMemory(std::max<size_t>(1, flagCount) * sizeof(SlotFlag));
    handles.push_back(own.getHandle());
    auto *flag = reinterpret_cast<SlotFlag *>(own.data());
    for (Channel *channel : shared) {
      const PlanChannel &plan = *channel->plan;
      if (isReceiver(*channel)) {
        const std::string &handle = memories[plan.to].getHandle();
        if (handle.empty())
          throw Error(ErrorKind::IO,
                      fmt::format("the memory of stage '{}' is not shared",
                                  memories[plan.to].getPlan().name));
        handles.push_back(handle);
      }
      for (unsigned i = 0; i < plan.receiveSlots; ++i) {
        std::string handle;
        std::unique_ptr<Event> event = device.createSharedEvent(handle);
        handles.push_back(handle);
        if (isReceiver(*channel))
          channel->slots.push_back(
              {new (flag++) SlotFlag, nullptr, std::move(event)});
        else
          channel->slots.push_back({nullptr, std::move(event), nullptr});
      }
    }
    return handles;
  }

  /// How many handles the other side's offer has.
  size_t expected() const {
    size_t count = 1;
    for (const Channel *channel : shared)
      count += channel->plan->receiveSlots + (isReceiver(*channel) ? 0 : 1);
    return count;
  }

  /// Opens the other side's part.
  void accept(const std::vector<std::string> &handles) {
    auto handle = handles.begin();
    SharedMemory theirs(*handle++);
    auto *flag = reinterpret_cast<SlotFlag *>(theirs.data());
    for (Channel *channel : shared) {
      const PlanChannel &plan = *channel->plan;
      if (!isReceiver(*channel)) {
        transport.peerMemories.push_back(device.openShared(*handle++));
        channel->receiveBase =
            transport.peerMemories.back().get() + plan.receiveOffset;
        channel->sendBase = memories[plan.from].at(plan.sendOffset);
        transport.addSendSlots(*channel, device);
      }
      for (Slot &slot : channel->slots) {
        std::unique_ptr<Event> event = device.openSharedEvent(*handle++);
        if (isReceiver(*channel)) {
          slot.arrived = std::move(event);
        } else {
          slot.freed = std::move(event);
          slot.flag = flag++;
        }
      }
    }
    transport.boards.push_back(std::move(own));
    transport.boards.push_back(std::move(theirs));
  }

  /// Leaves the channels to another transport.
  void giveUp() {
    for (Channel *channel : shared) {
      channel->slots.clear();
      channel->sendSlots.clear();
    }
  }

private:
  bool isReceiver(const Channel &channel) const {
    return placement.hasStage(channel.plan->to);
  }

  PeerTransport &transport;
  const Placement &placement;
  const std::deque<StageMemory> &memories;
  Device &device;
  std::vector<Channel *> shared;
  SharedMemory own;
};

void PeerTransport::stop(bool isOrderly) noexcept {
  for (Channel &channel : channels) {
    bool isSender = channel.receiveBase != nullptr;
    for (Slot &slot : channel.slots)
      if (!isOrderly)
        keepUntilTheEnd(std::move(isSender ? slot.arrived : slot.freed));
    channel.slots.clear();
  }
  peerMemories.clear();
  if (!isOrderly)
    return;
  try {
    // What another process has open must not be freed.
    group.barrier();
  } catch (const Error &) {
    return; // Then it has failed, and this one hears of it.
  }
}

PeerTransport::PeerTransport(const Plan &plan, const Placement &placement,
                             const std::deque<StageMemory> &memories,
                             Device &device, ProcessGroup &group)
    : DirectTransport(plan), group(group) {
  // Pairs in one order everywhere, so that nobody waits in a circle.
  for (unsigned peer = 0; peer < group.size(); ++peer) {
    if (peer == group.process() || !group.isOnThisMachine(peer))
      continue;
    Exchange exchange(*this, placement, memories, device, peer);
    if (exchange.isEmpty())
      continue;
    std::string fault;
    std::vector<std::string> offer;
    try {
      offer = exchange.offer();
    } catch (const Error &error) {
      fault = error.what();
    }
    /// Tells the peer whether this side can go on; hears the same.
    auto agree = [&] {
      bool works = group.both(peer, fault.empty());
      if (!works && fault.empty())
        fault = fmt::format("{} cannot share memory", group.describe(peer));
      return works;
    };
    bool works = agree();
    if (works) {
      for (const std::string &handle : offer)
        group.send(peer, handle);
      std::vector<std::string> theirs(exchange.expected());
      for (std::string &handle : theirs)
        handle = group.receive(peer);
      try {
        exchange.accept(theirs);
      } catch (const RemoteFailure &) {
        throw;
      } catch (const Error &error) {
        fault = error.what();
      }
      works = agree();
    }
    if (works) {
      peers.insert(peer);
      continue;
    }
    exchange.giveUp();
    reason = fault;
  }
}

TransportKind PeerTransport::kind() {
  return {"peer", "straight into each other's memory, on one machine",
          /*sharesMemory=*/true,
          [](const Device &, const ProcessGroup &) { return true; },
          [](const TransportContext &context,
             const std::set<unsigned> &) -> std::unique_ptr<Transport> {
            return std::make_unique<PeerTransport>(
                context.plan, context.placement, context.memories,
                context.device, context.group);
          }};
}
