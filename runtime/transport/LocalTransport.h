//===- LocalTransport.h - Between threads of one process ------------------===//
//
// Two layers. Flags between the ranks' threads say how far work has been given
// to streams; events between their streams say how far it has run:
//
//   sender's thread     produced? freed?  copy   arrived!  flag = m + 1
//   receiver's thread                     flag == m + 1?   arrived?  ... freed!
//
// On a device whose streams run at once only the flags remain.
//
// In the same way, each rank puts its flag of agree() into a common place,
// counts how often it has done so, and takes what is there when all have. A
// place is used again two rounds later: its rank has then seen all others in
// the round between, so they have given the work that reads it.
//
#ifndef PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H

#include "core/StageMemory.h"
#include "transport/Transport.h"

#include <atomic>
#include <deque>
#include <memory>

namespace pp::runtime {

/// The sender copies straight into the receive slot. Waiting for a flag spins
/// for some microseconds, then sleeps.
class LocalTransport : public Transport {
public:
  /// `memories` by stage; all have to outlive the transport.
  LocalTransport(const Plan &plan, const std::deque<StageMemory> &memories,
                 Device &device);

  void prepareSend(unsigned channel, unsigned microbatch,
                   RankStreams &streams) override;
  void send(unsigned channel, unsigned microbatch,
            RankStreams &streams) override;
  void receive(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void release(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void agree(unsigned rank, float *flags, RankStreams &streams) override;
  void abort() noexcept override;
  std::vector<ChannelTraffic> traffic() const override;

private:
  // Own cache lines, so that polling one slot does not slow down another.
  struct alignas(64) Slot {
    std::atomic<uint32_t> state{0}; // 0 free, m + 1 holds micro-batch m
    std::unique_ptr<Event> arrived, freed;
  };
  struct SendSlot {
    std::unique_ptr<Event> produced, left;
  };
  struct Channel {
    const PlanChannel *plan;
    char *sendBase, *receiveBase;
    std::unique_ptr<Slot[]> slots;
    std::vector<SendSlot> sendSlots;
    alignas(64) std::atomic<uint64_t> sent{0};
    alignas(64) std::atomic<uint64_t> received{0};
  };

  struct alignas(64) Participant {
    std::atomic<uint32_t> rounds{0};
    std::unique_ptr<Event> published[2];
  };

  /// Waits until the state fulfils a condition; throws Aborted.
  template <typename Condition>
  void waitUntil(std::atomic<uint32_t> &state, Condition condition);
  void waitFor(Slot &slot, uint32_t state);
  static void change(std::atomic<uint32_t> &state, uint32_t from, uint32_t to);

  std::deque<Channel> channels;
  std::deque<Participant> participants; // by rank
  DeviceMemory common; // a float for each rank, in even and in odd rounds
  unsigned spins;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
