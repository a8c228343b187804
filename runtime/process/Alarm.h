//===- Alarm.h - How processes learn that one has failed ------------------===//
//
// Internal to ProcessGroup.cpp and Alarm.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PROCESS_ALARM_H
#define PP_RUNTIME_PROCESS_ALARM_H

#include "process/ProcessGroup.h"

#include <atomic>
#include <condition_variable>

namespace pp::runtime {

/// A thread that listens to the alarm connections: process 0 has one to each
/// other process and passes on what it hears, the others have one to process 0.
/// It also gives signs of life, whatever the other threads do, and misses those
/// of the others: only a process that is stopped or unreachable gives none.
struct ProcessGroup::Alarm {
  /// `sockets` by process; may lack some.
  Alarm(ProcessGroup &group, std::vector<Socket> sockets,
        double silenceSeconds);
  ~Alarm();

  /// Tells the others; the first failure counts.
  void raise(const Error &error) noexcept;
  /// A heartbeat to all that this process has a connection to. Never waits.
  void beat() noexcept;
  /// Ends the listening. `isGood`: nobody shall be alarmed.
  void leave(bool isGood) noexcept;

  using TimePoint = std::chrono::steady_clock::time_point;

  ProcessGroup &group;
  std::atomic<TimePoint> heartbeat{TimePoint()}; // when the last one came
  std::vector<Socket> sockets;
  std::mutex sending; // of the sockets
  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  std::exception_ptr failure; // of another process, or what this one raised
  bool isRaised = false, isLeaving = false;
  std::map<const void *, FailureHandler> handlers;
  std::mutex calling; // while handlers run; taken before `mutex`

private:
  void listen();
  /// To all that this process has a connection to. Never waits.
  void tellAll(uint32_t kind) noexcept;
  /// Takes a peer for failed that has been silent for too long.
  void missSilent(std::vector<TimePoint> &heard, TimePoint now);
  /// Makes the failure of `process` known here and, by process 0, everywhere.
  void report(unsigned process, ErrorKind kind, const std::string &text,
              bool isTold);
  /// Handles what came from `peer`; returns whether to listen on.
  bool hear(unsigned peer);
  void spread(unsigned process, ErrorKind kind, const std::string &text);
  void handle(const std::exception_ptr &exception);

  double silenceSeconds; // 0: peers may be silent
  std::thread thread;
  int wake[2] = {-1, -1}; // a pipe that ends the thread
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_ALARM_H
