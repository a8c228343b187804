//===- FlagExchange.cpp ---------------------------------------------------===//
#include "transport/FlagExchange.h"
#include "support/Error.h"
#include "support/Spin.h"
#include "transport/SlotFlag.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

using namespace pp::runtime;

namespace {

/// Between threads of one process: each rank puts its flag into a common place,
/// counts how often it has done so, and takes what is there when all have. A
/// place is used again two rounds later: its rank has then seen all others in
/// the round between, so they have given the work that reads it.
class LocalFlagExchange : public FlagExchange {
public:
  LocalFlagExchange(const Plan &plan, Device &device)
      : spins(spinsFor(plan.ranks.size())) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      Participant &participant = participants.emplace_back();
      for (std::unique_ptr<Event> &event : participant.published)
        event = device.createEvent();
    }
    common = device.allocate(alignUp(2 * plan.ranks.size() * sizeof(float)),
                             "flags of all ranks");
  }

  void allGather(unsigned rank, float *flags, RankStreams &streams) override {
    Stream &stream = *streams.compute;
    Participant &own = participants[rank];
    uint32_t round = own.round++;
    unsigned parity = round % 2;
    auto *place =
        reinterpret_cast<float *>(common.get()) + parity * participants.size();
    stream.copy(place + rank, flags + rank, sizeof(float));
    stream.record(*own.published[parity]);
    own.rounds.change(round, round + 1);
    for (Participant &other : participants) {
      if (&other == &own)
        continue;
      other.rounds.waitUntilAtLeast(round + 1, spins);
      stream.wait(*other.published[parity]);
    }
    stream.copy(flags, place, participants.size() * sizeof(float));
  }

  void abort() noexcept override {
    for (Participant &participant : participants)
      participant.rounds.abort();
  }

private:
  struct Participant {
    SlotFlag rounds;
    uint32_t round = 0; // the rank's own
    std::unique_ptr<Event> published[2];
  };
  std::deque<Participant> participants; // by rank
  DeviceMemory common; // a float for each rank, in even and in odd rounds
  unsigned spins;
};

/// Between processes: through the host. The last rank of a process to come
/// exchanges the flags of all of them with the other processes.
class HostFlagExchange : public FlagExchange {
public:
  explicit HostFlagExchange(const Program &program)
      : all(program.getPlan().ranks.size()), latest(all.size()) {
    const Placement &placement = program.getPlacement();
    ProcessGroup &group = program.getGroup();
    std::vector<unsigned> others;
    for (unsigned process = 0; process < group.size(); ++process)
      if (process != group.process())
        others.push_back(process);
    sockets = group.connect(others);
    for (unsigned rank = 0; rank < all.size(); ++rank) {
      ranksOf[placement.processOfRank(rank)].push_back(rank);
      if (placement.hasRank(rank))
        places.emplace(rank, makePlace(program.getDevice(), all.size()));
    }
  }

  void allGather(unsigned rank, float *flags, RankStreams &streams) override {
    Place &place = places.at(rank);
    auto *values = reinterpret_cast<float *>(place.host.get());
    Stream &stream = *streams.compute;
    // Also waits for the copy out of this place in the round before.
    stream.copy(values + rank, flags + rank, sizeof(float));
    stream.record(*place.arrived);
    place.arrived->synchronize();
    share(rank, values);
    stream.copy(flags, values, all.size() * sizeof(float));
  }

  void abort() noexcept override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      isAborted = true;
    }
    changed.notify_all();
    for (auto &[process, socket] : sockets)
      socket.shutdown();
  }

private:
  /// Of a rank of this process.
  struct Place {
    DeviceMemory host; // a float for each rank
    std::unique_ptr<Event> arrived;
  };

  static Place makePlace(Device &device, size_t ranks) {
    return {device.allocateHost(alignUp(ranks * sizeof(float)),
                                "flags of all ranks"),
            device.createEvent()};
  }

  /// Gives `values[rank]` away and fills `values`.
  void share(unsigned rank, float *values) {
    std::unique_lock<std::mutex> lock(mutex);
    all[rank] = values[rank];
    uint64_t round = rounds;
    if (++arrived == places.size()) {
      exchange();
      arrived = 0;
      latest = all;
      ++rounds;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return rounds != round || isAborted; });
    }
    if (isAborted)
      throw Transport::Aborted();
    std::copy(latest.begin(), latest.end(), values);
  }

  /// The messages are shorter than what a socket takes without a receiver, so
  /// sending comes first everywhere.
  void exchange() {
    try {
      std::vector<float> message;
      for (auto &[rank, place] : places)
        message.push_back(all[rank]);
      for (auto &[process, socket] : sockets)
        socket.send(message.data(), message.size() * sizeof(float));
      for (auto &[process, socket] : sockets) {
        const std::vector<unsigned> &ranks = ranksOf.at(process);
        message.resize(ranks.size());
        socket.receive(message.data(), message.size() * sizeof(float));
        for (size_t i = 0; i < ranks.size(); ++i)
          all[ranks[i]] = message[i];
      }
    } catch (const Error &) {
      // The group says why.
      isAborted = true;
      changed.notify_all();
    }
  }

  std::map<unsigned, std::vector<unsigned>> ranksOf; // by process, ascending
  std::map<unsigned, Socket> sockets;                // by process
  std::map<unsigned, Place> places;                  // by rank
  std::mutex mutex;
  std::condition_variable changed;
  // Under `mutex`:
  std::vector<float> all, latest; // by rank: of this round, and the last
  size_t arrived = 0;
  uint64_t rounds = 0;
  bool isAborted = false;
};

} // namespace

std::unique_ptr<FlagExchange>
pp::runtime::createFlagExchange(const Program &program) {
  if (program.getGroup().size() > 1)
    return std::make_unique<HostFlagExchange>(program);
  return std::make_unique<LocalFlagExchange>(program.getPlan(),
                                             program.getDevice());
}
