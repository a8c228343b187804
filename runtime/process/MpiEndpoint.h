//===- MpiEndpoint.h - This process's place in an MPI job -----------------===//
//
// One thread owns MPI: it joins the job, and makes all messages go on, whatever
// the others do. Where MPI takes calls from several threads, those of ranks
// start their messages themselves, and look after them while they wait.
//
// Values go from and into the memory that an operation names. What else the
// processes tell each other goes through MpiTunnel, so that no port is opened.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PROCESS_MPIENDPOINT_H
#define PP_RUNTIME_PROCESS_MPIENDPOINT_H

#include "pprt/mpi.h"
#include "process/Launch.h"
#include "support/Socket.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace pp::runtime {

class MpiLooks;
class MpiTunnel;

/// A message to or from a process. Its place in memory must not move, nor be
/// used otherwise, until it has ended.
///
/// Long ones are cut into pieces, of which a receiver expects some at a time:
/// as many as come within 10 ms.
/// MPI sends a long message when its receiver has said where to, and what a
/// receiver says waits behind all that goes the same way. So where two long
/// messages meet, one would wait for the end of the other:
///
///   whole   here   ask ▒▒▒ 8 MB ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ "to here"
///           there   ask   "to here" .................... ▒▒▒ 8 MB ▒▒▒▒▒▒▒▒▒
///   pieces  here   ask ▒▒▒▒▒ "to here" ▒▒▒ "to here" ▒▒▒ "to here" ▒▒▒
///           there   ask   "to here" .. ▒▒▒▒ "to here" ▒▒▒ "to here" ▒▒▒
///
class MpiOperation {
public:
  bool isSend = false;
  unsigned peer = 0; ///< PP_MPI_ANY: to receive from any
  uint32_t tag = 0;
  char *data = nullptr;
  uint64_t bytes = 0;
  /// Less may come than `bytes`, in one piece; also at the sender.
  bool isUpTo = false;
  /// Called once by any thread when the message has left or come, unless it is
  /// cancelled first: null, or what went wrong. Must not wait.
  std::function<void(const std::exception_ptr &)> onEnd;

  // Of one with `isUpTo`, when it has ended:
  unsigned from = 0;
  uint64_t received = 0;

private:
  friend class MpiEndpoint;
  std::atomic<bool> isRunning{false};
  std::atomic<bool> isCancelled{false};
  // Of the thread that tests: pieces that MPI has, and whether some have come.
  unsigned piecesLeft = 0;
  bool hasBegun = false;
  std::exception_ptr error;
};

class MpiEndpoint {
public:
  /// The functions of libpp_mpi.so. Throws Error(Usage) where it is missing.
  static const pp_mpi_table &loadPlugin(const std::string &path = "");

  /// Joins the job that `launch` says. Throws Error(Usage) where MPI says
  /// something else than the launcher, Error(IO) where the others do not come
  /// within `joinSeconds`.
  MpiEndpoint(const pp_mpi_table &table, const Launch &launch,
              double joinSeconds);
  /// Leaves the job, together with the others after finish(); else only this
  /// process's memory is safe from MPI.
  ~MpiEndpoint();
  MpiEndpoint(const MpiEndpoint &) = delete;
  MpiEndpoint &operator=(const MpiEndpoint &) = delete;

  const std::string &getLibrary() const { return library; }
  unsigned process() const { return self; }
  unsigned size() const { return processes; }

  /// Of one message.
  uint64_t mostBytes() const { return facts.most_bytes; }

  // Values. Any thread.

  /// Starts a message; `operation` has ended before. Throws Error(IO).
  void start(MpiOperation &operation);
  /// What a waiting thread does instead of nothing.
  void help();
  /// While one lives, a thread sleeps until a message ends.
  class Waiting {
  public:
    explicit Waiting(MpiEndpoint &endpoint);
    ~Waiting() { --endpoint.waiting; }

  private:
    MpiEndpoint &endpoint;
  };
  /// Ends operations whatever has become of them. Returns false where MPI does
  /// not let go of their memory; then it makes no message go on any more.
  bool cancel(std::span<MpiOperation *const> operations);
  /// A number of tags for messages between this process and `peer`, which calls
  /// it too, in the same order; returns the first. Throws Error(Usage) where
  /// MPI has no more.
  uint32_t reserveTags(unsigned peer, uint32_t count);
  void releaseTags(unsigned peer, uint32_t first);

  // Connections, instead of those of the network. Any thread.

  /// Where a Listener of this process gets them.
  const std::string &getAddress() const { return address; }
  /// A connection to the listener of another process; it ends at once where
  /// there is none.
  Socket connect(unsigned process);

  /// Ends the connections to a process of this machine when it dies, here and,
  /// where that is this process's business, in others. MPI need not tell.
  /// `pids` by process.
  void watch(const std::map<unsigned, int64_t> &pids);

  /// All processes leave together: none has failed.
  void finish() { isFinished = true; }

private:
  friend class MpiTunnel;
  static constexpr uint32_t tunnelTag = 0;

  /// A request and its operation.
  struct Piece {
    pp_mpi_request request;
    MpiOperation *operation;
    uint64_t bytes;
    bool isCancelled = false;
  };
  /// What the thread that joins and the one that waits for it both know.
  struct Joining;
  /// The same of leaving; outlives an endpoint whose MPI does not let go.
  struct Leaving {
    std::mutex mutex;
    std::condition_variable changed;
    bool isClosing = false, isOver = false;
  };

  void join(const Launch &launch, double joinSeconds);
  void run(MpiLooks &looks);
  /// What the thread does again and again; returns whether it did anything.
  bool work();
  /// Leaves the job, if all do.
  void leave();
  /// The pieces of a message.
  void startPieces(MpiOperation &operation);
  /// All of them. Their requests are made; an error is that of the operation.
  std::vector<Piece> makePieces(MpiOperation &operation);
  /// Tests all; returns whether one has ended. By one thread at a time.
  bool poll();
  void take(const pp_mpi_ended &ended, std::vector<MpiOperation *> &finished);
  void wake() noexcept;

  const pp_mpi_table &table;
  pp_mpi_job *job = nullptr;
  pp_mpi_facts facts{};
  std::string library, address;
  unsigned self, processes;
  std::thread thread;
  int wakeUp = -1; // an eventfd
  std::atomic<bool> isStopping{false}, isFinished{false}, isFrozen{false};
  std::atomic<unsigned> waiting{0}, sending{0}, cancelled{0};
  /// Messages of which some pieces have come; of the thread that tests.
  std::atomic<unsigned> receiving{0};

  std::mutex progressing;               // who calls `test`; before `mutex`
  std::vector<Piece> pieces;            // under `progressing`
  std::vector<pp_mpi_request> requests; // of `pieces`, to test
  std::vector<pp_mpi_ended> ended;
  pp_mpi_error error{};
  uint64_t piecesReceived = 0;
  bool haveCome = false; // some at the thread's last look

  std::mutex mutex;
  // Under `mutex`:
  std::vector<Piece> started;          // not yet among `pieces`
  std::vector<MpiOperation *> toStart; // by the thread
  std::map<std::pair<unsigned, uint32_t>, uint32_t> tags; // peer, first: count

  std::unique_ptr<MpiTunnel> tunnel;
  std::shared_ptr<Leaving> leaving = std::make_shared<Leaving>();
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_MPIENDPOINT_H
