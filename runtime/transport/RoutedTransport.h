//===- RoutedTransport.h - The right transport for each channel -----------===//
#ifndef PP_RUNTIME_TRANSPORT_ROUTEDTRANSPORT_H
#define PP_RUNTIME_TRANSPORT_ROUTEDTRANSPORT_H

#include "program/Program.h"
#include "transport/Transport.h"

#include <functional>

namespace pp::runtime {

/// The transports between this process's ranks and all others. Every process of
/// the program's group makes it together. `onFailure` gets what goes wrong in
/// threads of the transports.
std::unique_ptr<Transport>
createTransport(const Program &program,
                std::function<void(std::exception_ptr)> onFailure);

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_ROUTEDTRANSPORT_H
