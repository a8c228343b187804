//===- Fork.h - Starting processes on this machine ------------------------===//
#ifndef PP_RUNTIME_PROCESS_FORK_H
#define PP_RUNTIME_PROCESS_FORK_H

#include "process/Launch.h"

#include <optional>

namespace pp::runtime {

/// What forkProcesses gave: a launch in a new process, an exit code in the one
/// that called it.
struct Forked {
  Launch launch;
  std::optional<int> exitCode;
};

/// Becomes `count` processes, which share a new secret. The calling one only
/// waits for them, passes on SIGINT and SIGTERM, and returns the exit code of
/// the first that failed, or 0. When one fails before all have met, the others
/// are killed; when one fails later, those that do not end by themselves within
/// seconds, stopped ones among them, are made to. No thread may have been
/// started. The new ones end when the calling one does.
Forked forkProcesses(unsigned count);

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_FORK_H
