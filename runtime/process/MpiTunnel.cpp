//===- MpiTunnel.cpp ------------------------------------------------------===//
#include "process/MpiTunnel.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace pp::runtime;

/// The most that one message carries, and that a connection may have on its
/// way: what a process does not take must not fill the memory of another.
static constexpr size_t mostPayload = 256 << 10;
static constexpr uint64_t window = 2 << 20;
/// Between two looks at whether processes are alive.
static constexpr std::chrono::milliseconds lookPeriod(10);

/// Before each message.
struct MpiTunnel::Header {
  static constexpr uint32_t openKind = 0x4e504f50, dataKind = 0x54414450,
                            takenKind = 0x4b415450, closeKind = 0x534c4350,
                            goodbyeKind = 0x45594250, deadKind = 0x44414550;
  uint32_t kind, number;
  uint32_t isReceivers; // whose number it is
  uint32_t reserved;
  uint64_t value; // takenKind: bytes; deadKind: a process
};

MpiTunnel::MpiTunnel(MpiEndpoint &endpoint) : endpoint(endpoint) {
  receiving.peer = PP_MPI_ANY;
  receiving.tag = MpiEndpoint::tunnelTag;
  receiving.isUpTo = true;
  receiving.onEnd = [this](const std::exception_ptr &error) {
    failure = error;
    hasReceived = true;
    // Whoever helps has found it.
    this->endpoint.wake();
  };
}

void MpiTunnel::start() {
  uint64_t bytes =
      std::min<uint64_t>(sizeof(Header) + mostPayload, endpoint.mostBytes());
  buffer.resize(bytes);
  payload.resize(bytes - sizeof(Header));
  receiving.data = buffer.data();
  receiving.bytes = bytes;
  endpoint.start(receiving);
}

Socket MpiTunnel::connect(unsigned process) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    failIO("socketpair");
  Socket ours(ends[0]), theirs(ends[1]);
  {
    std::lock_guard<std::mutex> lock(mutex);
    toOpen.emplace_back(process, std::move(theirs));
  }
  endpoint.wake();
  return ours;
}

void MpiTunnel::post(const Key &key, uint32_t kind, uint64_t value,
                     const char *data, size_t bytes) {
  Message &message = messages.emplace_back();
  Header header{kind, key.number, !key.isOurs, 0, value};
  message.bytes.resize(sizeof(header) + bytes);
  std::memcpy(message.bytes.data(), &header, sizeof(header));
  if (bytes)
    std::memcpy(message.bytes.data() + sizeof(header), data, bytes);
  message.operation.isSend = message.operation.isUpTo = true;
  message.operation.peer = key.peer;
  message.operation.tag = MpiEndpoint::tunnelTag;
  message.operation.data = message.bytes.data();
  message.operation.bytes = message.bytes.size();
  // The receiver's end of a connection says what has become of it.
  message.operation.onEnd = [&message](const std::exception_ptr &) {
    message.hasLeft = true;
  };
  endpoint.start(message.operation);
}

/// To this process's listener.
void MpiTunnel::open(const Key &key) {
  try {
    Socket local = connectTo(endpoint.getAddress(), Deadline());
    local.tune();
    streams[key].local = std::move(local);
  } catch (const Error &) {
    // Nobody listens yet; whoever connects tries again.
    post(key, Header::closeKind);
  }
}

void MpiTunnel::handle(const Key &key, const Header &header, const char *data,
                       size_t bytes) {
  if (header.kind == Header::openKind)
    return open(key);
  if (header.kind == Header::goodbyeKind) {
    ++goodbyes;
    return;
  }
  if (header.kind == Header::deadKind)
    return drop(static_cast<unsigned>(header.value));
  auto it = streams.find(key);
  if (it == streams.end())
    return; // It has ended here, which the other side hears of.
  Stream &stream = it->second;
  if (header.kind == Header::dataKind)
    stream.incoming.emplace_back(data, data + bytes);
  else if (header.kind == Header::takenKind)
    stream.unconfirmed -= std::min(stream.unconfirmed, header.value);
  else
    stream.isPeerClosed = true;
}

