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
#ifndef PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H

#include "core/StageMemory.h"
#include "process/Placement.h"
#include "transport/SlotFlag.h"
#include "transport/Transport.h"

#include <atomic>
#include <deque>
#include <memory>

namespace pp::runtime {

/// The sender copies straight into the receive slot. Serves the channels with
/// both ends in this process.
class LocalTransport : public Transport {
public:
  /// `memories` by stage; all have to outlive the transport.
  LocalTransport(const Plan &plan, const Placement &placement,
                 const std::deque<StageMemory> &memories, Device &device);

  void prepareSend(unsigned channel, unsigned microbatch,
                   RankStreams &streams) override;
  void send(unsigned channel, unsigned microbatch,
            RankStreams &streams) override;
  void receive(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void release(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void abort() noexcept override;
  std::vector<ChannelTraffic> traffic() const override;

private:
  struct Slot {
    SlotFlag flag;
    std::unique_ptr<Event> arrived, freed;
  };
  struct SendSlot {
    std::unique_ptr<Event> produced, left;
  };
  struct Channel {
    const PlanChannel *plan;
    char *sendBase = nullptr, *receiveBase = nullptr;
    std::unique_ptr<Slot[]> slots; // none: not local
    std::vector<SendSlot> sendSlots;
    alignas(64) std::atomic<uint64_t> sent{0};
    alignas(64) std::atomic<uint64_t> received{0};
  };

  std::deque<Channel> channels;
  unsigned spins;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
