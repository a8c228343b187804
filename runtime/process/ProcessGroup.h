//===- ProcessGroup.h - The processes that run one plan -------------------===//
//
//                 bulk: between any two           alarm: to process 0
//
//       process 0 ─────── process 1               0 ═══ 1
//              │ ╲      ╱ │                       ║
//              │   ╲  ╱   │                       ╠════ 2
//              │   ╱  ╲   │                       ║
//       process 2 ─────── process 3               ╚════ 3
//
// The bulk connections carry what all processes do together, one thing after
// the other, by the thread that made the group. The alarm says at any time that
// a process has failed: then every connection is shut down, so that nobody
// waits for it. The same connections say which processes compute.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PROCESS_PROCESSGROUP_H
#define PP_RUNTIME_PROCESS_PROCESSGROUP_H

#include "process/Launch.h"
#include "process/Reception.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace pp::runtime {

/// Another process failed.
class RemoteFailure : public Error {
public:
  /// `isTold`: another process tells the user.
  RemoteFailure(ErrorKind kind, const std::string &message, bool isTold)
      : Error(kind, message), told(isTold) {}
  bool isTold() const { return told; }

private:
  bool told;
};

/// What has to be the same in all processes: what it is, and a hash of it.
struct Agreement {
  std::string what;
  uint64_t hash;
};

/// What a process has read.
struct Content {
  std::string what; ///< "array 'target'"
  std::string file; ///< where this process has it from; empty: it has none
  uint64_t hash;
};

class ProcessGroup {
public:
  /// One process alone: everything below returns at once.
  ProcessGroup();
  /// Meets the other processes. Throws Error in all of them where one does not
  /// come within `joinSeconds`, ends, or does not agree; the message of process
  /// 0 names all that is wrong. Who does not know `launch.secret` is not let
  /// in. Who gives no sign of life for `silenceSeconds` has failed; 0: nobody.
  ProcessGroup(const Launch &launch, const std::vector<Agreement> &agreements,
               double joinSeconds, std::string transport = "auto",
               bool sharesMemory = true, double silenceSeconds = 0);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup &) = delete;
  ProcessGroup &operator=(const ProcessGroup &) = delete;

  const Launch &getLaunch() const { return launch; }
  unsigned process() const { return launch.process; }
  unsigned size() const { return launch.processes; }
  bool isFirst() const { return process() == 0; }
  /// How values get from process to process: a name of transportKinds(), or
  /// "auto".
  const std::string &getTransport() const { return transport; }
  /// Whether a transport may open the memory of other processes' stages.
  bool sharesMemory() const { return memoryIsShared; }
  /// Whether SharedMemory's handles go to that process and back.
  bool isOnThisMachine(unsigned process) const;
  /// "process 2 (node7, pid 4711)"
  std::string describe(unsigned process) const;

  // What all processes do together, in the same order, by one thread. All throw
  // RemoteFailure where another process has failed.

  /// Whether any process says true.
  bool any(bool flag);
  void barrier() { (void)any(false); }
  /// Throws Error(Usage) in all processes where `value` is not the same in all;
  /// `what` is for the message.
  void compare(const std::string &what, uint64_t value);
  /// Throws Error(Usage) in all processes where one of `contents` is not the
  /// same in all that have it; the message names the processes, what differs
  /// and the files.
  void compareContents(const std::vector<Content> &contents);
  /// Gives process 0 the text of each process, in their order; the others get
  /// nothing.
  std::vector<std::string> gather(const std::string &text);
  /// Gives all the text of process 0.
  std::string broadcast(const std::string &text);
  /// Gives process 0 the sum over all processes, added up in their order; the
  /// others keep what they have.
  template <typename T> void addUp(std::vector<T> &values);
  /// From one process to another; both call the one that fits.
  void send(unsigned to, const void *data, uint64_t bytes);
  void receive(unsigned from, void *data, uint64_t bytes);
  /// The same for what says its length itself.
  void send(unsigned to, const std::string &text);
  std::string receive(unsigned from);
  /// Whether this process and `peer`, which calls it too, both say true.
  bool both(unsigned peer, bool flag);
  /// Nanoseconds to add to a process's steady clock to get this one's; process
  /// 0 knows all.
  int64_t clockOffset(unsigned process) const { return clockOffsets[process]; }
  /// New connections between this process and `peers`, by process. All of a
  /// pair's calls have to come in the same order on both sides.
  std::map<unsigned, Socket> connect(const std::vector<unsigned> &peers);

  // Failures. Any thread.

  /// Called once when another process fails, from a thread of the group, until
  /// the handle is destroyed; at once where one has failed already.
  using FailureHandler = std::function<void(std::exception_ptr)>;
  using HandlerHandle = std::unique_ptr<void, std::function<void(void *)>>;
  HandlerHandle onFailure(FailureHandler handler);
  /// Why the connection to `peer` is lost: waits a little for the alarm to say.
  /// Without one, `symptom` is what is known.
  std::exception_ptr lost(unsigned peer, const std::string &symptom = "");
  /// Tells the others that this process fails.
  void fail(const Error &error) noexcept;
  /// After a failure: waits until process 0 has ended, but not longer.
  void awaitFirst(std::chrono::milliseconds longest) const noexcept;

  // Heartbeats, for whoever must tell a hang from long work. Any thread.

  /// Tells process 0 that this process computes; in process 0, tells all others
  /// that one does. Does not wait: a heartbeat for which a connection has no
  /// room is lost.
  void sendHeartbeat() noexcept;
  /// When the last heartbeat came; long ago if none has.
  std::chrono::steady_clock::time_point lastHeartbeat() const;
  /// As long as one lives, the thread that runs the program waits for ranks or
  /// for other processes, and its process does nothing else. They nest.
  class Waiting {
  public:
    explicit Waiting(ProcessGroup &group) : group(group) { ++group.waiting; }
    ~Waiting() { --group.waiting; }
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;

  private:
    ProcessGroup &group;
  };
  bool isWaiting() const { return waiting != 0; }

  /// All have reached the end; nobody's leaving is a failure after this.
  void finish();

