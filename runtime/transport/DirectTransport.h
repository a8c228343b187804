//===- DirectTransport.h - Straight into the receive slot -----------------===//
//
// Two layers. Flags between the threads of two ranks say how much work has been
// enqueued; events between their streams say how much of it has run:
//
//   sender's thread     produced? freed?  copy   arrived!  flag = m + 1
//   receiver's thread                     flag == m + 1?   arrived?  ... freed!
//
// On a synchronous device, the flags alone do it.
//
#ifndef PP_RUNTIME_TRANSPORT_DIRECTTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_DIRECTTRANSPORT_H

#include "plan/Plan.h"
#include "transport/SlotFlag.h"
#include "transport/TrafficCounters.h"
#include "transport/Transport.h"

#include <deque>
#include <memory>
#include <vector>

namespace pp::runtime {

/// For a sender that can write into the receiver's memory. The derived class
/// decides how the two ends share flags, events and memory.
class DirectTransport : public Transport {
public:
  explicit DirectTransport(const Plan &plan);

  void prepareSend(unsigned channel, unsigned microbatch,
                   RankStreams &streams) override;
  void send(unsigned channel, unsigned microbatch,
            RankStreams &streams) override;
  void receive(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void release(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void abort() noexcept override;
  std::vector<ChannelTraffic> traffic() const override {
    return counters.read();
  }

protected:
  struct Slot {
    SlotFlag *flag;
    std::unique_ptr<Event> arrived, freed;
  };
  struct SendSlot {
    std::unique_ptr<Event> produced, left;
  };
  struct Channel {
    const PlanChannel *plan;
    char *sendBase = nullptr;        // in the sender
    char *receiveBase = nullptr;     // in the sender
    std::vector<Slot> slots;         // empty: another transport has it
    std::vector<SendSlot> sendSlots; // in the sender
  };

  void addSendSlots(Channel &channel, Device &device);

  std::deque<Channel> channels; // as in the plan
  TrafficCounters counters;

private:
  unsigned spins;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_DIRECTTRANSPORT_H
