//===- Reception.cpp - The side that accepts ------------------------------===//
#include "process/Reception.h"
#include "support/Print.h"

#include <algorithm>
#include <cstring>
#include <poll.h>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;

static constexpr auto greetingPatience = std::chrono::seconds(5);
static constexpr size_t maxCandidates = 256;
/// Accepted before what came earlier is looked at again: a flood of connections
/// must not keep a process waiting that connected long ago.
static constexpr size_t maxAccepted = 32;
static constexpr uint32_t maxHello = 64 << 10;

Reception::Reception(const std::string &address, Credentials credentials,
                     uint32_t process)
    : listener(address), credentials(std::move(credentials)), process(process) {
}

void Reception::acceptSome() {
  for (size_t accepted = 0; accepted < maxAccepted; ++accepted) {
    Socket socket = listener.tryAccept();
    if (!socket)
      return;
    if (!socket.isSameUser()) {
      ++strangers;
      continue;
    }
    if (candidates.size() == maxCandidates) {
      ++strangers;
      // One that has not said the right word, if there is one.
      auto silent = std::ranges::find(candidates, Candidate::State::Opening,
                                      &Candidate::state);
      candidates.erase(silent == candidates.end() ? candidates.begin()
                                                  : silent);
    }
    Candidate &candidate = candidates.emplace_back();
    candidate.from = socket.peerHost();
    candidate.socket = std::move(socket);
    candidate.deadline = Clock::now() + greetingPatience;
  }
}

size_t Reception::expectedBytes(const Candidate &candidate) const {
  switch (candidate.state) {
  case Candidate::State::Opening:
    return sizeof(Opening);
  case Candidate::State::Proof:
    return sizeof(Proof);
  case Candidate::State::HelloSize:
    return sizeof(candidate.helloBytes);
  case Candidate::State::Hello:
    return candidate.helloBytes;
  case Candidate::State::Done:
    break;
  }
  return 0;
}

void Reception::checkProof(Candidate &candidate) {
  Proof proof{};
  std::memcpy(proof.data(), candidate.received.data(), proof.size());
  bool isKnown =
      isEqual(proof, proofOf(credentials, /*isOpener=*/true, process,
                             candidate.opening, candidate.challenge));
  Answer answer{};
  if (isKnown)
    answer = {Answer::Accepted,
              proofOf(credentials, /*isOpener=*/false, process,
                      candidate.opening, candidate.challenge)};
  candidate.socket.send(&answer, sizeof(answer), Clock::now());
  if (isKnown)
    return;
  if (!withoutSecret++)
    printMessage("note: refused a connection{}{}: it does not know the job's "
                 "secret (PP_SECRET, --secret-file)\n",
                 candidate.from.empty() ? "" : " from ", candidate.from);
  lastWithoutSecret = candidate.from;
  throw Error(ErrorKind::IO, "another secret");
}

void Reception::advance(Candidate &candidate) {
  using State = Candidate::State;
  while (candidate.state != State::Done) {
    size_t expected = expectedBytes(candidate);
    size_t have = candidate.received.size();
    candidate.received.resize(expected);
    have += candidate.socket.tryReceive(candidate.received.data() + have,
                                        expected - have);
    candidate.received.resize(have);
    if (have < expected)
      return;
    switch (candidate.state) {
    case State::Opening:
      std::memcpy(&candidate.opening, candidate.received.data(),
                  sizeof(Opening));
      if (candidate.opening.magic != handshakeMagic) {
        ++strangers;
        throw Error(ErrorKind::IO, "not a pipeline binary");
      }
      candidate.challenge = {handshakeMagic, makeNonce()};
      candidate.socket.send(&candidate.challenge, sizeof(Challenge),
                            Clock::now());
      candidate.state = State::Proof;
      break;
    case State::Proof:
      checkProof(candidate);
      candidate.state = candidate.opening.purpose == meetPurpose
                            ? State::HelloSize
                            : State::Done;
      break;
    case State::HelloSize:
      std::memcpy(&candidate.helloBytes, candidate.received.data(),
                  sizeof(candidate.helloBytes));
      if (candidate.helloBytes > maxHello)
        throw Error(ErrorKind::IO, "its hello is too long");
      candidate.state = State::Hello;
      break;
    case State::Hello:
      guests.push_back({{}, 0, 0, candidate.received});
      candidate.state = State::Done;
      break;
    case State::Done:
      break;
    }
    candidate.received.clear();
  }
  if (candidate.opening.purpose != meetPurpose)
    guests.emplace_back();
  Guest &guest = guests.back();
  guest.socket = std::move(candidate.socket);
  guest.socket.tune();
  guest.process = candidate.opening.process;
  guest.purpose = candidate.opening.purpose;
}

std::optional<Reception::Guest> Reception::next(Deadline deadline,
                                                const Watch &watch) {
  while (guests.empty()) {
    Deadline until = deadline;
    std::vector<pollfd> entries{{listener.get(), POLLIN, 0}};
    for (const Candidate &candidate : candidates) {
      entries.push_back({candidate.socket.get(), POLLIN, 0});
      until = std::min(until, candidate.deadline);
    }
    size_t watched = entries.size();
    watch.ask(entries);
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    int count =
        poll(entries.data(), entries.size(),
             static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000)));
    if (count < 0 && errno != EINTR)
      failIO("poll");
    if (count < 0)
      continue;
    watch.check(entries.data() + watched);
    Deadline now = Clock::now();
    for (size_t i = 0; i < candidates.size(); ++i) {
      Candidate &candidate = candidates[i];
      try {
        if (entries[i + 1].revents)
          advance(candidate);
      } catch (const Error &) {
        // Whatever is wrong with it costs this connection alone.
        candidate.state = Candidate::State::Done;
      }
      if (candidate.state != Candidate::State::Done &&
          now >= candidate.deadline) {
        ++strangers;
        candidate.state = Candidate::State::Done;
      }
    }
    std::erase_if(candidates, [](const Candidate &candidate) {
      return candidate.state == Candidate::State::Done;
    });
    if (entries[0].revents)
      acceptSome();
    // A flood of connections must not hold up the end.
    if (guests.empty() && now >= deadline)
      return std::nullopt;
  }
  Guest guest = std::move(guests.front());
  guests.pop_front();
  return guest;
}

std::string Reception::describeRefused() const {
  std::string text;
  if (withoutSecret)
    text = fmt::format(
        "{} connections did not know the job's secret (PP_SECRET,"
        " --secret-file){}{}",
        withoutSecret, lastWithoutSecret.empty() ? "" : ", the last from ",
        lastWithoutSecret);
  if (strangers)
    text += fmt::format("{}{} connections were not from a process of this "
                        "program",
                        text.empty() ? "" : "; ", strangers);
  return text;
}
