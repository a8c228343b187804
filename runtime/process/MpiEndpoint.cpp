//===- MpiEndpoint.cpp ----------------------------------------------------===//
#include "process/MpiEndpoint.h"
#include "process/MpiLooks.h"
#include "process/MpiTunnel.h"
#include "process/Secret.h"
#include "support/Plugin.h"
#include "support/Thread.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

using namespace pp::runtime;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

/// Up to this, a message goes in pieces that MPI sends without asking for their
/// place, which it would have to keep in memory of its own if they came before
/// they are expected; above, in others.
static constexpr uint64_t mostUnasked = 32 << 20, askedPieceBytes = 8 << 20;
/// From this on, a message has left only when its receive has been started:
/// others would follow it into MPI's memory, as many as its sender makes.
static constexpr uint64_t leastMatched = 64 << 10;
/// For what has still to leave at the end, and for operations to end.
static constexpr microseconds patience(1'000'000);
/// For the others to leave too.
static constexpr microseconds leavePatience(20'000'000);
/// For MPI_Finalize, when all leave.
static constexpr microseconds closePatience(2'000'000);

const pp_mpi_table &MpiEndpoint::loadPlugin(const std::string &path) {
  static constexpr PluginKind kind = {
      "MPI",
      "libpp_mpi.so",
      "PP_MPI_PLUGIN",
      "scripts/build-mpi-plugin",
      PP_MPI_PLUGIN_SYMBOL,
      PP_MPI_ABI_VERSION,
  };
  return *static_cast<const pp_mpi_table *>(openPlugin(kind, path));
}

struct MpiEndpoint::Joining {
  std::mutex mutex;
  std::condition_variable changed;
  bool isDone = false, isGivenUp = false;
  std::string fault;
  pp_mpi_job *job = nullptr;
  pp_mpi_facts facts{};
};

MpiEndpoint::MpiEndpoint(const pp_mpi_table &table, const Launch &launch,
                         double joinSeconds)
    : table(table), self(launch.process), processes(launch.processes) {
  std::string name;
  for (uint8_t byte : makeNonce())
    name += fmt::format("{:02x}", byte);
  address = fmt::format("unix:pp-mpi-{}-{}", geteuid(), name);
  wakeUp = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakeUp < 0)
    failIO("eventfd");
  tunnel = std::make_unique<MpiTunnel>(*this);
  try {
    join(launch, joinSeconds);
  } catch (const Error &) {
    close(wakeUp);
    throw;
  }
}

void MpiEndpoint::join(const Launch &launch, double joinSeconds) {
  auto joining = std::make_shared<Joining>();
  thread = startThread("MPI", [this, joining, launch, functions = &table] {
    // Whoever has given up is no more when it returns.
    pp_mpi_error error{};
    pp_mpi_job *newJob = nullptr;
    pp_mpi_facts newFacts{};
    MpiLooks looks;
    looks.beforeStart();
    bool works =
        functions->open(launch.job.c_str(), launch.process, launch.processes,
                        &newJob, &newFacts, &error) == 0;
    looks.afterStart();
    {
      std::lock_guard<std::mutex> lock(joining->mutex);
      if (joining->isGivenUp)
        return;
      joining->isDone = true;
      joining->job = newJob;
      joining->facts = newFacts;
      if (!works)
        joining->fault = error.text;
      else if (newFacts.process != self || newFacts.processes != processes)
        joining->fault = fmt::format(
            "{} says process {} of {}, but MPI ({}) says process {} of {}: "
            "the plugin was built with another MPI than the launcher's, or "
            "the launcher starts no jobs of MPI (Slurm: srun --mpi=pmix)",
            launch.launcher, self, processes, newFacts.library,
            newFacts.process, newFacts.processes);
      job = newJob;
      facts = newFacts;
      library = facts.library;
    }
    joining->changed.notify_all();
    if (!joining->fault.empty())
      return;
    std::shared_ptr<Leaving> kept = leaving;
    run(looks);
    // The endpoint may be no more.
    std::lock_guard<std::mutex> lock(kept->mutex);
    kept->isOver = true;
    kept->changed.notify_all();
  });
  std::unique_lock<std::mutex> lock(joining->mutex);
  if (!joining->changed.wait_for(lock,
                                 std::chrono::duration<double>(joinSeconds),
                                 [&] { return joining->isDone; })) {
    joining->isGivenUp = true;
    thread.detach();
    throw Error(ErrorKind::IO,
                fmt::format("process {} of {}: the others did not join the MPI "
                            "job within {:g} s (--join-timeout): all need the "
                            "same --transport, and the MPI plugin",
                            self, processes, joinSeconds));
  }
  lock.unlock();
  if (joining->fault.empty())
    return;
  thread.join();
  throw Error(ErrorKind::Usage, fmt::format("MPI: {}", joining->fault));
}

