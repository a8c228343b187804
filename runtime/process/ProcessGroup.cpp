//===- ProcessGroup.cpp ---------------------------------------------------===//
#include "process/ProcessGroup.h"
#include "process/Alarm.h"
#include "process/MpiEndpoint.h"

#include <nlohmann/json.hpp>

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
  endAll(text.empty()
             ? ""
             : fmt::format("{}: the processes differ: this one has {}, {}",
                           what, value, text));
}

void ProcessGroup::endAll(const std::string &fault) {
  if (!any(!fault.empty()))
    return;
  if (isFirst())
    throw Error(ErrorKind::Usage, fault);
  // That this process goes is no failure, which process 0 would hear of before
  // it has told the others.
  alarm->leave(/*isGood=*/true);
  throw RemoteFailure(ErrorKind::Usage, "the processes differ",
                      /*isTold=*/true);
}

std::vector<std::string> ProcessGroup::gather(const std::string &text) {
  if (!isFirst()) {
    send(0, text);
    return {};
  }
  std::vector<std::string> texts{text};
  for (unsigned other = 1; other < size(); ++other)
    texts.push_back(receive(other));
  return texts;
}

std::string ProcessGroup::broadcast(const std::string &text) {
  if (!isFirst())
    return receive(0);
  for (unsigned other = 1; other < size(); ++other)
    send(other, text);
  return text;
}

void ProcessGroup::compareContents(const std::vector<Content> &contents) {
  if (size() == 1)
    return;
  using nlohmann::json;
  json own = json::array();
  for (const Content &content : contents)
    own.push_back({content.file, content.hash});
  constexpr auto replace = json::error_handler_t::replace; // names of files
  std::vector<std::string> texts =
      gather(own.dump(-1, ' ', /*ensure_ascii=*/false, replace));
  std::string faults;
  // The first process that has a content says what it has to be.
  std::vector<unsigned> first(contents.size(), size());
  std::vector<json> all;
  for (unsigned other = 0; other < texts.size(); ++other) {
    all.push_back(json::parse(texts[other]));
    if (all[other].size() != contents.size())
      failInternal("{} compares {} contents, this one {}", describe(other),
                   all[other].size(), contents.size());
    for (size_t i = 0; i < contents.size(); ++i) {
      const json &theirs = all[other][i];
      if (theirs[0].get<std::string>().empty())
        continue;
      if (first[i] == size())
        first[i] = other;
      const json &expected = all[first[i]][i];
      if (theirs[1] != expected[1])
        faults += fmt::format("\n  {}: {} has another one in '{}' than {} in "
                              "'{}'",
                              contents[i].what, describe(other),
                              theirs[0].get<std::string>(), describe(first[i]),
                              expected[0].get<std::string>());
    }
  }
  endAll(faults.empty() ? "" : "the processes do not read the same:" + faults);
}

void ProcessGroup::send(unsigned to, const void *data, uint64_t bytes) {
  Waiting whileSent(*this);
  try {
    BulkHeader header{BulkHeader::expectedMagic, bytes};
    peers[to].bulk.send(&header, sizeof(header));
    peers[to].bulk.send(data, bytes);
  } catch (const Error &) {
    throwLost(to);
  }
}

void ProcessGroup::receive(unsigned from, void *data, uint64_t bytes) {
  Waiting untilReceived(*this);
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

void ProcessGroup::send(unsigned to, const std::string &text) {
  uint64_t bytes = text.size();
  send(to, &bytes, sizeof(bytes));
  send(to, text.data(), bytes);
}

std::string ProcessGroup::receive(unsigned from) {
  uint64_t bytes = 0;
  receive(from, &bytes, sizeof(bytes));
  std::string text(bytes, '\0');
  receive(from, text.data(), bytes);
  return text;
}

bool ProcessGroup::both(unsigned peer, bool flag) {
  char mine = flag ? 1 : 0, theirs = 0;
  send(peer, &mine, 1);
  receive(peer, &theirs, 1);
  return mine && theirs;
}

void ProcessGroup::throwLost(unsigned peer) {
  std::rethrow_exception(lost(peer));
}

std::exception_ptr ProcessGroup::lost(unsigned peer,
                                      const std::string &symptom) {
  // Before there is an alarm, nobody can say.
  if (alarm) {
    std::unique_lock<std::mutex> lock(alarm->mutex);
    alarm->changed.wait_for(lock, std::chrono::seconds(2), [&] {
      return alarm->failure != nullptr || alarm->isRaised;
    });
    if (alarm->failure)
      return alarm->failure;
  }
  return std::make_exception_ptr(RemoteFailure(
      ErrorKind::IO,
      fmt::format("the connection to {} is lost{}{}", describe(peer),
                  symptom.empty() ? "" : ": ", symptom),
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

void ProcessGroup::awaitFirst(
    std::chrono::milliseconds longest) const noexcept {
  Deadline deadline = std::chrono::steady_clock::now() + longest;
  try {
    Watch watch;
    if (alarm && !isFirst())
      watch.add(0, alarm->sockets[0]);
    while (alarm && !isFirst() && std::chrono::steady_clock::now() < deadline) {
      watch.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const std::exception &) {
    return; // It has ended.
  }
}

void ProcessGroup::sendHeartbeat() noexcept {
  if (alarm)
    alarm->beat();
}

std::chrono::steady_clock::time_point ProcessGroup::lastHeartbeat() const {
  return alarm ? alarm->heartbeat.load() : Alarm::TimePoint();
}

void ProcessGroup::finish() {
  if (size() == 1)
    return;
  barrier();
  alarm->leave(/*isGood=*/true);
  if (launch.mpi)
    launch.mpi->finish();
}