bool MpiTunnel::pushOut(const Key &key, Stream &stream, bool &isOver) {
  bool moved = false;
  while (stream.unconfirmed < window) {
    ssize_t bytes =
        recv(stream.local.get(), payload.data(), payload.size(), MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (bytes < 0 && errno == EINTR)
      continue;
    moved = true;
    if (bytes <= 0) {
      isOver = true;
      if (!stream.isPeerClosed)
        post(key, Header::closeKind);
      break;
    }
    stream.unconfirmed += static_cast<uint64_t>(bytes);
    if (!stream.isPeerClosed)
      post(key, Header::dataKind, 0, payload.data(),
           static_cast<size_t>(bytes));
  }
  return moved;
}

bool MpiTunnel::takeIn(const Key &key, Stream &stream, bool &isOver) {
  uint64_t taken = 0;
  while (!stream.incoming.empty()) {
    std::vector<char> &front = stream.incoming.front();
    ssize_t bytes =
        ::send(stream.local.get(), front.data() + stream.offset,
               front.size() - stream.offset, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR)
      continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (bytes < 0) {
      // Nobody wants the rest; that the end has gone is found by pushOut().
      stream.incoming.clear();
      stream.offset = 0;
      break;
    }
    taken += static_cast<uint64_t>(bytes);
    stream.offset += static_cast<size_t>(bytes);
    if (stream.offset == front.size()) {
      stream.incoming.pop_front();
      stream.offset = 0;
    }
  }
  if (taken && !stream.isPeerClosed)
    post(key, Header::takenKind, taken);
  if (stream.isPeerClosed && stream.incoming.empty())
    isOver = true;
  return taken > 0 || isOver;
}

bool MpiTunnel::step() {
  bool moved = false;
  std::vector<std::pair<unsigned, Socket>> fresh;
  {
    std::lock_guard<std::mutex> lock(mutex);
    fresh.swap(toOpen);
    alive.merge(toWatch);
  }
  moved = findDead();
  for (auto &[peer, socket] : fresh) {
    Key key{peer, true, nextNumber++};
    streams[key].local = std::move(socket);
    post(key, Header::openKind);
    moved = true;
  }
  if (hasReceived.exchange(false)) {
    moved = true;
    Header header{};
    if (failure) {
      streams.clear();
    } else {
      if (receiving.received >= sizeof(header)) {
        std::memcpy(&header, buffer.data(), sizeof(header));
        handle({receiving.from, header.isReceivers != 0, header.number}, header,
               buffer.data() + sizeof(header),
               receiving.received - sizeof(header));
      }
      endpoint.start(receiving);
    }
  }
  for (auto it = streams.begin(); it != streams.end();) {
    bool isOver = false;
    moved = takeIn(it->first, it->second, isOver) || moved;
    if (!isOver)
      moved = pushOut(it->first, it->second, isOver) || moved;
    it = isOver ? streams.erase(it) : std::next(it);
  }
  std::erase_if(messages,
                [](const Message &message) { return message.hasLeft.load(); });
  return moved;
}

void MpiTunnel::ask(std::vector<pollfd> &entries) const {
  for (const auto &[key, stream] : streams) {
    int events = (stream.unconfirmed < window ? POLLIN : 0) |
                 (stream.incoming.empty() ? 0 : POLLOUT);
    if (events)
      entries.push_back({stream.local.get(), static_cast<short>(events), 0});
  }
}

void MpiTunnel::sayGoodbye() {
  for (unsigned peer = 0; peer < endpoint.size(); ++peer)
    if (peer != endpoint.process())
      post({peer, true, 0}, Header::goodbyeKind);
}

bool MpiTunnel::haveAllLeft() const { return goodbyes + 1 == endpoint.size(); }

void MpiTunnel::drop(unsigned peer) {
  std::erase_if(streams,
                [&](const auto &entry) { return entry.first.peer == peer; });
}

void MpiTunnel::watch(const std::map<unsigned, int64_t> &pids) {
  std::lock_guard<std::mutex> lock(mutex);
  for (const auto &[process, pid] : pids)
    // Without one (an old kernel), signs of life are missed.
    if (int descriptor = static_cast<int>(
            syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
        descriptor >= 0)
      toWatch.emplace(process, Socket(descriptor));
}

bool MpiTunnel::findDead() {
  Deadline now = std::chrono::steady_clock::now();
  if (now < nextLook)
    return false;
  nextLook = now + lookPeriod;
  std::vector<unsigned> dead;
  for (const auto &[process, descriptor] : alive) {
    pollfd entry{descriptor.get(), POLLIN, 0};
    if (::poll(&entry, 1, 0) > 0)
      dead.push_back(process);
  }
  for (unsigned process : dead) {
    alive.erase(process);
    drop(process);
    // Process 0 tells the others; of its own death, the first that is left on
    // its machine does.
    bool isFirstLeft =
        alive.empty() || alive.begin()->first > endpoint.process();
    for (unsigned other = 0; other < endpoint.size(); ++other)
      if (other != endpoint.process() && other != process &&
          !alive.contains(other) && (process == 0 ? isFirstLeft : other == 0))
        post({other, true, 0}, Header::deadKind, process);
  }
  return !dead.empty();
}

std::vector<MpiOperation *> MpiTunnel::operations() {
  std::vector<MpiOperation *> result{&receiving};
  for (Message &message : messages)
    result.push_back(&message.operation);
  return result;
}
