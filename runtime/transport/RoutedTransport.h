//===- RoutedTransport.h - The right transport for each channel -----------===//
#ifndef PP_RUNTIME_TRANSPORT_ROUTEDTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_ROUTEDTRANSPORT_H

#include "transport/TransportRegistry.h"

#include <memory>

namespace pp::runtime {

/// The transports between this process's ranks and all others. Every process of
/// the group makes it together.
std::unique_ptr<Transport> createTransport(const TransportContext &context);

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_ROUTEDTRANSPORT_H
