//===- FakeNccl.cpp - libnccl.so.2 between threads of one process ---------===//
//
// On the fake driver's streams, which run everything at once: a send and its
// receive pair up in the order of calls and are "in progress" until both are
// there. It refuses what NCCL refuses: a lone transfer to oneself, calls while
// one is in progress, communicators that were not asked not to block.
//
//===----------------------------------------------------------------------===//
#include <nccl.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace {

struct Transfer {
  void *data;
  size_t bytes;
  bool isDone = false;
};
struct Pipe {
  int ends = 0;
  std::deque<std::shared_ptr<Transfer>> sends, receives;
  bool isMismatched = false;
};

} // namespace

struct ncclComm {
  std::shared_ptr<Pipe> pipe;
  int ranks, rank;
  bool isOpen = false;
  std::shared_ptr<Transfer> current;
};

namespace {

std::mutex mutex; // of everything
std::map<std::string, std::shared_ptr<Pipe>> pipes;
unsigned identities = 0;
thread_local int groupDepth = 0;

void match(Pipe &pipe) {
  while (!pipe.sends.empty() && !pipe.receives.empty()) {
    Transfer &from = *pipe.sends.front(), &to = *pipe.receives.front();
    pipe.isMismatched |= from.bytes != to.bytes;
    if (!pipe.isMismatched)
      std::memcpy(to.data, from.data, from.bytes);
    from.isDone = to.isDone = true;
    pipe.sends.pop_front();
    pipe.receives.pop_front();
  }
}

ncclResult_t give(ncclComm_t comm, void *data, size_t bytes, int peer,
                  cudaStream_t stream, bool isSend) {
  std::lock_guard<std::mutex> lock(mutex);
  bool isSelf = comm->ranks == 1;
  // One that receives has rank 1, as Link says.
  if (!stream || peer >= comm->ranks || (isSelf && !groupDepth) ||
      (!isSelf && (isSend ? comm->rank != 0 : comm->rank != 1)))
    return ncclInvalidUsage;
  if (comm->current && !comm->current->isDone && !groupDepth)
    return ncclInvalidUsage;
  auto transfer = std::make_shared<Transfer>(Transfer{data, bytes, false});
  (isSend ? comm->pipe->sends : comm->pipe->receives).push_back(transfer);
  match(*comm->pipe);
  comm->current = transfer;
  return ncclInProgress;
}

/// Deletes a communicator. What it has in progress is withdrawn: its memory may
/// be gone when the other end comes.
void close(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(mutex);
  std::erase(comm->pipe->sends, comm->current);
  std::erase(comm->pipe->receives, comm->current);
  delete comm;
}

} // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::lock_guard<std::mutex> lock(mutex);
  std::memset(id, 0, sizeof(*id));
  std::string text = "fake " + std::to_string(++identities);
  std::memcpy(id, text.data(), text.size());
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "fake: invalid usage" : "fake: an error";
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  std::lock_guard<std::mutex> lock(mutex);
  if (config->blocking != 0 || rank >= ranks)
    return ncclInvalidArgument;
  std::shared_ptr<Pipe> &pipe = pipes[std::string(id.internal, sizeof(id))];
  if (!pipe)
    pipe = std::make_shared<Pipe>();
  ++pipe->ends;
  *comm = new ncclComm{pipe, ranks, rank, false, nullptr};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  std::lock_guard<std::mutex> lock(mutex);
  comm->isOpen |= comm->pipe->ends == comm->ranks;
  bool isDone = comm->isOpen && (!comm->current || comm->current->isDone);
  *state = comm->pipe->isMismatched ? ncclInternalError
           : isDone                 ? ncclSuccess
                                    : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclSend(const void *data, size_t bytes, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return give(comm, const_cast<void *>(data), bytes, peer, stream, true);
}
ncclResult_t ncclRecv(void *data, size_t bytes, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return give(comm, data, bytes, peer, stream, false);
}
ncclResult_t ncclGroupStart() {
  ++groupDepth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --groupDepth;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  close(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  close(comm);
  return ncclSuccess;
}

} // extern "C"
