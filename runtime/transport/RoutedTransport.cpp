//===- RoutedTransport.cpp ------------------------------------------------===//
#include "transport/RoutedTransport.h"
#include "support/Error.h"
#include "transport/LinkTransport.h"
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
    // Each takes the processes that those before it do not reach.
    std::map<unsigned, Transport *> ofPeer;
    std::set<unsigned> served;
    auto serve = [&](auto created) {
      for (unsigned peer : created->getPeers()) {
        ofPeer[peer] = created.get();
        served.insert(peer);
      }
      std::string reason = created->getReason();
      add(std::move(created));
      return reason;
    };
    TransportKind kind = group.getTransport();
    if (group.size() > 1 &&
        (kind == TransportKind::Auto || kind == TransportKind::Peer)) {
      std::string reason = serve(std::make_unique<PeerTransport>(
          plan, placement, memories, device, group));
      if (kind == TransportKind::Peer)
        checkAll(plan, placement, served, group, "peer", reason);
    }
    // The processor has no links.
    if (group.size() > 1 &&
        (kind == TransportKind::Link ||
         (kind == TransportKind::Auto && !device.isHostMemory()))) {
      std::string reason = serve(std::make_unique<LinkTransport>(
          plan, placement, memories, device, group, served));
      if (kind == TransportKind::Link)
        checkAll(plan, placement, served, group, "nccl", reason);
    }
    Transport *socket = add(
        std::make_unique<SocketTransport>(plan, placement, memories, device,
                                          group, served, std::move(onFailure)));
    for (const PlanChannel &channel : plan.channels) {
      if (!placement.isBorder(channel)) {
        ofChannel.push_back(local);
        continue;
      }
      auto it = ofPeer.find(placement.peerOf(channel));
      ofChannel.push_back(it == ofPeer.end() ? socket : it->second);
    }
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
  /// Throws Error(Usage) where a channel goes to a process that is not served.
  static void checkAll(const Plan &plan, const Placement &placement,
                       const std::set<unsigned> &served, ProcessGroup &group,
                       const char *name, const std::string &reason) {
    for (const PlanChannel &channel : plan.channels) {
      if (!placement.isBorder(channel) ||
          served.count(placement.peerOf(channel)))
        continue;
      failUsage("--transport {}: cannot reach {}: {}", name,
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
