//===- Handshake.cpp - The side that connects -----------------------------===//
#include "process/Handshake.h"
#include "process/MpiEndpoint.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;

static std::string_view asText(const void *data, size_t bytes) {
  return {static_cast<const char *>(data), bytes};
}

Proof pp::runtime::proofOf(const Credentials &credentials, bool isOpener,
                           uint32_t acceptor, const Opening &opening,
                           const Challenge &challenge) {
  // The role keeps one side from sending back what the other has sent, the
  // rest ties the proof to this connection.
  return prove(credentials.secret,
               {isOpener ? "pp-mlir opens" : "pp-mlir accepts",
                credentials.session, asText(&acceptor, sizeof(acceptor)),
                asText(&opening, sizeof(opening)),
                asText(&challenge, sizeof(challenge))});
}

/// Receives in slices, between which it looks after the others.
static void receiveWatched(Socket &socket, void *data, uint64_t bytes,
                           Deadline deadline, const Watch &watch) {
  while (!socket.waitToReceive(
      std::min(deadline, Clock::now() + std::chrono::milliseconds(100)))) {
    watch.check();
    if (Clock::now() >= deadline)
      break;
  }
  socket.receive(data, bytes, deadline);
}

static void shakeHands(Socket &socket, const std::string &address,
                       const Credentials &credentials, uint32_t acceptor,
                       uint32_t process, uint32_t purpose, Deadline deadline,
                       const Watch &watch) {
  if (!socket.isSameUser())
    failUsage("'{}': a process of another user listens there", address);
  Opening opening{handshakeMagic, process, purpose, makeNonce()};
  socket.send(&opening, sizeof(opening), deadline);
  Challenge challenge{};
  receiveWatched(socket, &challenge, sizeof(challenge), deadline, watch);
  if (challenge.magic != handshakeMagic)
    throw Error(ErrorKind::IO, "the other side is not a pipeline binary");
  Proof proof =
      proofOf(credentials, /*isOpener=*/true, acceptor, opening, challenge);
  socket.send(proof.data(), proof.size(), deadline);
  Answer answer{};
  receiveWatched(socket, &answer, sizeof(answer), deadline, watch);
  if (answer.verdict != Answer::Accepted ||
      !isEqual(answer.proof, proofOf(credentials, /*isOpener=*/false, acceptor,
                                     opening, challenge)))
    failUsage("'{}': process {}, which listens there, has another secret than "
              "process {} (PP_SECRET, --secret-file)",
              address, acceptor, process);
}

Socket pp::runtime::connectToProcess(const std::string &address,
                                     const Credentials &credentials,
                                     uint32_t acceptor, uint32_t process,
                                     uint32_t purpose, Deadline deadline,
                                     const Watch &watch, MpiEndpoint *mpi) {
  while (true) {
    try {
      Socket socket =
          mpi ? mpi->connect(acceptor)
              : connectTo(
                    address,
                    std::min(deadline, Clock::now() + std::chrono::seconds(1)));
      shakeHands(socket, address, credentials, acceptor, process, purpose,
                 deadline, watch);
      socket.tune();
      return socket;
    } catch (const ProcessGone &) {
      throw;
    } catch (const Error &error) {
      // Nobody listens yet, or somebody else, or one that is going away.
      if (error.getKind() != ErrorKind::IO)
        throw;
      if (Clock::now() >= deadline)
        throw Error(ErrorKind::IO,
                    fmt::format("process {}: no answer at '{}': {}", process,
                                address, error.what()));
    }
    watch.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void pp::runtime::sendText(Socket &socket, const std::string &text,
                           Deadline deadline) {
  uint32_t bytes = static_cast<uint32_t>(text.size());
  std::string message(asText(&bytes, sizeof(bytes)));
  message += text;
  socket.send(message.data(), message.size(), deadline);
}

std::string pp::runtime::receiveText(Socket &socket, uint32_t limit,
                                     Deadline deadline) {
  uint32_t bytes = 0;
  socket.receive(&bytes, sizeof(bytes), deadline);
  if (bytes > limit)
    throw Error(ErrorKind::IO, fmt::format("a message of {} bytes, where at "
                                           "most {} are expected",
                                           bytes, limit));
  std::string text(bytes, '\0');
  socket.receive(text.data(), text.size(), deadline);
  return text;
}
