//===- Fork.h - Starting processes on this machine ------------------------===//
#ifndef PP_RUNTIME_PROCESS_FORK_H
#define PP_RUNTIME_PROCESS_FORK_H

#include "process/Launch.h"

#include <optional>

namespace pp::runtime {

/// The result of forkProcesses: `launch` in each new process, `exitCode` in the
/// process that called it.
struct Forked {
  Launch launch;
  std::optional<int> exitCode;
};

/// Starts `count` processes, which share a new secret. The calling process
/// waits for them, passes on SIGINT and SIGTERM, and returns the exit code of
/// the first one that failed, or 0. If a process fails before all have met, the
/// others are killed at once. If a process fails later, the others have some
/// seconds to end by themselves; then they are killed, also those that are
/// stopped. The new processes end when the calling one ends. Call it before any
/// thread starts.
Forked forkProcesses(unsigned count);

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_FORK_H
