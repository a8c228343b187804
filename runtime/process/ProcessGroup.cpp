//===- ProcessGroup.cpp ---------------------------------------------------===//
#include "process/ProcessGroup.h"
#include "process/Alarm.h"
#include "support/Hash.h"
#include "support/SharedMemory.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <unistd.h>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

// Tells a stranger that connects by mistake from a process of ours.
static constexpr uint64_t magic = 0x31'52'49'4c'4d'2d'50'50; // "PP-MLIR1"
static constexpr uint64_t maxMessage = 16 << 20;
// What a connection is for; those of connect() count from here.
static constexpr unsigned bulkPurpose = 0, alarmPurpose = 1, firstPurpose = 2;

namespace {
/// First on every connection between two processes that have met.
struct Greeting {
  uint64_t magic, job;
  uint32_t process, purpose;
};
/// Before each message of a bulk connection: both sides have to expect the
/// same.
struct BulkHeader {
  uint64_t magic, bytes;
};
} // namespace

static void sendText(Socket &socket, const std::string &text) {
  BulkHeader header{magic, text.size()};
  socket.send(&header, sizeof(header));
  socket.send(text.data(), text.size());
}

static std::string receiveText(Socket &socket, Deadline deadline) {
  BulkHeader header{};
  socket.receive(&header, sizeof(header), deadline);
  if (header.magic != magic || header.bytes > maxMessage)
    throw Error(ErrorKind::IO, "the other side is not a pipeline binary");
  std::string text(header.bytes, '\0');
  socket.receive(text.data(), text.size(), deadline);
  return text;
}

static Deadline after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

static std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

ProcessGroup::ProcessGroup() = default;

ProcessGroup &pp::runtime::getLoneProcess() {
  static ProcessGroup group;
  return group;
}

ProcessGroup::ProcessGroup(const Launch &launch,
                           const std::vector<Agreement> &agreements,
                           double joinSeconds, TransportKind transport)
    : launch(launch), joinSeconds(joinSeconds), transport(transport) {
  if (launch.processes == 1)
    return;
  clockOffsets.assign(size(), 0);
  connectionsMade.assign(size(), 0);
  peers.resize(size());
  Deadline deadline = after(joinSeconds);
  ordered_json hello{
      {"job", launch.job},   {"process", process()},
      {"processes", size()}, {"host", hostName()},
      {"pid", getpid()},     {"machine", SharedMemory::machine()}};
  for (const Agreement &agreement : agreements)
    hello["agreements"][agreement.what] = agreement.hash;
  bool isUnix = launch.address.starts_with("unix:");
  if (isFirst()) {
    listener = std::make_unique<Listener>(launch.address);
    peers[0].host = hostName();
    peers[0].pid = getpid();
    peers[0].machine = SharedMemory::machine();
    meetOthers(*listener, hello.dump(), agreements, deadline);
  } else {
    listener = std::make_unique<Listener>(
        isUnix ? fmt::format("{}-{}", launch.address, process()) : ":0");
    meetFirst(hello.dump(), deadline);
  }
  connectAll(deadline);
  measureClocks();
}

ProcessGroup::~ProcessGroup() = default;

std::string ProcessGroup::describe(unsigned process) const {
  const Peer &peer = peers[process];
  return fmt::format("process {} ({}, pid {})", process, peer.host, peer.pid);
}

bool ProcessGroup::isOnThisMachine(unsigned other) const {
  return peers[other].machine == peers[process()].machine;
}

