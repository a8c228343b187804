//===- RoutedTransport.cpp ------------------------------------------------===//
#include "transport/RoutedTransport.h"
#include "support/Error.h"
#include "transport/LocalTransport.h"
#include "transport/TransportRegistry.h"

#include <map>

using namespace pp::runtime;

namespace {

class RoutedTransport : public Transport {
public:
  explicit RoutedTransport(const TransportContext &context) {
    const auto &[plan, placement, memories, device, group, onFailure] = context;
    Transport *local = add(
        std::make_unique<LocalTransport>(plan, placement, memories, device));
    std::map<unsigned, Transport *> ofPeer;
    std::set<unsigned> served;
    const std::string &chosen = group.getTransport();
    for (const TransportKind &kind : transportKinds()) {
      bool isLast = &kind == &transportKinds().back();
      bool isWanted = kind.name == chosen ||
                      (chosen == "auto" && kind.isAutomatic(device, group));
      if (group.size() == 1 || (!isWanted && !isLast))
        continue;
      Transport *transport = add(kind.create(context, served));
      for (unsigned peer : transport->getPeers()) {
        ofPeer[peer] = transport;
        served.insert(peer);
      }
      if (kind.name == chosen)
        checkAll(plan, placement, served, group, transport->getReason());
    }
    for (const PlanChannel &channel : plan.channels)
      ofChannel.push_back(placement.isBorder(channel)
                              ? ofPeer.at(placement.peerOf(channel))
                              : local);
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
  bool sendsAtOnce(unsigned channel) const override {
    return ofChannel[channel]->sendsAtOnce(channel);
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
                       const std::string &reason) {
    for (const PlanChannel &channel : plan.channels) {
      if (!placement.isBorder(channel) ||
          served.count(placement.peerOf(channel)))
        continue;
      failUsage("--transport {}: cannot reach {}: {}", group.getTransport(),
                group.describe(placement.peerOf(channel)),
                reason.empty() ? "it is on another machine" : reason);
    }
  }

  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Transport *> ofChannel;
};

} // namespace

std::unique_ptr<Transport>
pp::runtime::createTransport(const TransportContext &context) {
  return std::make_unique<RoutedTransport>(context);
}
