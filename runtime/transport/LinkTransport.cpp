//===- LinkTransport.cpp --------------------------------------------------===//
#include "transport/LinkTransport.h"
#include "support/Error.h"

#include <chrono>
#include <thread>

using namespace pp::runtime;

/// By stage.
static std::vector<unsigned> ranksOf(const Plan &plan) {
  std::vector<unsigned> ranks(plan.stages.size());
  for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
    for (unsigned stage : plan.ranks[rank].stages)
      ranks[stage] = rank;
  return ranks;
}

/// The transfers from one rank to another, in the order of the actions of one
/// of them.
static std::vector<std::pair<unsigned, unsigned>>
transfers(const Plan &plan, const std::vector<unsigned> &rankOf, unsigned from,
          unsigned to, ActionKind kind) {
  std::vector<std::pair<unsigned, unsigned>> result;
  unsigned rank = kind == ActionKind::Send ? from : to;
  for (const PlanAction &action : plan.ranks[rank].actions)
    if (action.kind == kind &&
        rankOf[plan.channels[action.channel].from] == from &&
        rankOf[plan.channels[action.channel].to] == to)
      result.emplace_back(action.channel, action.microbatch);
  return result;
}

/// Whether all ranks reach their ends even where each send waits for its
/// receive, and a rank for its send. Streams wait less than that, but the first
/// transfer of a link may make the host wait.
static bool completesUnderRendezvous(const Plan &plan) {
  std::vector<size_t> next(plan.ranks.size(), 0);
  auto current = [&](unsigned rank) {
    const auto &actions = plan.ranks[rank].actions;
    return next[rank] < actions.size() ? &actions[next[rank]] : nullptr;
  };
  std::vector<unsigned> rankOf = ranksOf(plan);
  for (bool progress = true; progress;) {
    progress = false;
    for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
      while (const PlanAction *action = current(rank)) {
        if (action->kind == ActionKind::Receive)
          break; // its sender takes it along
        if (action->kind == ActionKind::Send) {
          unsigned to = rankOf[plan.channels[action->channel].to];
          const PlanAction *other = current(to);
          if (!other || other->kind != ActionKind::Receive ||
              other->channel != action->channel ||
              other->microbatch != action->microbatch)
            break;
          ++next[to];
        }
        ++next[rank];
        progress = true;
      }
  }
  for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
    if (current(rank))
      return false;
  return true;
}

LinkTransport::LinkTransport(const Plan &plan, const Placement &placement,
                             const std::deque<StageMemory> &memories,
                             Device &device, ProcessGroup &group,
                             const std::set<unsigned> &others)
    : counters(plan) {
  std::set<unsigned> candidates;
  for (const PlanChannel &channel : plan.channels) {
    channels.emplace_back().plan = &channel;
    if (placement.isBorder(channel) && !others.count(placement.peerOf(channel)))
      candidates.insert(placement.peerOf(channel));
  }
  // Pairs in one order everywhere, so that nobody waits in a circle.
  for (unsigned peer : candidates) {
    std::string fault;
    try {
      openLinks(plan, placement, device, group, peer);
    } catch (const RemoteFailure &) {
      throw;
    } catch (const Error &error) {
      fault = error.what();
    }
    if (group.both(peer, fault.empty()))
      peers.insert(peer);
    else
      reason = fault.empty()
                   ? fmt::format("{} cannot open a link", group.describe(peer))
                   : fault;
  }
  std::vector<unsigned> rankOf = ranksOf(plan);
  for (Channel &channel : channels) {
    const PlanChannel &plan = *channel.plan;
    if (!placement.isBorder(plan) || !peers.count(placement.peerOf(plan)))
      continue;
    channel.link = links.at({rankOf[plan.from], rankOf[plan.to]}).get();
    bool isSender = placement.hasStage(plan.from);
    channel.base = isSender ? memories[plan.from].at(plan.sendOffset)
                            : memories[plan.to].at(plan.receiveOffset);
    for (unsigned i = 0; i < (isSender ? plan.sendSlots : plan.receiveSlots);
         ++i)
      channel.slots.push_back({device.createEvent(), device.createEvent()});
  }
}

