//===- TrafficCounters.h - What went through the channels -----------------===//
#ifndef PP_RUNTIME_TRANSPORT_TRAFFICCOUNTERS_H
#define PP_RUNTIME_TRANSPORT_TRAFFICCOUNTERS_H

#include "plan/Plan.h"
#include "transport/Transport.h"

#include <atomic>
#include <deque>

namespace pp::runtime {

/// Counts values by channel. The two ends of a channel may count at the same
/// time, and anybody may read.
class TrafficCounters {
public:
  explicit TrafficCounters(const Plan &plan)
      : plan(plan), counters(plan.channels.size()) {}

  void addSent(unsigned channel) {
    counters[channel].sent.fetch_add(1, std::memory_order_relaxed);
  }
  void addReceived(unsigned channel) {
    counters[channel].received.fetch_add(1, std::memory_order_relaxed);
  }
  std::vector<ChannelTraffic> read() const {
    std::vector<ChannelTraffic> result;
    for (size_t c = 0; c < counters.size(); ++c) {
      uint64_t sent = counters[c].sent.load(std::memory_order_relaxed);
      uint64_t received = counters[c].received.load(std::memory_order_relaxed);
      uint64_t bytes = plan.channels[c].bytes;
      result.push_back({sent * bytes, received * bytes, sent});
    }
    return result;
  }

private:
  // Own cache lines, so that the ends do not slow each other down.
  struct Counter {
    alignas(64) std::atomic<uint64_t> sent{0};
    alignas(64) std::atomic<uint64_t> received{0};
  };
  const Plan &plan;
  std::deque<Counter> counters;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_TRAFFICCOUNTERS_H
