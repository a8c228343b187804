//===- TransportRegistry.cpp ----------------------------------------------===//
#include "transport/TransportRegistry.h"
#include "transport/LinkTransport.h"
#include "transport/MpiTransport.h"
#include "transport/PeerTransport.h"
#include "transport/SocketTransport.h"

using namespace pp::runtime;

const std::vector<TransportKind> &pp::runtime::transportKinds() {
  static const std::vector<TransportKind> kinds = {
      PeerTransport::kind(),
      LinkTransport::kind(),
      MpiTransport::kind(),
      SocketTransport::kind(),
  };
  return kinds;
}

const TransportKind *pp::runtime::findTransport(std::string_view name) {
  for (const TransportKind &kind : transportKinds())
    if (kind.name == name)
      return &kind;
  return nullptr;
}
