//===- MpiTunnel.h - Connections through MPI ------------------------------===//
//
// Whoever connects gets one end of a pair of Unix sockets. What goes into it
// comes out of a connection to the listener of the other process:
//
//   Socket ── pair ── tunnel ══ messages of MPI ══ tunnel ── Unix ── Listener
//
// So all that is written for connections works unchanged: the handshake, the
// meeting, the alarm.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PROCESS_MPITUNNEL_H
#define PP_RUNTIME_PROCESS_MPITUNNEL_H

#include "process/MpiEndpoint.h"

#include <deque>
#include <list>
#include <vector>

struct pollfd;

namespace pp::runtime {

/// The connections of an endpoint. Its thread calls everything but connect().
class MpiTunnel {
public:
  explicit MpiTunnel(MpiEndpoint &endpoint);

  /// Any thread.
  Socket connect(unsigned process);

  /// Any thread; see MpiEndpoint.
  void watch(const std::map<unsigned, int64_t> &pids);

  /// Starts to receive.
  void start();
  /// Moves what can be moved without waiting; returns whether anything did.
  bool step();
  /// What has to be ready for a step to be of use.
  void ask(std::vector<pollfd> &entries) const;
  /// Whether everything that was to be sent has left.
  bool isIdle() const { return streams.empty() && messages.empty(); }
  /// Tells all others that nothing follows.
  void sayGoodbye();
  /// Whether all others have said so.
  bool haveAllLeft() const;
  /// The operations that still run.
  std::vector<MpiOperation *> operations();

private:
  struct Header;
  struct Message {
    std::vector<char> bytes;
    MpiOperation operation;
    std::atomic<bool> hasLeft{false};
  };
  /// A connection. `number` is of the process that made it.
  struct Key {
    unsigned peer;
    bool isOurs;
    uint32_t number;
    auto operator<=>(const Key &) const = default;
  };
  struct Stream {
    Socket local;
    uint64_t unconfirmed = 0;               // sent, not yet taken by the peer
    std::deque<std::vector<char>> incoming; // for `local`
    size_t offset = 0;                      // into the first of them
    bool isPeerClosed = false;
  };

  void post(const Key &key, uint32_t kind, uint64_t value = 0,
            const char *data = nullptr, size_t bytes = 0);
  void handle(const Key &key, const Header &header, const char *data,
              size_t bytes);
  void open(const Key &key);
  /// Ends all connections to a process, which is no more.
  void drop(unsigned peer);
  /// Looks for processes that have died; returns whether one has.
  bool findDead();
  /// Both return whether anything moved; `isOver`: the stream has ended.
  bool pushOut(const Key &key, Stream &stream, bool &isOver);
  bool takeIn(const Key &key, Stream &stream, bool &isOver);

  MpiEndpoint &endpoint;
  std::vector<char> buffer, payload; // of `receiving`; to send
  MpiOperation receiving;
  std::atomic<bool> hasReceived{false};
  std::exception_ptr failure;  // of `receiving`
  std::list<Message> messages; // on their way
  std::map<Key, Stream> streams;
  uint32_t nextNumber = 0;
  unsigned goodbyes = 0;
  Deadline nextLook;
  std::map<unsigned, Socket> alive; // a descriptor for each of this machine
  std::mutex mutex;
  // Under `mutex`:
  std::vector<std::pair<unsigned, Socket>> toOpen;
  std::map<unsigned, Socket> toWatch;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_MPITUNNEL_H
