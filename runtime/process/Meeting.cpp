//===- Meeting.cpp - How the processes of a group meet --------------------===//
//
// Process 0 waits for everybody's hello, compares, and tells all where the
// others listen; then they connect to each other.
//
//===----------------------------------------------------------------------===//
#include "process/Alarm.h"
#include "process/MpiEndpoint.h"
#include "process/ProcessGroup.h"
#include "support/Print.h"
#include "support/SharedMemory.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <unistd.h>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

/// Of process 0's answer, which has a line for each process.
static constexpr uint32_t maxAnswer = 16 << 20;

static Deadline after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

static std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

static bool isUnix(const std::string &address) {
  return address.starts_with("unix:");
}

ProcessGroup::ProcessGroup(const Launch &launch,
                           const std::vector<Agreement> &agreements,
                           double joinSeconds, std::string transport,
                           bool sharesMemory, double silenceSeconds)
    : launch(launch), joinSeconds(joinSeconds), transport(std::move(transport)),
      memoryIsShared(sharesMemory), silenceSeconds(silenceSeconds),
      credentials{launch.secret, ""} {
  if (launch.processes == 1)
    return;
  if (launch.mpi)
    this->launch.address = "MPI, process 0";
  else if (launch.address.empty() && !isFirst())
    throw RemoteFailure(ErrorKind::Usage, "no address", /*isTold=*/true);
  else if (launch.address.empty())
    failUsage("{}: the processes are on several machines: set PP_MASTER to "
              "HOST:PORT, with the machine of process 0 and a port that is "
              "free there, or build the MPI plugin (scripts/build-mpi-plugin)",
              launch.launcher);
  // A Unix socket is for processes of one user, and so is a job of MPI.
  else if (launch.secret.empty() && !isUnix(launch.address))
    failUsage("the processes meet at '{}', which others may reach: set "
              "PP_SECRET or --secret-file to the same secret for all; 'openssl "
              "rand -hex 32' makes one",
              launch.address);
  clockOffsets.assign(size(), 0);
  connectionsMade.assign(size(), 0);
  peers.resize(size());
  Deadline deadline = after(joinSeconds);
  if (isFirst()) {
    reception = std::make_unique<Reception>(
        launch.mpi ? launch.mpi->getAddress() : launch.address, credentials, 0);
    peers[0].host = hostName();
    peers[0].pid = getpid();
    peers[0].machine = SharedMemory::machine();
    meetOthers(agreements, deadline);
  } else {
    meetFirst(agreements, deadline);
  }
  connectAll(deadline);
  measureClocks();
  if (launch.onMet)
    launch.onMet();
}

/// What process 0 knows while it waits for the others.
struct ProcessGroup::Arrivals {
  std::vector<Socket> sockets; // by process
  unsigned missing;
  /// Each of them ends the start.
  std::vector<std::string> faults;
  /// What may explain that somebody does not come.
  std::set<std::string> hints;
  bool isHopeless = false; // waiting for the others is of no use
};

/// "1 to 5, 7 and 90 more"
static std::string listMissing(const std::vector<Socket> &sockets) {
  constexpr unsigned most = 8;
  std::vector<std::string> ranges;
  unsigned more = 0, size = static_cast<unsigned>(sockets.size());
  for (unsigned first = 1; first < size; ++first) {
    if (sockets[first])
      continue;
    unsigned last = first;
    while (last + 1 < size && !sockets[last + 1])
      ++last;
    if (ranges.size() == most)
      more += last - first + 1;
    else
      ranges.push_back(last == first ? fmt::format("{}", first)
                       : last == first + 1
                           ? fmt::format("{}, {}", first, last)
                           : fmt::format("{} to {}", first, last));
    first = last;
  }
  return fmt::format("{}{}", fmt::join(ranges, ", "),
                     more ? fmt::format(" and {} more", more) : "");
}