MpiEndpoint::~MpiEndpoint() {
  isStopping = true;
  wake();
  std::unique_lock<std::mutex> lock(leaving->mutex);
  leaving->changed.wait(lock,
                        [&] { return leaving->isClosing || leaving->isOver; });
  // MPICH 4.0 over UCX and TCP may wait for ever for the end of a connection,
  // when all messages have come and everybody leaves.
  bool isOver = leaving->changed.wait_for(lock, closePatience,
                                          [&] { return leaving->isOver; });
  lock.unlock();
  if (isOver) {
    thread.join();
  } else {
    thread.detach();
    // What the libraries do at an orderly end must not meet the thread.
    on_exit(
        [](int status, void *) {
          std::fflush(nullptr);
          std::_Exit(status);
        },
        nullptr);
  }
  close(wakeUp);
}

void MpiEndpoint::wake() noexcept {
  uint64_t one = 1;
  (void)!write(wakeUp, &one, sizeof(one));
}

void MpiEndpoint::watch(const std::map<unsigned, int64_t> &pids) {
  tunnel->watch(pids);
}

Socket MpiEndpoint::connect(unsigned peer) { return tunnel->connect(peer); }

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void MpiEndpoint::start(MpiOperation &operation) {
  operation.isCancelled = false;
  operation.error = nullptr;
  operation.isRunning = true;
  if (operation.isSend && sending++ == 0)
    wake();
  if (facts.threads)
    return startPieces(operation);
  {
    std::lock_guard<std::mutex> lock(mutex);
    toStart.push_back(&operation);
  }
  wake();
}

std::vector<MpiEndpoint::Piece>
MpiEndpoint::makePieces(MpiOperation &operation) {
  std::vector<Piece> made;
  uint64_t most = facts.most_bytes, begun = 0;
  const bool isLong = operation.bytes >= leastMatched;
  if (!operation.isUpTo)
    most = std::min(most, operation.bytes <= mostUnasked ? facts.piece_bytes
                                                         : askedPieceBytes);
  do {
    uint64_t bytes = std::min(operation.bytes - begun, most);
    Piece piece{0, &operation, bytes};
    char *data = operation.data + begun;
    pp_mpi_error fault{};
    int32_t code =
        operation.isSend
            ? table.send(job, operation.peer, operation.tag, data, bytes,
                         begun == 0 && isLong, &piece.request, &fault)
            : table.receive(job, operation.peer, operation.tag, data, bytes,
                            &piece.request, &fault);
    if (code) {
      operation.error = std::make_exception_ptr(
          Error(ErrorKind::IO, fmt::format("MPI: {}", fault.text)));
      break;
    }
    made.push_back(piece);
    begun += bytes;
  } while (begun < operation.bytes);
  return made;
}

void MpiEndpoint::startPieces(MpiOperation &operation) {
  operation.hasBegun = false;
  std::vector<Piece> made = makePieces(operation);
  if (made.empty()) {
    // It ends as if a piece had failed.
    if (operation.isSend)
      --sending;
    operation.isRunning = false;
    operation.onEnd(operation.error);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex);
  operation.piecesLeft = static_cast<unsigned>(made.size());
  started.insert(started.end(), made.begin(), made.end());
}

