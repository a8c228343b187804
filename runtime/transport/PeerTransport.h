//===- PeerTransport.h - Between processes of one machine -----------------===//
//
// The two processes share the receiver's stage memory, its flags, and the
// events of both. So the sender copies straight into the receive slot. The
// processor does it through shared memory, GPUs through CUDA's inter-process
// handles.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TRANSPORT_PEERTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_PEERTRANSPORT_H

#include "support/SharedMemory.h"
#include "transport/DirectTransport.h"
#include "transport/TransportRegistry.h"

#include <set>

namespace pp::runtime {

/// Serves the channels to and from those processes that can share memory with
/// this one.
class PeerTransport : public DirectTransport {
public:
  static TransportKind kind();

  /// All processes make it together. `memories` by stage, allocated as shared;
  /// all have to outlive the transport.
  PeerTransport(const Plan &plan, const Placement &placement,
                const std::deque<StageMemory> &memories, Device &device,
                ProcessGroup &group);

  void stop(bool isOrderly) noexcept override;

private:
  class Exchange;

  ProcessGroup &group;
  std::deque<SharedMemory> boards;       // of flags: own and opened
  std::deque<DeviceMemory> peerMemories; // opened
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_PEERTRANSPORT_H
