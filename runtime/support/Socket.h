//===- Socket.h - Byte streams between processes --------------------------===//
#ifndef PP_RUNTIME_SUPPORT_SOCKET_H
#define PP_RUNTIME_SUPPORT_SOCKET_H

#include "support/Error.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace pp::runtime {

using Deadline = std::chrono::steady_clock::time_point;

/// The other side has closed the connection, or shutdown() was called.
class ConnectionClosed : public Error {
public:
  explicit ConnectionClosed(const std::string &message)
      : Error(ErrorKind::IO, message) {}
};

/// One end of a connection. One thread may send while another receives.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept;
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();

  explicit operator bool() const { return descriptor >= 0; }
  int get() const { return descriptor; }

  /// Sends or receives exactly `bytes` bytes. Throw ConnectionClosed, or
  /// Error(IO).
  void send(const void *data, uint64_t bytes);
  void receive(void *data, uint64_t bytes);
  /// The same, but give up at `deadline` with Error(IO), however much has come
  /// or gone by then. What need not wait is done at any time.
  void send(const void *data, uint64_t bytes, Deadline deadline);
  void receive(void *data, uint64_t bytes, Deadline deadline);
  /// Receives what is there, at most `bytes` bytes, and returns how much.
  uint64_t tryReceive(void *data, uint64_t bytes);
  /// Whether there is something to receive, or the end, before the deadline.
  bool waitToReceive(Deadline deadline) const;
  /// Small messages go out at once; large ones find room.
  void tune() noexcept;

  /// Ends the connection: whoever sends or receives, here or there, gets
  /// ConnectionClosed. Any thread.
  void shutdown() noexcept;

  /// This end's address, without the port; empty for a Unix socket.
  std::string localHost() const;
  /// The other end's.
  std::string peerHost() const;
  /// Whether the other end is a process of the same user; always so for TCP,
  /// which does not tell.
  bool isSameUser() const;

private:
  int descriptor = -1;
};

/// Addresses are `HOST:PORT`, or `unix:NAME` for a name that only exists while
/// somebody listens (Linux's abstract names: no file, nothing to clean up).
class Listener {
public:
  /// Throws Error(IO) where the address is taken. Port 0 takes a free one.
  explicit Listener(const std::string &address);
  /// Nothing until `deadline`: no connection came.
  std::optional<Socket> accept(Deadline deadline);
  /// An empty socket where no connection waits, or there is no room for one.
  Socket tryAccept();
  int get() const { return socket.get(); }
  unsigned getPort() const { return port; }

private:
  Socket socket;
  unsigned port = 0;
};

/// Tries again until `deadline` while nobody listens; then throws Error(IO).
Socket connectTo(const std::string &address, Deadline deadline);

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_SOCKET_H
