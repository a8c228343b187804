//===- Socket.cpp ---------------------------------------------------------===//
#include "support/Socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
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

static Socket open(const Address &address) {
  Socket result(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!result)
    failIO("socket");
  return result;
}

/// Small messages go out at once; large ones find room.
static void tune(const Socket &socket) {
  int on = 1, bytes = 4 << 20;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
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

void Socket::receive(void *data, uint64_t bytes, Deadline deadline) {
  char *next = static_cast<char *>(data);
  for (; bytes; ++next, --bytes) {
    // Byte by byte: only the short messages of a handshake have a deadline.
    if (!waitFor(descriptor, POLLIN, deadline))
      throw Error(ErrorKind::IO, "receive: nothing came in time");
    receive(next, 1);
  }
}

void Socket::shutdown() noexcept {
  if (descriptor >= 0)
    ::shutdown(descriptor, SHUT_RDWR);
}

std::string Socket::localHost() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "";
  if (getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &size) ||
      address.ss_family == AF_UNIX ||
      getnameinfo(reinterpret_cast<sockaddr *>(&address), size, host,
                  sizeof(host), nullptr, 0, NI_NUMERICHOST))
    return "";
  return address.ss_family == AF_INET6 ? fmt::format("[{}]", host) : host;
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
  socket = open(address);
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

std::optional<Socket> Listener::accept(Deadline deadline) {
  while (waitFor(socket.get(), POLLIN, deadline)) {
    Socket result(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (result) {
      tune(result);
      return result;
    }
    // A peer that went away again is no fault of ours.
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
      failIO("accept");
  }
  return std::nullopt;
}

Socket pp::runtime::connectTo(const std::string &text, Deadline deadline) {
  std::string reason;
  auto pause = std::chrono::milliseconds(1);
  do {
    try {
      Address address = parseAddress(text, /*toListen=*/false);
      Socket socket = open(address);
      if (connect(socket.get(), address.get(), address.size) == 0) {
        tune(socket);
        return socket;
      }
      reason = std::strerror(errno);
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
