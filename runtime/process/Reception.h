//===- Reception.h - Lets in who knows the secret -------------------------===//
#ifndef PP_RUNTIME_PROCESS_RECEPTION_H
#define PP_RUNTIME_PROCESS_RECEPTION_H

#include "process/Handshake.h"

#include <deque>
#include <optional>

namespace pp::runtime {

/// Accepts connections and shakes hands with many of them at a time. A
/// connection that is silent, slow or talks nonsense holds up no other. Until a
/// connection has proved that it knows the secret, it gets a few dozen bytes of
/// memory, some seconds, and one of a limited number of places. If all places
/// are taken, the oldest such connection is closed; its process may connect
/// again.
///
/// One thread.
class Reception {
public:
  /// A connection whose other side knows the secret.
  struct Guest {
    Socket socket;
    uint32_t process = 0, purpose = 0; // as it says
    std::string hello;                 // what it says to meet, for meetPurpose
  };

  /// Listens at `address`; see Listener. `process` is this one.
  Reception(const std::string &address, Credentials credentials,
            uint32_t process);

  unsigned getPort() const { return listener.getPort(); }
  /// From then on, only who knows the session too is let in.
  void setSession(const std::string &session) { credentials.session = session; }

  /// The next guest; nothing at `deadline`. Throws ProcessGone.
  std::optional<Guest> next(Deadline deadline, const Watch &watch);

  /// For a message: how many were turned away and why; empty: none.
  std::string describeRefused() const;

private:
  /// A connection on its way to be a guest.
  struct Candidate {
    enum class State { Opening, Proof, HelloSize, Hello, Done };
    Socket socket;
    std::string from; // its address
    Deadline deadline;
    State state = State::Opening;
    std::string received; // of what comes in this state
    Opening opening{};
    Challenge challenge{};
    uint32_t helloBytes = 0;
  };

  void acceptSome();
  /// Goes on with what has come. Throws Error where it is refused.
  void advance(Candidate &candidate);
  size_t expectedBytes(const Candidate &candidate) const;
  void checkProof(Candidate &candidate);

  Listener listener;
  Credentials credentials;
  uint32_t process;
  std::deque<Candidate> candidates; // the oldest first
  std::deque<Guest> guests;
  unsigned strangers = 0, withoutSecret = 0;
  std::string lastWithoutSecret;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_RECEPTION_H