/// Process 0: waits for everybody's hello, compares, and answers.
void ProcessGroup::meetOthers(Listener &listener, const std::string &ownHello,
                              const std::vector<Agreement> &agreements,
                              Deadline deadline) {
  std::vector<Socket> arrived(size());
  std::vector<std::string> faults;
  ordered_json own = ordered_json::parse(ownHello);
  unsigned missing = size() - 1;
  while (missing) {
    std::optional<Socket> socket = listener.accept(deadline);
    if (!socket)
      break;
    ordered_json hello;
    try {
      if (!socket->isSameUser())
        continue;
      // A stranger that says nothing must not hold up the others.
      hello = ordered_json::parse(
          receiveText(*socket, std::min(deadline, after(2))));
      if (hello.at("job") != launch.job)
        continue;
      unsigned other = hello.at("process");
      unsigned processes = hello.at("processes");
      Peer peer;
      peer.host = hello.at("host");
      peer.pid = hello.at("pid");
      peer.address = hello.at("address");
      peer.machine = hello.at("machine");
      std::string name =
          fmt::format("process {} ({}, pid {})", other, peer.host, peer.pid);
      if (processes != size() || other == 0 || other >= size() ||
          arrived[other]) {
        std::string fault =
            processes != size()
                ? fmt::format("{} is one of {} processes, this one of {}", name,
                              processes, size())
                : fmt::format("there are two of {}", name);
        faults.push_back(fault);
        sendText(*socket, ordered_json{{"error", fault}}.dump());
        continue;
      }
      for (const Agreement &agreement : agreements)
        if (hello.at("agreements").at(agreement.what) != agreement.hash)
          faults.push_back(fmt::format("{} has another {} than process 0", name,
                                       agreement.what));
      peers[other] = std::move(peer);
      arrived[other] = std::move(*socket);
      --missing;
    } catch (const ordered_json::exception &) {
      continue; // Not one of ours.
    } catch (const Error &) {
      continue; // It went away again.
    }
  }
  if (missing) {
    std::string names;
    for (unsigned other = 1; other < size(); ++other)
      if (!arrived[other])
        names += fmt::format("{}{}", names.empty() ? "" : ", ", other);
    faults.push_back(
        fmt::format("of {} processes, {} did not come within {:g} s "
                    "(--join-timeout)",
                    size(), names, joinSeconds));
  }
  ordered_json answer;
  if (!faults.empty()) {
    std::string text;
    for (const std::string &fault : faults)
      text += (text.empty() ? "" : "\n  ") + fault;
    answer["error"] = text;
  }
  for (const Peer &peer : peers)
    answer["peers"].push_back({{"host", peer.host},
                               {"pid", peer.pid},
                               {"address", peer.address},
                               {"machine", peer.machine}});
  for (Socket &socket : arrived)
    if (socket)
      try {
        sendText(socket, answer.dump());
      } catch (const Error &) {
        continue; // It is missed soon enough.
      }
  if (!faults.empty())
    throw Error(ErrorKind::Usage, answer["error"].get<std::string>());
  for (unsigned other = 1; other < size(); ++other)
    peers[other].bulk = std::move(arrived[other]);
}

void ProcessGroup::meetFirst(const std::string &ownHello, Deadline deadline) {
  ordered_json hello = ordered_json::parse(ownHello);
  Socket socket;
  ordered_json answer;
  while (true) {
    socket = connectTo(launch.address, deadline);
    std::string host = socket.localHost();
    hello["address"] = host.empty()
                           ? fmt::format("{}-{}", launch.address, process())
                           : fmt::format("{}:{}", host, listener->getPort());
    try {
      sendText(socket, hello.dump());
      answer = ordered_json::parse(receiveText(socket, after(joinSeconds + 5)));
      break;
    } catch (const Error &error) {
      // Somebody else's, or one that is going away.
      if (Clock::now() >= deadline)
        throw Error(ErrorKind::IO,
                    fmt::format("process {}: no answer at '{}': {}", process(),
                                launch.address, error.what()));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    } catch (const ordered_json::exception &) {
      throw Error(ErrorKind::IO,
                  fmt::format("'{}': not a pipeline binary", launch.address));
    }
  }
  // Process 0 tells the user.
  if (answer.contains("error"))
    throw RemoteFailure(ErrorKind::Usage, answer["error"].get<std::string>(),
                        /*isTold=*/true);
  for (unsigned other = 0; other < size(); ++other) {
    const ordered_json &entry = answer.at("peers").at(other);
    peers[other].host = entry.at("host");
    peers[other].pid = entry.at("pid");
    peers[other].address = entry.at("address");
    peers[other].machine = entry.at("machine");
  }
  peers[0].address = launch.address;
  peers[0].bulk = std::move(socket);
}