void MpiEndpoint::take(const pp_mpi_ended &end,
                       std::vector<MpiOperation *> &finished) {
  const Piece &piece = pieces[end.index];
  MpiOperation &operation = *piece.operation;
  if (end.is_failed && !operation.isCancelled)
    operation.error = std::make_exception_ptr(
        Error(ErrorKind::IO, fmt::format("MPI: {}", error.text)));
  if (!operation.isSend && !operation.isUpTo && !operation.isCancelled &&
      !end.is_failed && end.bytes != piece.bytes)
    operation.error = std::make_exception_ptr(
        Error(ErrorKind::Internal,
              fmt::format("process {} sent {} bytes where {} were expected",
                          operation.peer, end.bytes, piece.bytes)));
  if (operation.isUpTo) {
    operation.from = end.peer;
    operation.received = end.bytes;
  }
  --operation.piecesLeft;
  piecesReceived += !operation.isSend;
  bool isValue = !operation.isSend && !operation.isUpTo;
  if (isValue && !std::exchange(operation.hasBegun, true))
    ++receiving;
  if (operation.piecesLeft != 0)
    return;
  if (isValue)
    --receiving;
  finished.push_back(&operation);
}

bool MpiEndpoint::poll() {
  std::vector<MpiOperation *> finished;
  if (isFrozen)
    return false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    pieces.insert(pieces.end(), started.begin(), started.end());
    started.clear();
  }
  if (cancelled)
    for (Piece &piece : pieces)
      if (piece.operation->isCancelled && !piece.isCancelled) {
        piece.isCancelled = true;
        table.cancel(job, piece.request, &error);
      }
  requests.clear();
  for (const Piece &piece : pieces)
    requests.push_back(piece.request);
  ended.resize(pieces.size());
  uint32_t count = 0;
  if (table.test(job, static_cast<uint32_t>(requests.size()), requests.data(),
                 ended.data(), &count, &error)) {
    // Nothing will ever end any more.
    for (Piece &piece : pieces)
      if (piece.operation->piecesLeft) {
        piece.operation->piecesLeft = 0;
        piece.operation->error = std::make_exception_ptr(
            Error(ErrorKind::IO, fmt::format("MPI: {}", error.text)));
        finished.push_back(piece.operation);
      }
    pieces.clear();
    isFrozen = true;
  }
  for (uint32_t i = 0; i < count; ++i)
    take(ended[i], finished);
  for (uint32_t i = 0; i < count; ++i)
    pieces[ended[i].index].operation = nullptr;
  std::erase_if(pieces, [](const Piece &piece) { return !piece.operation; });
  for (MpiOperation *operation : finished) {
    if (operation->isSend)
      --sending;
    bool isWanted = !operation->isCancelled;
    std::exception_ptr fault = operation->error;
    operation->isRunning = false;
    // May start it again, or end it for good.
    if (isWanted)
      operation->onEnd(fault);
  }
  // While a rank computes, pieces of what it does not wait for are no reason to
  // look more often.
  return waiting ? count > 0 : !finished.empty();
}

void MpiEndpoint::help() {
  if (!facts.threads)
    return;
  std::unique_lock<std::mutex> lock(progressing, std::try_to_lock);
  if (lock)
    poll();
}

MpiEndpoint::Waiting::Waiting(MpiEndpoint &endpoint) : endpoint(endpoint) {
  if (endpoint.waiting++ == 0)
    endpoint.wake();
}

bool MpiEndpoint::cancel(std::span<MpiOperation *const> operations) {
  for (MpiOperation *operation : operations)
    operation->isCancelled = true;
  ++cancelled;
  wake();
  auto isOver = [&] {
    return std::ranges::none_of(operations, [](const MpiOperation *operation) {
      return operation->isRunning.load();
    });
  };
  Deadline deadline = Clock::now() + patience;
  while (!isOver() && Clock::now() < deadline && !isFrozen)
    std::this_thread::sleep_for(microseconds(100));
  --cancelled;
  // Who tests now must have left before the memory goes.
  std::lock_guard<std::mutex> lock(progressing);
  bool isGood = isOver();
  isFrozen = isFrozen || !isGood;
  return isGood;
}

