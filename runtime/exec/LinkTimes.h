//===- LinkTimes.h - How fast values go between processes -----------------===//
#ifndef PP_RUNTIME_EXEC_LINKTIMES_H
#define PP_RUNTIME_EXEC_LINKTIMES_H

#include "process/ProcessGroup.h"

#include <vector>

namespace pp::runtime {

/// A message of n bytes takes latency + n / bandwidth, either way, and n *
/// overhead of the core that computes at either end.
struct LinkTime {
  unsigned from, to; // processes; the same: between two threads of one
  double latency;    // seconds
  double bandwidth;  // bytes per second
  double overhead;   // seconds per byte
};

/// Sends messages to and fro between every two processes of the group, one pair
/// after the other, and between two threads of each, by the transports that
/// values of a pipeline take between processors. All processes call it
/// together; each gets the links from itself to itself and to processes with a
/// larger number. Throws Error.
std::vector<LinkTime> measureLinks(ProcessGroup &group);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_LINKTIMES_H
