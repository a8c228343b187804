//===- Watch.h - Who must not go away while one waits ---------------------===//
#ifndef PP_RUNTIME_PROCESS_WATCH_H
#define PP_RUNTIME_PROCESS_WATCH_H

#include "support/Socket.h"

#include <vector>

struct pollfd;

namespace pp::runtime {

/// A process that others wait for has ended.
class ProcessGone : public Error {
public:
  explicit ProcessGone(unsigned process)
      : Error(ErrorKind::IO, fmt::format("process {} has ended", process)),
        process(process) {}
  unsigned getProcess() const { return process; }

private:
  unsigned process;
};

/// Connections that only end when the process at the other end does. The
/// sockets have to outlive it. One thread.
class Watch {
public:
  /// Nothing where there is no connection yet.
  void add(unsigned process, const Socket &socket);
  /// Throws ProcessGone where one has ended.
  void check() const;
  /// For a poll with other descriptors: what to ask, and what came of it.
  void ask(std::vector<pollfd> &entries) const;
  void check(const pollfd *answers) const;

private:
  std::vector<std::pair<unsigned, int>> descriptors; // by process
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_WATCH_H
