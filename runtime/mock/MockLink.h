//===- MockLink.h - Links between mock devices of one process -------------===//
#ifndef PP_RUNTIME_MOCK_MOCKLINK_H
#define PP_RUNTIME_MOCK_MOCKLINK_H

#include "device/Device.h"

namespace pp::runtime {

/// A name that no other link of the process has.
std::string createMockLinkName();

/// One end of a link by that name. Its transfers are in the order of calls, and
/// a send ends when the other end has received: what NCCL may do at most.
std::unique_ptr<Link> openMockLink(const std::string &name, bool isSender);

} // namespace pp::runtime

#endif // PP_RUNTIME_MOCK_MOCKLINK_H