void LinkTransport::openLinks(const Plan &plan, const Placement &placement,
                              Device &device, ProcessGroup &group,
                              unsigned peer) {
  std::vector<unsigned> rankOf = ranksOf(plan);
  std::set<Edge> edges;
  for (const PlanChannel &channel : plan.channels)
    if (placement.isBorder(channel) && placement.peerOf(channel) == peer)
      edges.emplace(rankOf[channel.from], rankOf[channel.to]);
  // Both sides find the same, so neither waits for the other in vain.
  if (!completesUnderRendezvous(plan))
    throw Error(ErrorKind::Usage,
                "the plan's ranks would wait for each other: it needs sends "
                "that do not wait for their receives");
  for (auto [from, to] : edges)
    if (transfers(plan, rankOf, from, to, ActionKind::Send) !=
        transfers(plan, rankOf, from, to, ActionKind::Receive))
      throw Error(ErrorKind::Usage,
                  fmt::format("rank {} sends to rank {} in another order than "
                              "that receives",
                              from, to));
  std::vector<Link *> opened;
  for (const Edge &edge : edges) {
    // The sender names the link; an empty name: it has none.
    bool isSender = placement.hasRank(edge.first);
    std::string name, fault;
    if (isSender) {
      try {
        name = device.createLinkName();
      } catch (const Error &error) {
        fault = error.what();
      }
      group.send(peer, name);
      if (!fault.empty())
        throw Error(ErrorKind::IO, fault);
    } else {
      name = group.receive(peer);
      if (name.empty())
        throw Error(ErrorKind::IO,
                    fmt::format("{} cannot open a link", group.describe(peer)));
    }
    links[edge] = device.openLink(name, isSender);
    opened.push_back(links[edge].get());
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (Link *link : opened)
    while (!link->isOpen()) {
      if (std::chrono::steady_clock::now() > end)
        throw Error(ErrorKind::IO,
                    fmt::format("the link to {} does not open within 60 s",
                                group.describe(peer)));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void LinkTransport::prepareSend(unsigned index, unsigned microbatch,
                                RankStreams &streams) {
  Channel &channel = channels[index];
  streams.compute->wait(
      *channel.slots[channel.plan->sendSlot[microbatch]].second);
}

void LinkTransport::send(unsigned index, unsigned microbatch,
                         RankStreams &streams) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  unsigned number = plan.sendSlot[microbatch];
  auto &[produced, left] = channel.slots[number];
  streams.compute->record(*produced);
  streams.send->wait(*produced);
  channel.link->send(*streams.send, channel.base + number * alignUp(plan.bytes),
                     plan.bytes);
  streams.send->record(*left);
  counters.addSent(index);
}

void LinkTransport::receive(unsigned index, unsigned microbatch,
                            RankStreams &streams) {
  Channel &channel = channels[index];
  const PlanChannel &plan = *channel.plan;
  unsigned number = plan.receiveSlot[microbatch];
  auto &[freed, arrived] = channel.slots[number];
  streams.receive->wait(*freed);
  channel.link->receive(*streams.receive,
                        channel.base + number * alignUp(plan.bytes),
                        plan.bytes);
  streams.receive->record(*arrived);
  streams.compute->wait(*arrived);
  counters.addReceived(index);
}

void LinkTransport::release(unsigned index, unsigned microbatch,
                            RankStreams &streams) {
  Channel &channel = channels[index];
  streams.compute->record(
      *channel.slots[channel.plan->receiveSlot[microbatch]].first);
}

void LinkTransport::abort() noexcept {
  for (auto &[edge, link] : links)
    if (link)
      link->abort();
}

void LinkTransport::stop(bool isOrderly) noexcept {
  if (!isOrderly)
    abort();
  for (Channel &channel : channels)
    channel.slots.clear();
  links.clear();
}

TransportKind LinkTransport::kind() {
  return {"nccl", "GPUs anywhere", /*sharesMemory=*/false,
          // The processor has no links.
          [](const Device &device, const ProcessGroup &) {
            return !device.isHostMemory();
          },
          [](const TransportContext &context,
             const std::set<unsigned> &served) -> std::unique_ptr<Transport> {
            return std::make_unique<LinkTransport>(
                context.plan, context.placement, context.memories,
                context.device, context.group, served);
          }};
}