void ProcessGroup::welcome(Reception::Guest guest,
                           const std::vector<Agreement> &agreements,
                           Arrivals &arrivals) {
  auto refuse = [&](const ordered_json &answer) {
    sendText(guest.socket, answer.dump(), after(1));
  };
  ordered_json hello = ordered_json::parse(guest.hello);
  unsigned other = guest.process;
  Peer peer;
  peer.host = hello.at("host");
  peer.pid = hello.at("pid");
  peer.address = hello.at("address");
  peer.machine = hello.at("machine");
  std::string name =
      fmt::format("process {} ({}, pid {})", other, peer.host, peer.pid);
  if (hello.at("job") != launch.job) {
    std::string job = hello.at("job");
    if (arrivals.hints.size() < 4 &&
        arrivals.hints
            .insert(fmt::format("{} came, but is of job '{}', not '{}' "
                                "(PP_JOB)",
                                name, job, launch.job))
            .second)
      printMessage("note: refused {}: it is of job '{}', not '{}' "
                   "(PP_JOB)\n",
                   name, job, launch.job);
    return refuse({{"job", launch.job}});
  }
  if (uint64_t processes = hello.at("processes"); processes != size()) {
    arrivals.faults.push_back(fmt::format(
        "{} is one of {} processes, this one of {}", name, processes, size()));
    arrivals.isHopeless = true;
    return refuse({{"error", arrivals.faults.back()}});
  }
  if (other == 0 || other >= size())
    return refuse(
        {{"error", fmt::format("there is no such process as {}", name)},
         {"isTold", false}});
  if (arrivals.sockets[other])
    return refuse({{"error", fmt::format("there are two of process {}: {} and "
                                         "{}",
                                         other, describe(other), name)},
                   {"isTold", false}});
  for (const Agreement &agreement : agreements)
    if (hello.at("agreements").at(agreement.what) != agreement.hash)
      arrivals.faults.push_back(fmt::format("{} has another {} than process 0",
                                            name, agreement.what));
  peers[other] = std::move(peer);
  arrivals.sockets[other] = std::move(guest.socket);
  --arrivals.missing;
}

/// Process 0: waits for everybody's hello, compares, and answers.
void ProcessGroup::meetOthers(const std::vector<Agreement> &agreements,
                              Deadline deadline) {
  Arrivals arrivals{std::vector<Socket>(size()), size() - 1, {}, {}};
  std::vector<std::string> &faults = arrivals.faults;
  while (arrivals.missing && !arrivals.isHopeless) {
    Watch watch;
    for (unsigned other = 1; other < size(); ++other)
      watch.add(other, arrivals.sockets[other]);
    try {
      std::optional<Reception::Guest> guest = reception->next(deadline, watch);
      if (!guest)
        break;
      if (guest->purpose == meetPurpose)
        welcome(std::move(*guest), agreements, arrivals);
    } catch (const ProcessGone &gone) {
      faults.push_back(fmt::format("{} ended before all had come",
                                   describe(gone.getProcess())));
      arrivals.isHopeless = true;
    } catch (const ordered_json::exception &) {
      arrivals.hints.insert("somebody said a hello that is not understood");
    } catch (const Error &) {
      continue; // It went away again.
    }
  }
  if (arrivals.missing && !arrivals.isHopeless) {
    faults.push_back(fmt::format("of {} processes, {} did not come within "
                                 "{:g} s (--join-timeout)",
                                 size(), listMissing(arrivals.sockets),
                                 joinSeconds));
    faults.insert(faults.end(), arrivals.hints.begin(), arrivals.hints.end());
    if (std::string refused = reception->describeRefused(); !refused.empty())
      faults.push_back(refused);
  }
  ordered_json answer;
  if (!faults.empty())
    answer["error"] = fmt::format("{}", fmt::join(faults, "\n  "));
  credentials.session = makeSecret();
  answer["session"] = credentials.session;
  for (const Peer &peer : peers)
    answer["peers"].push_back({{"host", peer.host},
                               {"pid", peer.pid},
                               {"address", peer.address},
                               {"machine", peer.machine}});
  for (Socket &socket : arrivals.sockets)
    if (socket)
      try {
        sendText(socket, answer.dump(), after(5));
      } catch (const Error &) {
        continue; // It is missed soon enough.
      }
  if (!faults.empty())
    throw Error(ErrorKind::Usage, answer["error"].get<std::string>());
  reception->setSession(credentials.session);
  for (unsigned other = 1; other < size(); ++other)
    peers[other].bulk = std::move(arrivals.sockets[other]);
}

