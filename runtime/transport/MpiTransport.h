//===- MpiTransport.h - Between processes, through MPI --------------------===//
//
// A value goes from the send slot straight into the receive slot, as a message
// with a tag of that slot. The receive is started as soon as the slot is free,
// so that a value that comes finds its place:
//
//   sender's rank     left? ── send ──▶  MPI   left!
//   receiver's rank   free: receive ──▶  MPI   full!   full? ... free
//
// Nobody tells the sender that a slot is free: MPI keeps a message back until
// its receive has been started. The plan fills and frees each slot in turn, so
// that messages of one tag come at the receives that they are for.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TRANSPORT_MPITRANSPORT_H
#define PP_RUNTIME_TRANSPORT_MPITRANSPORT_H

#include "process/MpiEndpoint.h"
#include "transport/SlotFlag.h"
#include "transport/TrafficCounters.h"
#include "transport/Transport.h"
#include "transport/TransportRegistry.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace pp::runtime {

/// Serves the channels between this process and those that are not among
/// `served`, if the device's memory is the host's and there is an MPI job.
class MpiTransport : public Transport {
public:
  static TransportKind kind();

  /// All processes make it together.
  MpiTransport(const TransportContext &context,
               const std::set<unsigned> &served);
  ~MpiTransport() override;

  void start() override;
  void stop(bool isOrderly) noexcept override;
  void prepareSend(unsigned channel, unsigned microbatch,
                   RankStreams &streams) override;
  void send(unsigned channel, unsigned microbatch,
            RankStreams &streams) override;
  /// MPI waits for the receive slot.
  bool sendsAtOnce(unsigned) const override { return true; }
  void receive(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void release(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void abort() noexcept override;
  std::vector<ChannelTraffic> traffic() const override {
    return counters.read();
  }

private:
  /// Of the side that this process has.
  struct Slot {
    // A send slot: on its way or not. A receive slot: waiting for a value,
    // having one, or in use.
    static constexpr uint32_t empty = 0, full = 1, taken = 2;
    SlotFlag flag;
    MpiOperation operation;
  };
  struct Channel {
    const PlanChannel *plan;
    bool isSender = false;
    uint32_t tag = 0;              // of receive slot 0; the others follow
    std::unique_ptr<Slot[]> slots; // none: not of this transport
    unsigned slotCount = 0;
  };

  void waitFor(Slot &slot, uint32_t value);
  /// Starts the receive of a slot that is free.
  void expect(Channel &channel, unsigned slot);
  std::vector<MpiOperation *> operations();
  /// An operation with `peer` has failed, in a thread that must not wait.
  void fail(unsigned peer, const std::exception_ptr &error);

  MpiEndpoint *endpoint; // of the group; null: no job
  ProcessGroup &group;
  std::function<void(std::exception_ptr)> onFailure;
  std::once_flag hasFailed;
  std::thread asking; // what the alarm says about a process that is lost
  unsigned spins;
  std::deque<Channel> channels; // as in the plan
  TrafficCounters counters;
  std::map<unsigned, uint32_t> firstTags; // by peer
  bool isRunning = false;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_MPITRANSPORT_H
