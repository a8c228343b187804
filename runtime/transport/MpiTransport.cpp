//===- MpiTransport.cpp ---------------------------------------------------===//
#include "transport/MpiTransport.h"
#include "process/ProcessGroup.h"
#include "support/Spin.h"
#include "support/Thread.h"

using namespace pp::runtime;

/// Asking MPI takes as long as some looks at a flag.
static constexpr unsigned spinsPerTest = 20;

MpiTransport::MpiTransport(const TransportContext &context,
                           const std::set<unsigned> &served)
    : endpoint(context.group.getLaunch().mpi.get()), group(context.group),
      onFailure(context.onFailure),
      spins(spinsFor(context.plan.ranks.size()) / spinsPerTest),
      counters(context.plan) {
  const Placement &placement = context.placement;
  for (const PlanChannel &channel : context.plan.channels)
    channels.emplace_back().plan = &channel;
  if (!endpoint)
    reason = "mpirun or srun has to start the processes";
  else if (!context.device.isHostMemory())
    reason = "MPI moves values between memories of the host; between GPUs, "
             "--transport nccl does";
  if (!reason.empty())
    return;
  std::map<unsigned, uint32_t> tags; // by peer: how many
  for (Channel &channel : channels) {
    const PlanChannel &plan = *channel.plan;
    if (!placement.isBorder(plan) || served.count(placement.peerOf(plan)))
      continue;
    unsigned peer = placement.peerOf(plan);
    peers.insert(peer);
    channel.isSender = placement.hasStage(plan.from);
    channel.tag = tags[peer];
    tags[peer] += plan.receiveSlots;
    channel.slotCount = channel.isSender ? plan.sendSlots : plan.receiveSlots;
    channel.slots = std::make_unique<Slot[]>(channel.slotCount);
    char *base = channel.isSender
                     ? context.memories[plan.from].at(plan.sendOffset)
                     : context.memories[plan.to].at(plan.receiveOffset);
    for (unsigned i = 0; i < channel.slotCount; ++i) {
      Slot &slot = channel.slots[i];
      MpiOperation &operation = slot.operation;
      operation.isSend = channel.isSender;
      operation.peer = peer;
      operation.data = base + i * alignUp(plan.bytes);
      operation.bytes = plan.bytes;
      uint32_t before = channel.isSender ? Slot::full : Slot::empty;
      uint32_t after = channel.isSender ? Slot::empty : Slot::full;
      operation.onEnd = [this, peer, &slot, before,
                         after](const std::exception_ptr &error) {
        if (error)
          return fail(peer, error);
        try {
          slot.flag.change(before, after);
        } catch (const Aborted &) {
          return; // Nobody waits for it any more.
        }
      };
    }
  }
  for (const auto &[peer, count] : tags)
    firstTags[peer] = endpoint->reserveTags(peer, count);
  for (Channel &channel : channels)
    if (channel.slots)
      channel.tag += firstTags.at(placement.peerOf(*channel.plan));
}

MpiTransport::~MpiTransport() {
  // One that was never started has no operations.
  if (isRunning)
    stop(/*isOrderly=*/false);
  for (const auto &[peer, first] : firstTags)
    endpoint->releaseTags(peer, first);
}

void MpiTransport::start() {
  isRunning = true;
  for (Channel &channel : channels)
    // A place that is sent from first is not free yet.
    if (!channel.isSender && !channel.plan->repliesTo)
      for (unsigned i = 0; i < channel.slotCount; ++i)
        expect(channel, i);
}

std::vector<MpiOperation *> MpiTransport::operations() {
  std::vector<MpiOperation *> result;
  for (Channel &channel : channels)
    for (unsigned i = 0; i < channel.slotCount; ++i)
      result.push_back(&channel.slots[i].operation);
  return result;
}

void MpiTransport::stop(bool isOrderly) noexcept {
  if (!isRunning)
    return;
  isRunning = false;
  try {
    for (Channel &channel : channels)
      for (unsigned i = 0;
           isOrderly && channel.isSender && i < channel.slotCount; ++i)
        waitFor(channel.slots[i], Slot::empty);
  } catch (const Aborted &) {
    isOrderly = false; // Somebody has failed since.
  }
  endpoint->cancel(operations());
  if (asking.joinable())
    asking.join();
}

void MpiTransport::fail(unsigned peer, const std::exception_ptr &error) {
  // MPI may notice before the alarm that a process is gone, and all that comes
  // after it is a consequence.
  std::call_once(hasFailed, [&] {
    try {
      std::rethrow_exception(error);
    } catch (const Error &cause) {
      if (cause.getKind() != ErrorKind::IO)
        return onFailure(error);
      try {
        asking = startThread("what MPI reports",
                             [this, peer, symptom = std::string(cause.what())] {
                               onFailure(group.lost(peer, symptom));
                             });
      } catch (const Error &) {
        onFailure(error);
      }
    }
  });
}

void MpiTransport::waitFor(Slot &slot, uint32_t value) {
  for (unsigned i = 0; i < spins && slot.flag.get() != value; ++i) {
    endpoint->help();
    spinPause();
  }
  if (slot.flag.get() == value)
    return;
  MpiEndpoint::Waiting waiting(*endpoint);
  slot.flag.waitFor(value, 0);
}

void MpiTransport::expect(Channel &channel, unsigned number) {
  MpiOperation &operation = channel.slots[number].operation;
  operation.tag = channel.tag + number;
  endpoint->start(operation);
}

void MpiTransport::prepareSend(unsigned index, unsigned microbatch,
                               RankStreams &) {
  Channel &channel = channels[index];
  waitFor(channel.slots[channel.plan->sendSlot[microbatch]], Slot::empty);
}

void MpiTransport::send(unsigned index, unsigned microbatch, RankStreams &) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  Slot &slot = channel.slots[plan.sendSlot[microbatch]];
  waitFor(slot, Slot::empty);
  slot.flag.change(Slot::empty, Slot::full);
  slot.operation.tag = channel.tag + plan.receiveSlot[microbatch];
  counters.addSent(index);
  endpoint->start(slot.operation);
}

void MpiTransport::receive(unsigned index, unsigned microbatch, RankStreams &) {
  Channel &channel = channels[index];
  unsigned number = channel.plan->receiveSlot[microbatch];
  Slot &slot = channel.slots[number];
  if (auto sent = channel.plan->repliesTo) {
    // What was sent from this place has to have left it.
    waitFor(channels[*sent].slots[0], Slot::empty);
    expect(channel, number);
  }
  waitFor(slot, Slot::full);
  slot.flag.change(Slot::full, Slot::taken);
  counters.addReceived(index);
}

void MpiTransport::release(unsigned index, unsigned microbatch, RankStreams &) {
  Channel &channel = channels[index];
  unsigned number = channel.plan->receiveSlot[microbatch];
  channel.slots[number].flag.change(Slot::taken, Slot::empty);
  if (!channel.plan->repliesTo)
    expect(channel, number);
}

void MpiTransport::abort() noexcept {
  for (Channel &channel : channels)
    for (unsigned i = 0; i < channel.slotCount; ++i)
      channel.slots[i].flag.abort();
}

TransportKind MpiTransport::kind() {
  return {"mpi", "MPI, where mpirun or srun has started the processes",
          /*sharesMemory=*/false,
          [](const Device &device, const ProcessGroup &group) {
            return device.isHostMemory() && group.getLaunch().mpi != nullptr;
          },
          [](const TransportContext &context,
             const std::set<unsigned> &served) -> std::unique_ptr<Transport> {
            return std::make_unique<MpiTransport>(context, served);
          }};
}
