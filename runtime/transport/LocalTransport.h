//===- LocalTransport.h - Between threads of one process ------------------===//
#ifndef PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H

#include "process/Placement.h"
#include "program/StageMemory.h"
#include "transport/DirectTransport.h"

namespace pp::runtime {

/// Serves the channels with both ends in this process.
class LocalTransport : public DirectTransport {
public:
  /// `memories` by stage; all have to outlive the transport.
  LocalTransport(const Plan &plan, const Placement &placement,
                 const std::deque<StageMemory> &memories, Device &device);

private:
  std::deque<SlotFlag> flags;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_LOCALTRANSPORT_H
