//===- Transport.h - How values get from stage to stage -------------------===//
#ifndef PP_RUNTIME_TRANSPORT_TRANSPORT_H
#define PP_RUNTIME_TRANSPORT_TRANSPORT_H

#include <cstdint>
#include <vector>

namespace pp::runtime {

/// Counters of one channel since the start.
struct ChannelTraffic {
  uint64_t sentBytes = 0, receivedBytes = 0, messages = 0;
};

/// Moves the values of a plan's channels between slots. For a channel, `send`
/// is called by the sender's rank, `receive` and `release` by the receiver's;
/// in the order of the plan's actions. All calls but `abort` throw Aborted
/// after `abort`.
class Transport {
public:
  /// Another rank failed; not an error of its own.
  struct Aborted {};

  virtual ~Transport() = default;
  /// Waits until the receive slot is free, then hands the send slot's value
  /// over.
  virtual void send(unsigned channel, unsigned microbatch) = 0;
  /// Waits until the value lies in its receive slot.
  virtual void receive(unsigned channel, unsigned microbatch) = 0;
  /// Frees the receive slot.
  virtual void release(unsigned channel, unsigned microbatch) = 0;
  /// Wakes every waiter, for good. Any thread, any number of times.
  virtual void abort() noexcept = 0;
  /// Counters by channel. Exact when no step is running.
  virtual std::vector<ChannelTraffic> traffic() const = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_TRANSPORT_H
