//===- Alarm.cpp ----------------------------------------------------------===//
#include "process/Alarm.h"
#include "support/Thread.h"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

using namespace pp::runtime;

namespace {
/// Before the text of an alarm; `process` has failed. Without a text: goodbye,
/// a heartbeat or a sign of life.
struct AlarmHeader {
  uint32_t process, kind, bytes;
};
constexpr uint32_t heartbeatKind = UINT32_MAX; // no ErrorKind
constexpr uint32_t lifeKind = UINT32_MAX - 1;
constexpr uint32_t maxText = 1 << 16;
constexpr std::chrono::milliseconds lifePeriod(500);
} // namespace

ProcessGroup::Alarm::Alarm(ProcessGroup &group, std::vector<Socket> sockets,
                           double silenceSeconds)
    : group(group), sockets(std::move(sockets)),
      silenceSeconds(silenceSeconds) {
  if (pipe2(wake, O_CLOEXEC))
    failIO("pipe");
  try {
    thread = startThread("the alarm of the processes", [this] { listen(); });
  } catch (const Error &) {
    close(wake[0]);
    close(wake[1]);
    throw;
  }
}

ProcessGroup::Alarm::~Alarm() {
  leave(/*isGood=*/false);
  (void)!write(wake[1], "", 1);
  thread.join();
  close(wake[0]);
  close(wake[1]);
}

static void sendAlarm(Socket &socket, uint32_t process, uint32_t kind,
                      const std::string &text) noexcept {
  try {
    AlarmHeader header{process, kind, static_cast<uint32_t>(text.size())};
    socket.send(&header, sizeof(header));
    socket.send(text.data(), text.size());
  } catch (const std::exception &) {
    return; // Who has gone need not be told.
  }
}

void ProcessGroup::Alarm::raise(const Error &error) noexcept {
  try {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (isRaised || isLeaving)
        return;
      isRaised = true;
    }
    changed.notify_all();
    spread(group.process(), error.getKind(),
           std::string(error.what()).substr(0, maxText));
  } catch (const std::exception &) {
    return; // Then the end of this process alarms the others.
  }
}

void ProcessGroup::Alarm::spread(unsigned process, ErrorKind kind,
                                 const std::string &text) {
  std::lock_guard<std::mutex> lock(sending);
  for (size_t peer = 0; peer < sockets.size(); ++peer)
    if (sockets[peer] && peer != process)
      sendAlarm(sockets[peer], process, static_cast<uint32_t>(kind),
                text.empty() ? " " : text);
}

void ProcessGroup::Alarm::beat() noexcept { tellAll(heartbeatKind); }

void ProcessGroup::Alarm::tellAll(uint32_t kind) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isRaised || isLeaving || failure)
      return;
  }
  std::unique_lock<std::mutex> lock(sending, std::try_to_lock);
  if (!lock)
    return;
  for (Socket &socket : sockets) {
    // A process that is stopped does not read, and alarms must not wait for it.
    pollfd entry{socket.get(), POLLOUT, 0};
    if (socket && poll(&entry, 1, 0) > 0 && entry.revents == POLLOUT)
      sendAlarm(socket, group.process(), kind, "");
  }
}

void ProcessGroup::Alarm::leave(bool isGood) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isLeaving)
      return;
    isLeaving = true;
  }
  if (!isGood)
    return;
  std::lock_guard<std::mutex> lock(sending);
  for (Socket &socket : sockets)
    if (socket)
      sendAlarm(socket, group.process(),
                static_cast<uint32_t>(ErrorKind::Internal), "");
}

/// Makes the failure of another process this one's: nobody may go on waiting.
void ProcessGroup::Alarm::handle(const std::exception_ptr &exception) {
  std::lock_guard<std::mutex> called(calling);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (failure || isLeaving)
      return;
    failure = exception;
  }
  changed.notify_all();
  for (Peer &peer : group.peers)
    peer.bulk.shutdown();
  // Nobody adds one any more, and whoever removes one waits for `calling`.
  for (const auto &[key, handler] : handlers)
    handler(exception);
}

bool ProcessGroup::Alarm::hear(unsigned peer) {
  AlarmHeader header{};
  std::string text;
  ErrorKind kind = ErrorKind::Internal;
  unsigned process = peer;
  // Process 0 tells what it hears; of its own silent end the others do.
  bool isTold = !group.isFirst();
  try {
    sockets[peer].receive(&header, sizeof(header));
    if (header.kind == heartbeatKind) {
      heartbeat = std::chrono::steady_clock::now();
      return true;
    }
    if (header.kind == lifeKind)
      return true;
    if (header.bytes == 0)
      return false;
    text.resize(std::min(header.bytes, maxText));
    sockets[peer].receive(text.data(), text.size());
    process = header.process;
    kind = static_cast<ErrorKind>(header.kind);
  } catch (const Error &) {
    isTold = false;
    text = "ended without a word: it crashed or was killed";
  }
  if (process >= group.size())
    process = peer;
  report(process, kind, text, isTold);
  return false;
}

void ProcessGroup::Alarm::report(unsigned process, ErrorKind kind,
                                 const std::string &text, bool isTold) {
  if (group.isFirst())
    spread(process, kind, text);
  handle(std::make_exception_ptr(RemoteFailure(
      kind, fmt::format("{}: {}", group.describe(process), text), isTold)));
}

void ProcessGroup::Alarm::missSilent(std::vector<TimePoint> &heard,
                                     TimePoint now) {
  for (unsigned peer = 0; peer < heard.size(); ++peer)
    if (std::chrono::duration<double>(now - heard[peer]).count() >
        silenceSeconds) {
      heard[peer] = TimePoint::max();
      report(peer, ErrorKind::Internal,
             fmt::format("gave no sign of life for {:g} s (--watchdog): it is "
                         "stopped, or cannot be reached any more",
                         silenceSeconds),
             /*isTold=*/false);
    }
}

void ProcessGroup::Alarm::listen() {
  std::vector<pollfd> entries{{wake[0], POLLIN, 0}};
  std::vector<unsigned> owners{0};
  for (unsigned peer = 0; peer < sockets.size(); ++peer)
    if (sockets[peer]) {
      entries.push_back({sockets[peer].get(), POLLIN, 0});
      owners.push_back(peer);
    }
  TimePoint lookedAt = std::chrono::steady_clock::now();
  // By process; the latest time for those that nothing is expected from.
  std::vector<TimePoint> heard(sockets.size(), TimePoint::max());
  for (size_t i = 1; i < entries.size(); ++i)
    heard[owners[i]] = lookedAt;
  TimePoint nextSign = lookedAt;
  while (true) {
    int milliseconds = static_cast<int>(lifePeriod.count());
    if (poll(entries.data(), entries.size(), milliseconds) < 0)
      continue;
    if (entries[0].revents)
      return;
    TimePoint now = std::chrono::steady_clock::now();
    // While this process was stopped, as all may have been, it heard nobody.
    bool wasStopped = now - lookedAt > 4 * lifePeriod;
    lookedAt = now;
    for (size_t i = 1; i < entries.size(); ++i) {
      TimePoint &last = heard[owners[i]];
      if (last != TimePoint::max() && (entries[i].revents || wasStopped))
        last = now;
      if (entries[i].revents && !hear(owners[i])) {
        entries[i].fd = -1; // poll leaves it out
        last = TimePoint::max();
      }
    }
    if (now >= nextSign) {
      tellAll(lifeKind);
      nextSign = now + lifePeriod;
    }
    if (silenceSeconds > 0)
      missSilent(heard, now);
  }
}
