//===- MpiLooks.h - When to look whether MPI has something ------*- C++ -*-===//
//
// MPI has no call that sleeps until something comes: who computes on the core
// of the thread that looks pays for each look, and who waits for a value pays
// for the time until the next one. But an MPI over TCP learns of what has come
// from epoll, and an epoll instance can itself be waited for:
//
//   rank     compute ...............................
//   MPI      ······look·gather·look·················    told by epoll
//                  ^ a value comes
//   MPI      ·look·look·look·look·look·look·look·look    not told
//
// An MPI over shared memory or InfiniBand has no such instance, or does not use
// it for everything. So what comes decides: messages that end although nothing
// was told are a reason to look often.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PROCESS_MPILOOKS_H
#define PP_RUNTIME_PROCESS_MPILOOKS_H

#include "support/Socket.h"

#include <set>
#include <vector>

struct pollfd;

namespace pp::runtime {

/// Of the thread that looks.
class MpiLooks {
public:
  /// Why a look may be of use.
  enum class Pace {
    Awaited, ///< A rank waits for a message.
    Moving,  ///< Messages are under way; ranks compute.
    Idle,
  };

  /// Around the call that starts MPI: it waits with what has been made
  /// meanwhile.
  void beforeStart();
  void afterStart();

  /// After a look: whether messages have come.
  void note(bool haveCome);
  /// Something has moved: from now on pauses are short again.
  void restart() { lastActive = Clock::now(); }
  /// Waits until the next look may be of use, or one of `entries` is ready;
  /// returns whether the first one is.
  bool wait(std::vector<pollfd> &entries, Pace pace);

  /// Whether MPI's epoll instances have told what came.
  bool areTold() const { return trust >= enoughTrust; }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr int enoughTrust = 16, mostTrust = 64;
  enum class Reason { None, Told, Timeout };

  std::set<int> known;
  std::vector<int> instances;
  Deadline lastActive = Clock::now();
  Reason reason = Reason::None;
  int trust = 0;
  unsigned inVain = 0; // looks that were told, without a message
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_MPILOOKS_H
