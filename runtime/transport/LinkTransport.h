//===- LinkTransport.h - Between devices anywhere -------------------------===//
//
// Streams alone do the work; no host waits for another:
//
//   sender      compute: produced!   send: produced?  link.send  left!
//   receiver    compute: freed!      receive: freed?  link.receive  arrived!
//               compute: arrived?
//
// A link pairs sends and receives by their order alone. So two ranks get a link
// only if the actions of both name the same transfers in the same order. A send
// over a link may wait for its receive: the plan is proven to complete even if
// every send does.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TRANSPORT_LINKTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_LINKTRANSPORT_H

#include "transport/TrafficCounters.h"
#include "transport/Transport.h"
#include "transport/TransportRegistry.h"

#include <deque>
#include <map>
#include <memory>
#include <set>

namespace pp::runtime {

/// Serves the channels between this process and those that are not among
/// `others`, if the devices have links.
class LinkTransport : public Transport {
public:
  static TransportKind kind();

  /// All processes make it together. `memories` by stage; all have to outlive
  /// the transport.
  LinkTransport(const Plan &plan, const Placement &placement,
                const std::deque<StageMemory> &memories, Device &device,
                ProcessGroup &group, const std::set<unsigned> &others);

  void prepareSend(unsigned channel, unsigned microbatch,
                   RankStreams &streams) override;
  void send(unsigned channel, unsigned microbatch,
            RankStreams &streams) override;
  void receive(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void release(unsigned channel, unsigned microbatch,
               RankStreams &streams) override;
  void abort() noexcept override;
  void stop(bool isOrderly) noexcept override;
  std::vector<ChannelTraffic> traffic() const override {
    return counters.read();
  }

private:
  /// From a rank to a rank.
  using Edge = std::pair<unsigned, unsigned>;
  struct Slot {
    std::unique_ptr<Event> first, second; // produced, left; or freed, arrived
  };
  struct Channel {
    const PlanChannel *plan;
    Link *link = nullptr;
    char *base = nullptr;    // of this process's slots
    std::vector<Slot> slots; // of the side that this process has
  };

  /// Opens the links to and from a process. Throws Error.
  void openLinks(const Plan &plan, const Placement &placement, Device &device,
                 ProcessGroup &group, unsigned peer);

  std::deque<Channel> channels; // as in the plan
  TrafficCounters counters;
  std::map<Edge, std::unique_ptr<Link>> links;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_LINKTRANSPORT_H
