//===- AddressSpace.h - Whether what comes next has room ------------------===//
//
// With a limit (ulimit -v), memory can end anywhere, also in libraries that do
// not check for it: oneDNN writes code to the null pointer. So the room for
// what comes next is asked for before it is needed.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_ADDRESSSPACE_H
#define PP_RUNTIME_SUPPORT_ADDRESSSPACE_H

#include <cstdint>
#include <string>

namespace pp::runtime {

/// Where there is a limit, keeps threads from reserving 64 MiB each for their
/// allocations. Before the first thread.
void prepareForLimit();

/// Throws Error(IO) where fewer than `bytes` bytes are left; `what` needs them.
/// The message says how much there has to be in all. Any thread.
void requireAddressSpace(uint64_t bytes, const std::string &what);

/// Prints how much this process has and may have, without any memory.
void printOutOfMemory() noexcept;

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_ADDRESSSPACE_H
