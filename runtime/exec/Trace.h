//===- Trace.h - What ran when --------------------------------------------===//
#ifndef PP_RUNTIME_EXEC_TRACE_H
#define PP_RUNTIME_EXEC_TRACE_H

#include "plan/Plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pp::runtime {

/// One action that ran; times in nanoseconds of the steady clock.
struct TraceEvent {
  unsigned action; // in the rank's list
  uint64_t step;
  int64_t begin, end;
};

/// The events of one rank, in order. Written by its thread only.
struct RankTrace {
  /// Beyond this many events a rank stops recording (64 MiB).
  static constexpr size_t maxEvents = size_t(1) << 21;
  std::vector<TraceEvent> events;
  bool enabled = false;

  void add(const TraceEvent &event) {
    if (enabled && events.size() < maxEvents)
      events.push_back(event);
  }
};

/// Chrome's JSON trace format (Perfetto opens it): one process, per stage the
/// tracks compute, send and receive, an arrow from each SEND to its RECV. Times
/// are relative to the first event.
std::string formatTrace(const Plan &plan,
                        const std::vector<const RankTrace *> &ranks);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_TRACE_H