void ProcessGroup::meetFirst(const std::vector<Agreement> &agreements,
                             Deadline deadline) {
  ordered_json hello{{"job", launch.job},
                     {"processes", size()},
                     {"host", hostName()},
                     {"pid", getpid()},
                     {"machine", SharedMemory::machine()}};
  for (const Agreement &agreement : agreements)
    hello["agreements"][agreement.what] = agreement.hash;
  Socket socket;
  ordered_json answer;
  while (true) {
    socket = connectToProcess(launch.address, credentials, 0, process(),
                              meetPurpose, deadline, Watch(), launch.mpi.get());
    // Only where process 0 is reached can the others come from.
    std::string host = socket.localHost();
    std::string address = launch.mpi ? launch.mpi->getAddress()
                          : host.empty()
                              ? fmt::format("{}-{}", launch.address, process())
                              : fmt::format("{}:0", host);
    if (!reception || address != listensAt)
      reception = std::make_unique<Reception>(address, credentials, process());
    listensAt = address;
    hello["address"] = host.empty()
                           ? address
                           : fmt::format("{}:{}", host, reception->getPort());
    try {
      sendText(socket, hello.dump(), after(5));
      answer = ordered_json::parse(
          receiveText(socket, maxAnswer, after(joinSeconds + 5)));
    } catch (const ConnectionClosed &) {
      throw RemoteFailure(ErrorKind::IO,
                          fmt::format("process {}: process 0 at '{}' ended "
                                      "before all had come",
                                      process(), launch.address),
                          /*isTold=*/false);
    } catch (const Error &error) {
      throw Error(ErrorKind::IO,
                  fmt::format("process {}: process 0 at '{}' does not say who "
                              "the others are: {}",
                              process(), launch.address, error.what()));
    } catch (const ordered_json::exception &) {
      throw Error(ErrorKind::IO,
                  fmt::format("'{}': not a pipeline binary", launch.address));
    }
    if (!answer.contains("job"))
      break;
    // What is left of another job may be going away.
    if (Clock::now() >= deadline)
      failUsage("process {}: process 0 at '{}' is of job '{}', this one of "
                "'{}' (PP_JOB)",
                process(), launch.address, answer["job"].get<std::string>(),
                launch.job);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (answer.contains("error"))
    throw RemoteFailure(ErrorKind::Usage, answer["error"].get<std::string>(),
                        answer.value("isTold", true));
  for (unsigned other = 0; other < size(); ++other) {
    const ordered_json &entry = answer.at("peers").at(other);
    peers[other].host = entry.at("host");
    peers[other].pid = entry.at("pid");
    peers[other].address = entry.at("address");
    peers[other].machine = entry.at("machine");
  }
  peers[0].address = launch.address;
  peers[0].bulk = std::move(socket);
  credentials.session = answer.at("session");
  reception->setSession(credentials.session);
}

/// The processes that this one has met: none may end while others connect.
Watch ProcessGroup::watchAll() const {
  Watch watch;
  for (unsigned other = 0; other < size(); ++other)
    watch.add(other, peers[other].bulk);
  return watch;
}

Socket ProcessGroup::connectWith(unsigned peer, unsigned purpose,
                                 Deadline deadline) {
  try {
    return connectToProcess(peers[peer].address, credentials, peer, process(),
                            purpose, deadline, watchAll(), launch.mpi.get());
  } catch (const ProcessGone &gone) {
    throwLost(gone.getProcess());
  }
}

Socket ProcessGroup::acceptFrom(unsigned peer, unsigned purpose,
                                Deadline deadline) {
  while (true) {
    auto it = early.find({peer, purpose});
    if (it != early.end()) {
      accepted.insert(it->first);
      Socket socket = std::move(it->second);
      early.erase(it);
      return socket;
    }
    std::optional<Reception::Guest> guest;
    try {
      guest = reception->next(deadline, watchAll());
    } catch (const ProcessGone &gone) {
      throwLost(gone.getProcess());
    }
    if (!guest)
      throw Error(ErrorKind::IO,
                  fmt::format("{} did not connect in time", describe(peer)));
    // The first one counts.
    std::pair<unsigned, unsigned> key{guest->process, guest->purpose};
    if (guest->process < size() && !accepted.count(key))
      early.emplace(key, std::move(guest->socket));
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
  std::map<unsigned, int64_t> here;
  for (unsigned other = 0; launch.mpi && other < size(); ++other)
    if (other != process() && isOnThisMachine(other) &&
        peers[other].pid != peers[process()].pid)
      here[other] = peers[other].pid;
  if (launch.mpi)
    launch.mpi->watch(here);
  alarm = std::make_unique<Alarm>(*this, std::move(alarms), silenceSeconds);
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
      sockets[other] = connectWith(
          other, firstFreePurpose + connectionsMade[other]++, deadline);
  for (unsigned other : others)
    if (other > process())
      sockets[other] = acceptFrom(
          other, firstFreePurpose + connectionsMade[other]++, deadline);
  return sockets;
}