Socket ProcessGroup::connectWith(unsigned peer, unsigned purpose,
                                 Deadline deadline) {
  Socket socket = connectTo(peers[peer].address, deadline);
  Greeting greeting{magic, hashText(launch.job), process(), purpose};
  socket.send(&greeting, sizeof(greeting));
  return socket;
}

Socket ProcessGroup::acceptFrom(unsigned peer, unsigned purpose,
                                Deadline deadline) {
  while (true) {
    auto it = early.find({peer, purpose});
    if (it != early.end()) {
      Socket socket = std::move(it->second);
      early.erase(it);
      return socket;
    }
    std::optional<Socket> socket = listener->accept(deadline);
    if (!socket)
      throw Error(ErrorKind::IO,
                  fmt::format("{} did not connect in time", describe(peer)));
    try {
      Greeting greeting{};
      if (!socket->isSameUser())
        continue;
      socket->receive(&greeting, sizeof(greeting),
                      std::min(deadline, after(2)));
      if (greeting.magic == magic && greeting.job == hashText(launch.job) &&
          greeting.process < size())
        early[{greeting.process, greeting.purpose}] = std::move(*socket);
    } catch (const Error &) {
      continue; // Not one of ours.
    }
  }
}

/// Bulk connections between all others than process 0, and the alarm.
void ProcessGroup::connectAll(Deadline deadline) {
  std::vector<Socket> alarms(size());
  for (unsigned other = 1; other < process(); ++other)
    peers[other].bulk = connectWith(other, bulkPurpose, deadline);
  if (!isFirst())
    alarms[0] = connectWith(0, alarmPurpose, deadline);
  for (unsigned other = std::max(process() + 1, 1U);
       !isFirst() && other < size(); ++other)
    peers[other].bulk = acceptFrom(other, bulkPurpose, deadline);
  for (unsigned other = 1; isFirst() && other < size(); ++other)
    alarms[other] = acceptFrom(other, alarmPurpose, deadline);
  alarm = std::make_unique<Alarm>(*this, std::move(alarms));
}

/// The exchange that took least time says most (Cristian's algorithm, 1989).
void ProcessGroup::measureClocks() {
  auto now = [] { return int64_t(Clock::now().time_since_epoch().count()); };
  constexpr unsigned rounds = 8;
  for (unsigned other = 1; other < size(); ++other) {
    int64_t best = INT64_MAX;
    for (unsigned round = 0; round < rounds; ++round) {
      if (process() == other) {
        int64_t time = 0;
        receive(0, &time, sizeof(time));
        time = now();
        send(0, &time, sizeof(time));
      } else if (isFirst()) {
        int64_t sent = now(), theirs = 0;
        send(other, &sent, sizeof(sent));
        receive(other, &theirs, sizeof(theirs));
        int64_t arrived = now();
        if (arrived - sent < best) {
          best = arrived - sent;
          clockOffsets[other] = sent + (arrived - sent) / 2 - theirs;
        }
      }
    }
  }
}

std::map<unsigned, Socket>
ProcessGroup::connect(const std::vector<unsigned> &others) {
  std::map<unsigned, Socket> sockets;
  Deadline deadline = after(joinSeconds);
  // Connecting never waits for the other side, so that it comes first.
  for (unsigned other : others)
    if (other < process())
      sockets[other] =
          connectWith(other, firstPurpose + connectionsMade[other]++, deadline);
  for (unsigned other : others)
    if (other > process())
      sockets[other] =
          acceptFrom(other, firstPurpose + connectionsMade[other]++, deadline);
  return sockets;
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
    BulkHeader header{magic, bytes};
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
    if (header.magic == magic && header.bytes == bytes)
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