uint32_t MpiEndpoint::reserveTags(unsigned peer, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex);
  uint32_t first = tunnelTag + 1;
  for (const auto &[place, size] : tags)
    if (place.first == peer && place.second - first < count)
      first = place.second + size;
    else if (place.first == peer)
      break;
  if (uint64_t(first) + count > uint64_t(facts.most_tag) + 1)
    failUsage("MPI has tags up to {}, and this program needs more",
              facts.most_tag);
  if (count)
    tags[{peer, first}] = count;
  return first;
}

void MpiEndpoint::releaseTags(unsigned peer, uint32_t first) {
  std::lock_guard<std::mutex> lock(mutex);
  tags.erase({peer, first});
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

bool MpiEndpoint::work() {
  std::lock_guard<std::mutex> lock(progressing);
  std::vector<MpiOperation *> fresh;
  {
    std::lock_guard<std::mutex> lock(mutex);
    fresh.swap(toStart);
  }
  for (MpiOperation *operation : fresh)
    startPieces(*operation);
  uint64_t before = piecesReceived;
  bool hasEnded = poll();
  haveCome = piecesReceived != before;
  return hasEnded || !fresh.empty();
}

void MpiEndpoint::run(MpiLooks &looks) {
  // The pauses are shorter than what a timer may be late by default.
  prctl(PR_SET_TIMERSLACK, 1000);
  askForShortTurns();
  tunnel->start();
  std::vector<pollfd> entries;
  Deadline stopAt = Deadline::max();
  bool hasSaidGoodbye = false;
  while (true) {
    bool isActive = work();
    looks.note(haveCome);
    isActive = tunnel->step() || isActive;
    Deadline now = Clock::now();
    if (isStopping) {
      if (stopAt == Deadline::max())
        stopAt = now + (isFinished ? leavePatience : patience);
      bool isIdle = tunnel->isIdle();
      if (isIdle && isFinished && !hasSaidGoodbye) {
        tunnel->sayGoodbye();
        hasSaidGoodbye = true;
        continue;
      }
      if ((isIdle && (!isFinished || tunnel->haveAllLeft())) || now >= stopAt ||
          isFrozen)
        break;
    }
    if (isActive) {
      looks.restart();
      continue;
    }
    entries.assign(1, {wakeUp, POLLIN, 0});
    tunnel->ask(entries);
    if (looks.wait(entries, waiting                ? MpiLooks::Pace::Awaited
                            : sending || receiving ? MpiLooks::Pace::Moving
                                                   : MpiLooks::Pace::Idle)) {
      uint64_t count = 0;
      (void)!read(wakeUp, &count, sizeof(count));
      looks.restart();
    }
  }
  leave();
}

void MpiEndpoint::leave() {
  if (isFrozen)
    return;
  std::vector<MpiOperation *> operations = tunnel->operations();
  for (MpiOperation *operation : operations)
    operation->isCancelled = true;
  ++cancelled;
  Deadline deadline = Clock::now() + patience;
  auto isOver = [&] {
    return std::ranges::none_of(operations, [](const MpiOperation *operation) {
      return operation->isRunning.load();
    });
  };
  while (!isOver() && Clock::now() < deadline && !isFrozen) {
    work();
    std::this_thread::sleep_for(microseconds(20));
  }
  // Whoever has failed must not wait for the others.
  if (!tunnel->haveAllLeft() || !isOver() || isFrozen)
    return;
  {
    std::lock_guard<std::mutex> lock(leaving->mutex);
    leaving->isClosing = true;
  }
  leaving->changed.notify_all();
  pp_mpi_error fault{};
  table.close(job, &fault);
}
