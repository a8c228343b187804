//===- Socket.cpp ---------------------------------------------------------===//
#include "support/Socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace pp::runtime;

static constexpr std::string_view unixPrefix = "unix:";

namespace {
/// A socket address of either family.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr *get() const {
    return reinterpret_cast<const sockaddr *>(&storage);
  }
};
} // namespace

static Address unixAddress(std::string_view name) {
  sockaddr_un address{};
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path))
    failUsage("'unix:{}': the name has to have 1 to {} characters", name,
              sizeof(address.sun_path) - 1);
  address.sun_family = AF_UNIX;
  // A leading null makes the name abstract.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  Address result;
  result.size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  std::memcpy(&result.storage, &address, sizeof(address));
  return result;
}

static Address hostAddress(const std::string &text, bool toListen) {
  size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (colon == std::string::npos || colon + 1 == text.size())
    failUsage("'{}': expected HOST:PORT or unix:NAME", text);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = toListen ? AI_PASSIVE : 0;
  int code = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                         text.c_str() + colon + 1, &hints, &found);
  if (code != 0)
    throw Error(ErrorKind::IO,
                fmt::format("'{}': {}", text, gai_strerror(code)));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                           &freeaddrinfo);
  Address result;
  result.size = found->ai_addrlen;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  return result;
}

static Address parseAddress(const std::string &text, bool toListen) {
  return text.starts_with(unixPrefix)
             ? unixAddress(std::string_view(text).substr(unixPrefix.size()))
             : hostAddress(text, toListen);
}

/// `kind`: more flags.
static Socket open(const Address &address, int kind = 0) {
  Socket result(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | kind, 0));
  if (!result)
    failIO("socket");
  return result;
}

Socket::Socket(Socket &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)) {}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  return *this;
}

Socket::~Socket() {
  if (descriptor >= 0)
    close(descriptor);
}

static bool isClosed(int code) {
  return code == EPIPE || code == ECONNRESET || code == ENOTCONN ||
         code == ESHUTDOWN;
}

void Socket::send(const void *data, uint64_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes) {
    // A lost connection is an error here, not a signal for the process.
    ssize_t sent = ::send(descriptor, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && isClosed(errno))
      throw ConnectionClosed("send: the connection is closed");
    if (sent < 0)
      failIO("send");
    next += sent;
    bytes -= static_cast<uint64_t>(sent);
  }
}

void Socket::receive(void *data, uint64_t bytes) {
  char *next = static_cast<char *>(data);
  while (bytes) {
    ssize_t received = ::recv(descriptor, next, bytes, 0);
    if (received < 0 && errno == EINTR)
      continue;
    if (received == 0 || (received < 0 && isClosed(errno)))
      throw ConnectionClosed("receive: the connection is closed");
    if (received < 0)
      failIO("receive");
    next += received;
    bytes -= static_cast<uint64_t>(received);
  }
}

/// Whether `events` came before the deadline.
static bool waitFor(int descriptor, short events, Deadline deadline) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry{descriptor, events, 0};
    int count = poll(
        &entry, 1,
        static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 1'000'000)));
    if (count > 0)
      return true;
    if (count < 0 && errno != EINTR)
      failIO("poll");
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
  }
}

