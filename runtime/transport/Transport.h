//===- Transport.h - How values get from stage to stage -------------------===//
#ifndef PP_RUNTIME_TRANSPORT_TRANSPORT_H
#define PP_RUNTIME_TRANSPORT_TRANSPORT_H

#include "device/Device.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace pp::runtime {

/// Counters of one channel since the start.
struct ChannelTraffic {
  uint64_t sentBytes = 0, receivedBytes = 0, messages = 0;
};

/// The streams of one rank.
struct RankStreams {
  std::unique_ptr<Stream> compute, send, receive;
};

/// Moves the values of a plan's channels between slots. The rank that sends on
/// a channel calls `prepareSend` and `send`; the rank that receives calls
/// `receive` and `release`. Each rank passes its own streams and keeps the
/// order of its actions. The calls enqueue work. The calling thread waits only
/// until the other rank has enqueued the work that this call depends on. After
/// `abort`, all calls but `abort` throw Aborted.
class Transport {
public:
  /// Another rank failed; not an error of its own.
  struct Aborted {};

  virtual ~Transport() = default;
  /// Starts the transport's own threads, if any. Once, before all others.
  virtual void start() {}
  /// Ends them. Once, after all others. `isOrderly`: all processes do it
  /// together, and nobody has failed.
  virtual void stop(bool isOrderly) noexcept { (void)isOrderly; }
  /// Makes the compute stream wait until the send slot's last value has left.
  virtual void prepareSend(unsigned channel, unsigned microbatch,
                           RankStreams &streams) = 0;
  /// Hands over the send slot's value, which the compute stream has made, as
  /// soon as the receive slot is free.
  virtual void send(unsigned channel, unsigned microbatch,
                    RankStreams &streams) = 0;
  /// Whether send() waits for nothing that prepareSend() has not waited for, so
  /// that it may come before a receive that a plan puts first. Does not change.
  virtual bool sendsAtOnce(unsigned channel) const {
    (void)channel;
    return false;
  }
  /// Makes the compute stream wait until the value lies in its receive slot.
  virtual void receive(unsigned channel, unsigned microbatch,
                       RankStreams &streams) = 0;
  /// Frees the receive slot when the compute stream gets here.
  virtual void release(unsigned channel, unsigned microbatch,
                       RankStreams &streams) = 0;
  /// Wakes every waiting thread, for good. Any thread, any number of times.
  virtual void abort() noexcept = 0;
  /// Counters by channel. Exact when no step is running.
  virtual std::vector<ChannelTraffic> traffic() const = 0;

  /// The other processes that it serves. Does not change.
  const std::set<unsigned> &getPeers() const { return peers; }
  /// Why it does not serve others; empty: it serves all.
  const std::string &getReason() const { return reason; }

protected:
  std::set<unsigned> peers;
  std::string reason;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_TRANSPORT_H
