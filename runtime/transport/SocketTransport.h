//===- SocketTransport.h - Between processes, through the host ------------===//
//
// The transport that works everywhere. A value goes from the sender's send slot
// through a socket into the receiver's receive slot; where the device has
// memory of its own, through a place on the host on either side. The receiver
// answers with a credit when its slot is free again:
//
//   sender's rank    slot free? ──value──▶ reader's thread   slot = m + 1
//   reader's thread  slot = 0 ◀──credit── receiver's rank    slot = m + 1? ...
//   0
//
// Where streams are asynchronous, a worker thread waits for their events, so
// that no stream waits for a socket. The worker never waits for another
// process: a rank enqueues the work of a receive after the value has come, and
// the work of a send after the credit has come.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TRANSPORT_SOCKETTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_SOCKETTRANSPORT_H

#include "transport/SlotFlag.h"
#include "transport/TrafficCounters.h"
#include "transport/Transport.h"
#include "transport/TransportRegistry.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>

namespace pp::runtime {

/// Serves the channels with one end in this process and the other in one that
/// is not among `others`, which another transport serves.
class SocketTransport : public Transport {
public:
  static TransportKind kind();

  using FailureHandler = std::function<void(std::exception_ptr)>;

  /// All processes make it together. `memories` by stage; all have to outlive
  /// the transport. `onFailure` gets what goes wrong in the transport's own
  /// threads.
  SocketTransport(const Plan &plan, const Placement &placement,
                  const std::deque<StageMemory> &memories, Device &device,
                  ProcessGroup &group, const std::set<unsigned> &others,
                  FailureHandler onFailure);

  void start() override;
  void stop(bool isOrderly) noexcept override;
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

private:
  struct Message;
  /// A slot of the receiver, as either side sees it.
  struct Slot {
    /// State of `flag`: the receiver has seen the value, and the slot is not
    /// free yet. Without this state, a receive of the next step would take the
    /// value of this step.
    static constexpr uint32_t taken = UINT32_MAX - 1; // not aborted
    SlotFlag flag;                         // 0: free; m + 1: has micro-batch m
    DeviceMemory host;                     // receiver, asynchronous: the place
    std::unique_ptr<Event> arrived, freed; // receiver, asynchronous
  };
  struct SendSlot {
    SlotFlag busy;     // `host` is in use, or what a send() reads
    DeviceMemory host; // asynchronous
    std::unique_ptr<Event> produced, left;
  };
  struct Channel {
    const PlanChannel *plan;
    unsigned peer = 0;
    char *base = nullptr;          // of this process's slots
    std::unique_ptr<Slot[]> slots; // none: has no end here, or two
    std::unique_ptr<SendSlot[]> sendSlots;
  };
  struct Connection {
    unsigned peer;
    Socket socket;
    std::mutex sending;
    std::thread reader;
  };
  /// What the worker does when an event has been reached.
  struct Job {
    Event *event;
    std::function<void()> work;
  };

  void post(Connection &connection, const Message &message, const char *data);
  void read(Connection &connection);
  /// Handles one message; throws Error where it does not fit the plan.
  void take(Connection &connection, const Message &message);
  void runJobs();
  void runAfter(Event &event, std::function<void()> work);
  void sendCredit(unsigned channel, unsigned microbatch);

  ProcessGroup &group;
  FailureHandler onFailure;
  bool isAsynchronous;
  unsigned spins;
  std::deque<Channel> channels;
  TrafficCounters counters;
  std::map<unsigned, Connection> connections; // by process
  std::thread worker;
  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  std::deque<Job> jobs;
  bool isStopping = false;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_SOCKETTRANSPORT_H