private:
  struct Alarm;
  struct Peer {
    std::string host;
    int64_t pid = 0;
    std::string address; // where it listens
    std::string machine; // SharedMemory::machine()
    Socket bulk;
  };

  struct Arrivals;

  void meetOthers(const std::vector<Agreement> &agreements, Deadline deadline);
  /// Takes one that came to process 0 into the group, or refuses it.
  void welcome(Reception::Guest guest, const std::vector<Agreement> &agreements,
               Arrivals &arrivals);
  void meetFirst(const std::vector<Agreement> &agreements, Deadline deadline);
  Watch watchAll() const;
  void connectAll(Deadline deadline);
  void measureClocks();
  Socket acceptFrom(unsigned peer, unsigned purpose, Deadline deadline);
  Socket connectWith(unsigned peer, unsigned purpose, Deadline deadline);
  [[noreturn]] void throwLost(unsigned peer);
  /// Throws Error(Usage) in all processes where process 0 has found a fault.
  void endAll(const std::string &fault);

  Launch launch;
  double joinSeconds = 0;
  std::string transport = "auto";
  bool memoryIsShared = true;
  double silenceSeconds = 0;
  std::vector<Peer> peers;
  std::vector<int64_t> clockOffsets{0};
  Credentials credentials;
  std::unique_ptr<Reception> reception;
  std::string listensAt; // of the reception, port 0
  // Connections that came before they were asked for, by peer and purpose, and
  // which have been asked for: the first of each counts.
  std::map<std::pair<unsigned, unsigned>, Socket> early;
  std::set<std::pair<unsigned, unsigned>> accepted;
  std::vector<unsigned> connectionsMade; // by peer
  std::unique_ptr<Alarm> alarm;
  std::atomic<unsigned> waiting = 0;
};

/// One process alone.
ProcessGroup &getLoneProcess();

template <typename T> void ProcessGroup::addUp(std::vector<T> &values) {
  uint64_t bytes = values.size() * sizeof(T);
  if (!isFirst())
    return send(0, values.data(), bytes);
  std::vector<T> others(values.size());
  for (unsigned other = 1; other < size(); ++other) {
    receive(other, others.data(), bytes);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] += others[i];
  }
}

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_PROCESSGROUP_H
