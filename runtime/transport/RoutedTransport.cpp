//===- RoutedTransport.cpp ------------------------------------------------===//
#include "transport/RoutedTransport.h"
#include "transport/LocalTransport.h"
#include "transport/SocketTransport.h"

using namespace pp::runtime;

namespace {

class RoutedTransport : public Transport {
public:
  RoutedTransport(const Program &program,
                  std::function<void(std::exception_ptr)> onFailure) {
    const Plan &plan = program.getPlan();
    const Placement &placement = program.getPlacement();
    transports.push_back(std::make_unique<LocalTransport>(
        plan, placement, program.getMemories(), program.getDevice()));
    transports.push_back(std::make_unique<SocketTransport>(
        plan, placement, program.getMemories(), program.getDevice(),
        program.getGroup(), std::move(onFailure)));
    for (const PlanChannel &channel : plan.channels)
      ofChannel.push_back(
          transports[placement.isBorder(channel) ? 1 : 0].get());
  }

  void start() override {
    for (auto &transport : transports)
      transport->start();
  }
  void stop() noexcept override {
    for (auto &transport : transports)
      transport->stop();
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
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Transport *> ofChannel;
};

} // namespace

std::unique_ptr<Transport> pp::runtime::createTransport(
    const Program &program, std::function<void(std::exception_ptr)> onFailure) {
  return std::make_unique<RoutedTransport>(program, std::move(onFailure));
}
