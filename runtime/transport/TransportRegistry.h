//===- TransportRegistry.h - The ways between processes -------------------===//
//
// transportKinds() lists the transports between processes, one line each;
// docs/add-a-transport.md says how to add one. RoutedTransport asks them in
// that order: each takes the processes that those before it do not reach.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TRANSPORT_TRANSPORTREGISTRY_H
#define PP_RUNTIME_TRANSPORT_TRANSPORTREGISTRY_H

#include "process/Placement.h"
#include "process/ProcessGroup.h"
#include "program/StageMemory.h"
#include "transport/Transport.h"

#include <deque>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// What a transport between processes is made from. All outlive it.
struct TransportContext {
  const Plan &plan;
  const Placement &placement;
  const std::deque<StageMemory> &memories; // by stage
  Device &device;
  ProcessGroup &group;
  /// Gets what goes wrong in threads of the transport's own.
  std::function<void(std::exception_ptr)> onFailure;
};

struct TransportKind {
  /// As `--transport` names it.
  std::string_view name;
  /// For the help: "straight into each other's memory, on one machine".
  std::string_view help;
  /// Whether other processes open the memory of stages.
  bool sharesMemory;
  /// Whether it is tried where `--transport` names none.
  bool (*isAutomatic)(const Device &device, const ProcessGroup &group);
  /// All processes call it together. The result does not serve the processes
  /// in `served`: another transport does.
  std::unique_ptr<Transport> (*create)(const TransportContext &context,
                                       const std::set<unsigned> &served);
};

/// In the order in which they are tried. The last one reaches all processes.
const std::vector<TransportKind> &transportKinds();

/// The kind of that name; null if there is none, as for "auto".
const TransportKind *findTransport(std::string_view name);

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_TRANSPORTREGISTRY_H
