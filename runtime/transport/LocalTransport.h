//===- LocalTransport.h - Between threads of one process ------------------===//
#ifndef PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H

#include "core/StageMemory.h"
#include "transport/Transport.h"

#include <atomic>
#include <deque>
#include <memory>

namespace pp::runtime {

/// One flag per receive slot says which micro-batch it holds; the sender copies
/// straight into the slot. Waiting spins for some microseconds, then sleeps.
class LocalTransport : public Transport {
public:
  /// `memories` by stage; both have to outlive the transport.
  LocalTransport(const Plan &plan, const std::deque<StageMemory> &memories);

  void send(unsigned channel, unsigned microbatch) override;
  void receive(unsigned channel, unsigned microbatch) override;
  void release(unsigned channel, unsigned microbatch) override;
  void abort() noexcept override;
  std::vector<ChannelTraffic> traffic() const override;

private:
  // Own cache lines, so that polling one slot does not slow down another.
  struct alignas(64) Slot {
    std::atomic<uint32_t> state{0}; // 0 free, m + 1 holds micro-batch m
  };
  struct Channel {
    const PlanChannel *plan;
    char *sendBase, *receiveBase;
    std::unique_ptr<Slot[]> slots;
    alignas(64) std::atomic<uint64_t> sent{0};
    alignas(64) std::atomic<uint64_t> received{0};
  };

  void waitFor(Slot &slot, uint32_t state);
  void change(Slot &slot, uint32_t from, uint32_t to);

  std::deque<Channel> channels;
  unsigned spins;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
