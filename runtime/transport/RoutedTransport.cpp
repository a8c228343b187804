//===- RoutedTransport.cpp ------------------------------------------------===//
#include "transport/RoutedTransport.h"
#include "support/Error.h"
#include "transport/LocalTransport.h"
#include "transport/PeerTransport.h"
#include "transport/SocketTransport.h"

using namespace pp::runtime;

namespace {

class RoutedTransport : public Transport {
public:
  RoutedTransport(const Program &program,
                  std::function<void(std::exception_ptr)> onFailure) {
    const Plan &plan = program.getPlan();
    const Placement &placement = program.getPlacement();
    ProcessGroup &group = program.getGroup();
    const auto &memories = program.getMemories();
    Device &device = program.getDevice();
    Transport *local = add(
        std::make_unique<LocalTransport>(plan, placement, memories, device));
    std::set<unsigned> peers;
    Transport *peer = nullptr;
    if (group.size() > 1 && group.getTransport() != TransportKind::HostStaged) {
      auto created = std::make_unique<PeerTransport>(plan, placement, memories,
                                                     device, group);
      peers = created->getPeers();
      if (group.getTransport() == TransportKind::Peer)
        checkAll(plan, placement, *created, group);
      peer = add(std::move(created));
    }
    Transport *socket = add(std::make_unique<SocketTransport>(
        plan, placement, memories, device, group, peers, std::move(onFailure)));
    for (const PlanChannel &channel : plan.channels)
      ofChannel.push_back(!placement.isBorder(channel)             ? local
                          : peers.count(placement.peerOf(channel)) ? peer
                                                                   : socket);
  }

  void start() override {
    for (auto &transport : transports)
      transport->start();
  }
  void stop(bool isOrderly) noexcept override {
    for (auto &transport : transports)
      transport->stop(isOrderly);
  }
  void prepareSend(unsigned channel, unsigned microbatch,
                   RankStreams &streams) override {
    ofChannel[channel]->prepareSend(channel, microbatch, streams);
  }
  void send(unsigned channel, unsigned microbatch,
            RankStreams &streams) override {
    ofChannel[channel]->send(channel, microbatch, streams);
  }
  void receive(unsigned channel, unsigned microbatch,
               RankStreams &streams) override {
    ofChannel[channel]->receive(channel, microbatch, streams);
  }
  void release(unsigned channel, unsigned microbatch,
               RankStreams &streams) override {
    ofChannel[channel]->release(channel, microbatch, streams);
  }
  void abort() noexcept override {
    for (auto &transport : transports)
      transport->abort();
  }
  std::vector<ChannelTraffic> traffic() const override {
    std::vector<ChannelTraffic> sum(ofChannel.size());
    for (const auto &transport : transports) {
      std::vector<ChannelTraffic> part = transport->traffic();
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i].sentBytes += part[i].sentBytes;
        sum[i].receivedBytes += part[i].receivedBytes;
        sum[i].messages += part[i].messages;
      }
    }
    return sum;
  }

private:
  Transport *add(std::unique_ptr<Transport> transport) {
    transports.push_back(std::move(transport));
    return transports.back().get();
  }
  /// Throws Error(Usage) where a channel has no peer to go to.
  static void checkAll(const Plan &plan, const Placement &placement,
                       const PeerTransport &transport, ProcessGroup &group) {
    for (const PlanChannel &channel : plan.channels) {
      if (!placement.isBorder(channel) ||
          transport.getPeers().count(placement.peerOf(channel)))
        continue;
      std::string reason = transport.getReason();
      failUsage("--transport peer: cannot reach the memory of {}: {}",
                group.describe(placement.peerOf(channel)),
                reason.empty() ? "it is on another machine" : reason);
    }
  }

  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Transport *> ofChannel;
};

} // namespace

std::unique_ptr<Transport> pp::runtime::createTransport(
    const Program &program, std::function<void(std::exception_ptr)> onFailure) {
  return std::make_unique<RoutedTransport>(program, std::move(onFailure));
}