void Socket::tune() noexcept {
  int on = 1, bytes = 4 << 20;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

uint64_t Socket::tryReceive(void *data, uint64_t bytes) {
  char *next = static_cast<char *>(data);
  uint64_t done = 0;
  while (done < bytes) {
    ssize_t received =
        ::recv(descriptor, next + done, bytes - done, MSG_DONTWAIT);
    if (received < 0 && errno == EINTR)
      continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (received == 0 || (received < 0 && isClosed(errno)))
      throw ConnectionClosed("receive: the connection is closed");
    if (received < 0)
      failIO("receive");
    done += static_cast<uint64_t>(received);
  }
  return done;
}

bool Socket::waitToReceive(Deadline deadline) const {
  return waitFor(descriptor, POLLIN, deadline);
}

void Socket::receive(void *data, uint64_t bytes, Deadline deadline) {
  char *next = static_cast<char *>(data);
  while (true) {
    uint64_t received = tryReceive(next, bytes);
    next += received;
    bytes -= received;
    if (bytes == 0)
      return;
    // One byte every now and then must not prolong it.
    if (std::chrono::steady_clock::now() >= deadline ||
        !waitToReceive(deadline))
      throw Error(ErrorKind::IO, "receive: nothing came in time");
  }
}

void Socket::send(const void *data, uint64_t bytes, Deadline deadline) {
  const char *next = static_cast<const char *>(data);
  while (bytes) {
    ssize_t sent = ::send(descriptor, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      next += sent;
      bytes -= static_cast<uint64_t>(sent);
      continue;
    }
    if (errno == EINTR)
      continue;
    if (isClosed(errno))
      throw ConnectionClosed("send: the connection is closed");
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      failIO("send");
    if (std::chrono::steady_clock::now() >= deadline ||
        !waitFor(descriptor, POLLOUT, deadline))
      throw Error(ErrorKind::IO, "send: the other side does not receive");
  }
}

void Socket::shutdown() noexcept {
  if (descriptor >= 0)
    ::shutdown(descriptor, SHUT_RDWR);
}

/// What getsockname or getpeername says, without the port.
static std::string hostOf(int descriptor,
                          int (*ask)(int, sockaddr *, socklen_t *)) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "";
  if (ask(descriptor, reinterpret_cast<sockaddr *>(&address), &size) ||
      address.ss_family == AF_UNIX ||
      getnameinfo(reinterpret_cast<sockaddr *>(&address), size, host,
                  sizeof(host), nullptr, 0, NI_NUMERICHOST))
    return "";
  return address.ss_family == AF_INET6 ? fmt::format("[{}]", host) : host;
}

std::string Socket::localHost() const {
  return hostOf(descriptor, &getsockname);
}

std::string Socket::peerHost() const {
  return hostOf(descriptor, &getpeername);
}

bool Socket::isSameUser() const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  sockaddr_storage address{};
  socklen_t addressSize = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr *>(&address),
                  &addressSize) ||
      address.ss_family != AF_UNIX)
    return true;
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

Listener::Listener(const std::string &text) {
  Address address = parseAddress(text, /*toListen=*/true);
  // Between poll and accept the peer may go away again.
  socket = open(address, SOCK_NONBLOCK);
  int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.get(), address.get(), address.size) ||
      listen(socket.get(), SOMAXCONN))
    failIO(fmt::format("cannot listen at '{}'", text));
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(socket.get(), reinterpret_cast<sockaddr *>(&bound), &size);
  if (bound.ss_family == AF_INET)
    port = ntohs(reinterpret_cast<sockaddr_in *>(&bound)->sin_port);
  else if (bound.ss_family == AF_INET6)
    port = ntohs(reinterpret_cast<sockaddr_in6 *>(&bound)->sin6_port);
}

Socket Listener::tryAccept() {
  while (true) {
    Socket result(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // A peer that went away again is no fault of ours.
    if (result || (errno != EINTR && errno != ECONNABORTED))
      return result;
  }
}

std::optional<Socket> Listener::accept(Deadline deadline) {
  while (waitFor(socket.get(), POLLIN, deadline))
    if (Socket result = tryAccept()) {
      result.tune();
      return result;
    }
  return std::nullopt;
}

/// The error's number, or 0. A host that does not answer would hold up an
/// ordinary connect() for minutes.
static int connectBefore(int descriptor, const Address &address,
                         Deadline deadline) {
  if (connect(descriptor, address.get(), address.size) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  int code = 0;
  socklen_t size = sizeof(code);
  if (!waitFor(descriptor, POLLOUT, deadline))
    return ETIMEDOUT;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size))
    return errno;
  return code;
}

Socket pp::runtime::connectTo(const std::string &text, Deadline deadline) {
  std::string reason;
  auto pause = std::chrono::milliseconds(1);
  do {
    try {
      Address address = parseAddress(text, /*toListen=*/false);
      Socket socket = open(address, SOCK_NONBLOCK);
      int code = connectBefore(socket.get(), address, deadline);
      if (code == 0) {
        fcntl(socket.get(), F_SETFL, 0);
        return socket;
      }
      reason = std::generic_category().message(code);
    } catch (const Error &error) {
      if (error.getKind() != ErrorKind::IO)
        throw;
      // A name that is not known yet may be soon.
      reason = error.what();
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(200));
  } while (std::chrono::steady_clock::now() < deadline);
  throw Error(ErrorKind::IO,
              fmt::format("cannot connect to '{}': {}", text, reason));
}
