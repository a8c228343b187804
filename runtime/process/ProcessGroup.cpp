//===- ProcessGroup.cpp ---------------------------------------------------===//
#include "process/ProcessGroup.h"
#include "process/Alarm.h"

#include <chrono>

using namespace pp::runtime;

namespace {
/// Before each message of a bulk connection: both sides have to expect the
/// same.
struct BulkHeader {
  static constexpr uint64_t expectedMagic = 0x31'4b'4c'55'42'2d'50'50;
  uint64_t magic, bytes;
};
} // namespace

ProcessGroup::ProcessGroup() = default;

ProcessGroup &pp::runtime::getLoneProcess() {
  static ProcessGroup group;
  return group;
}

ProcessGroup::~ProcessGroup() = default;

std::string ProcessGroup::describe(unsigned process) const {
  const Peer &peer = peers[process];
  return fmt::format("process {} ({}, pid {})", process, peer.host, peer.pid);
}

bool ProcessGroup::isOnThisMachine(unsigned other) const {
  return peers[other].machine == peers[process()].machine;
}

bool ProcessGroup::any(bool flag) {
  char value = flag ? 1 : 0;
  if (!isFirst()) {
    send(0, &value, 1);
    receive(0, &value, 1);
    return value != 0;
  }
  for (unsigned other = 1; other < size(); ++other) {
    char theirs = 0;
    receive(other, &theirs, 1);
    value = static_cast<char>(value | theirs);
  }
  for (unsigned other = 1; other < size(); ++other)
    send(other, &value, 1);
  return value != 0;
}

void ProcessGroup::compare(const std::string &what, uint64_t value) {
  std::vector<uint64_t> values(size(), value);
  for (unsigned other = 1; isFirst() && other < size(); ++other)
    receive(other, &values[other], sizeof(value));
  if (!isFirst())
    send(0, &value, sizeof(value));
  std::string text;
  for (unsigned other = 0; other < size(); ++other)
    if (values[other] != value)
      text += fmt::format("{}{} has {}", text.empty() ? "" : ", ",
                          describe(other), values[other]);
  if (any(!text.empty()) && !isFirst())
    throw RemoteFailure(ErrorKind::Usage, what + " differs", /*isTold=*/true);
  if (!text.empty())
    failUsage("{}: the processes differ: this one has {}, {}", what, value,
              text);
}

void ProcessGroup::send(unsigned to, const void *data, uint64_t bytes) {
  try {
    BulkHeader header{BulkHeader::expectedMagic, bytes};
    peers[to].bulk.send(&header, sizeof(header));
    peers[to].bulk.send(data, bytes);
  } catch (const Error &) {
    throwLost(to);
  }
}

void ProcessGroup::receive(unsigned from, void *data, uint64_t bytes) {
  BulkHeader header{};
  try {
    peers[from].bulk.receive(&header, sizeof(header));
    if (header.magic == BulkHeader::expectedMagic && header.bytes == bytes)
      return peers[from].bulk.receive(data, bytes);
  } catch (const Error &) {
    throwLost(from);
  }
  failInternal("{} sent {} bytes where {} were expected", describe(from),
               header.bytes, bytes);
}

void ProcessGroup::throwLost(unsigned peer) {
  std::rethrow_exception(lost(peer));
}

std::exception_ptr ProcessGroup::lost(unsigned peer) {
  // Before there is an alarm, nobody can say.
  if (alarm) {
    std::unique_lock<std::mutex> lock(alarm->mutex);
    alarm->changed.wait_for(lock, std::chrono::seconds(2), [&] {
      return alarm->failure != nullptr || alarm->isRaised;
    });
    if (alarm->failure)
      return alarm->failure;
  }
  return std::make_exception_ptr(
      RemoteFailure(ErrorKind::IO,
                    fmt::format("the connection to {} is lost", describe(peer)),
                    /*isTold=*/false));
}

ProcessGroup::HandlerHandle ProcessGroup::onFailure(FailureHandler handler) {
  if (!alarm)
    return {};
  auto key = std::make_unique<char>();
  std::unique_lock<std::mutex> lock(alarm->mutex);
  if (alarm->failure) {
    std::exception_ptr failure = alarm->failure;
    lock.unlock();
    handler(failure);
    return {};
  }
  alarm->handlers.emplace(key.get(), std::move(handler));
  return {key.release(), [this](void *key) {
            std::lock_guard<std::mutex> called(alarm->calling);
            std::lock_guard<std::mutex> lock(alarm->mutex);
            alarm->handlers.erase(key);
            delete static_cast<char *>(key);
          }};
}

void ProcessGroup::fail(const Error &error) noexcept {
  if (alarm)
    alarm->raise(error);
}

void ProcessGroup::finish() {
  if (size() == 1)
    return;
  barrier();
  alarm->leave(/*isGood=*/true);
}
