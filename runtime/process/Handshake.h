//===- Handshake.h - Both sides of a connection prove who they are --------===//
//
// The first bytes of every connection between processes of a job. Each side
// chooses a nonce: a random number that is used once. Each side proves, with
// both nonces, that it knows the job's secret; the secret is not sent. The side
// that connected proves first, so that a stranger who connects learns nothing.
//
//   connects                       accepts
//   Opening: who, why, number ──▶
//                             ◀── Challenge: number
//   Proof of both numbers     ──▶
//                             ◀── Answer: proof of both numbers, or a refusal
//
// What follows is neither encrypted nor signed: it is as safe as the network
// is.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PROCESS_HANDSHAKE_H
#define PP_RUNTIME_PROCESS_HANDSHAKE_H

#include "process/Secret.h"
#include "process/Watch.h"
#include "support/Socket.h"

namespace pp::runtime {

class MpiEndpoint;

/// "PP-MLIR2": what is not a program of ours begins otherwise.
constexpr uint64_t handshakeMagic = 0x32'52'49'4c'4d'2d'50'50;

struct Opening {
  uint64_t magic;
  uint32_t process, purpose;
  std::array<uint8_t, 32> nonce;
};
struct Challenge {
  uint64_t magic;
  std::array<uint8_t, 32> nonce;
};
struct Answer {
  enum : uint32_t { Refused = 0, Accepted = 1 };
  uint32_t verdict;
  Proof proof;
};

/// What a connection is for. Those of ProcessGroup::connect() count from
/// firstFreePurpose.
constexpr uint32_t meetPurpose = 0, bulkPurpose = 1, alarmPurpose = 2,
                   firstFreePurpose = 3;

/// What all processes of a job know.
struct Credentials {
  std::string secret;
  /// Chosen by process 0 for one run; empty until it has told the others.
  std::string session;
};

/// The proof of one side: of the one that connects if `isOpener`, else of the
/// one that accepts, which is process `acceptor`.
Proof proofOf(const Credentials &credentials, bool isOpener, uint32_t acceptor,
              const Opening &opening, const Challenge &challenge);

/// Connects to a process, through `mpi` if there is one, and shakes hands with
/// it; tries again until `deadline` while nobody listens or the other side goes
/// away. Throws Error(Usage) where
/// the other side has another secret, Error(IO) at the deadline, ProcessGone.
Socket connectToProcess(const std::string &address,
                        const Credentials &credentials, uint32_t acceptor,
                        uint32_t process, uint32_t purpose, Deadline deadline,
                        const Watch &watch, MpiEndpoint *mpi = nullptr);

/// A message with its length before it. Throw Error(IO) at the deadline, or
/// where it is longer than `limit`.
void sendText(Socket &socket, const std::string &text, Deadline deadline);
std::string receiveText(Socket &socket, uint32_t limit, Deadline deadline);

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_HANDSHAKE_H
