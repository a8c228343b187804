//===- ValueExchange.cpp --------------------------------------------------===//
#include "transport/ValueExchange.h"
#include "support/Error.h"

using namespace pp::runtime;

ValueExchange::ValueExchange(const Program &program,
                             std::vector<unsigned> owners)
    : owners(std::move(owners)), all(this->owners.size()),
      latest(this->owners.size()) {
  const Placement &placement = program.getPlacement();
  ProcessGroup &group = program.getGroup();
  process = group.process();
  std::vector<unsigned> others;
  for (unsigned other = 0; other < group.size(); ++other)
    if (other != process)
      others.push_back(other);
  sockets = group.connect(others);
  for (size_t i = 0; i < this->owners.size(); ++i)
    numbersOf[placement.processOfRank(this->owners[i])].push_back(i);
  for (unsigned rank = 0; rank < program.getPlan().ranks.size(); ++rank)
    ranks += placement.hasRank(rank);
}

void ValueExchange::allGather(unsigned rank, std::vector<double> &values) {
  std::unique_lock<std::mutex> lock(mutex);
  for (size_t i = 0; i < owners.size(); ++i)
    if (owners[i] == rank)
      all[i] = values[i];
  uint64_t round = rounds;
  if (++arrived == ranks) {
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
  // The next round cannot end before this rank takes part in it.
  values = latest;
}

void ValueExchange::abort() noexcept {
  // Whoever exchanges holds the mutex until then.
  for (auto &[other, socket] : sockets)
    socket.shutdown();
  {
    std::lock_guard<std::mutex> lock(mutex);
    isAborted = true;
  }
  changed.notify_all();
}

/// Pairs of processes in the order of their numbers, so that each waits only
/// for pairs before its own: there may be more numbers than a socket takes
/// without a receiver.
void ValueExchange::exchange() {
  auto send = [&](Socket &socket) {
    std::vector<double> message;
    for (size_t i : numbersOf[process])
      message.push_back(all[i]);
    socket.send(message.data(), message.size() * sizeof(double));
  };
  auto receive = [&](Socket &socket, unsigned other) {
    std::vector<double> message(numbersOf[other].size());
    socket.receive(message.data(), message.size() * sizeof(double));
    for (size_t i = 0; i < message.size(); ++i)
      all[numbersOf[other][i]] = message[i];
  };
  try {
    for (auto &[other, socket] : sockets) {
      if (process < other)
        send(socket);
      receive(socket, other);
      if (process > other)
        send(socket);
    }
  } catch (const Error &) {
    // The group says why.
    isAborted = true;
    changed.notify_all();
  }
}
