//===- Link.cpp -----------------------------------------------------------===//
#include "Link.h"
#include "Failure.h"

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

using namespace pp::cuda;

static ncclConfig_t makeConfig() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // A waiting receive occupies as many multiprocessors as it has channels.
  config.maxCTAs = 2;
  return config;
}

Link::Link(Context &context, const Nccl &nccl, const ncclUniqueId &id,
           bool isSender)
    : context(context), nccl(nccl), other(isSender ? 1 : 0) {
  context.enter();
  ncclConfig_t config = makeConfig();
  nccl.check(nccl.ncclCommInitRankConfig(&communicator, 2, id, isSender ? 0 : 1,
                                         &config),
             "ncclCommInitRankConfig");
}

Link::~Link() {
  if (!communicator || !context.tryEnter())
    return;
  ncclResult_t state = nccl.ncclCommFinalize(communicator);
  // The other end finalizes too; one that has died does not.
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (state == ncclInProgress && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    nccl.ncclCommGetAsyncError(communicator, &state);
  }
  if (state == ncclSuccess)
    nccl.ncclCommDestroy(communicator);
  else
    nccl.ncclCommAbort(communicator);
}

bool Link::isOpen() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!communicator)
    return true;
  ncclResult_t state = ncclSuccess;
  nccl.check(nccl.ncclCommGetAsyncError(communicator, &state),
             "ncclCommGetAsyncError");
  nccl.check(state, "cannot open a link");
  return state == ncclSuccess;
}

template <typename Call> void Link::give(const char *what, Call call) {
  context.enter();
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!communicator)
      return;
    nccl.check(call(), what);
  }
  // The first transfer of a link connects its ends, which takes a while.
  for (auto pause = std::chrono::microseconds(1); !isOpen();
       pause = std::min(pause * 2, std::chrono::microseconds(1000)))
    std::this_thread::sleep_for(pause);
}

void Link::send(CUstream stream, const void *data, uint64_t bytes) {
  give("ncclSend", [&] {
    return nccl.ncclSend(data, bytes, ncclChar, other, communicator, stream);
  });
}

void Link::receive(CUstream stream, void *data, uint64_t bytes) {
  give("ncclRecv", [&] {
    return nccl.ncclRecv(data, bytes, ncclChar, other, communicator, stream);
  });
}

void Link::abort() noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  if (communicator && context.tryEnter())
    nccl.ncclCommAbort(communicator);
  communicator = nullptr;
}

void pp::cuda::checkLinks(Context &context, const Nccl &nccl) {
  const Driver &driver = context.enter();
  constexpr size_t bytes = 1 << 20;
  std::vector<unsigned char> sent(bytes), received(bytes);
  std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(3));
  auto *memory = static_cast<char *>(context.allocate(2 * bytes));
  CUstream stream = nullptr;
  ncclComm_t communicator = nullptr;
  auto clean = [&] {
    if (communicator)
      nccl.ncclCommAbort(communicator);
    if (stream)
      driver.cuStreamDestroy(stream);
    context.free(memory);
  };
  auto wait = [&] {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      nccl.check(nccl.ncclCommGetAsyncError(communicator, &state),
                 "ncclCommGetAsyncError");
      nccl.check(state, "a transfer");
    }
  };
  auto address = [](const void *pointer) {
    return reinterpret_cast<CUdeviceptr>(pointer);
  };
  try {
    ncclUniqueId id;
    nccl.check(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
    ncclConfig_t config = makeConfig();
    nccl.check(nccl.ncclCommInitRankConfig(&communicator, 1, id, 0, &config),
               "ncclCommInitRankConfig");
    wait();
    driver.check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
    driver.check(driver.cuMemcpyAsync(address(memory), address(sent.data()),
                                      bytes, stream),
                 "cuMemcpyAsync");
    // Alone, neither would find the other.
    nccl.check(nccl.ncclGroupStart(), "ncclGroupStart");
    nccl.check(nccl.ncclSend(memory, bytes, ncclChar, 0, communicator, stream),
               "ncclSend");
    nccl.check(
        nccl.ncclRecv(memory + bytes, bytes, ncclChar, 0, communicator, stream),
        "ncclRecv");
    nccl.check(nccl.ncclGroupEnd(), "ncclGroupEnd");
    wait();
    driver.check(driver.cuMemcpyAsync(address(received.data()),
                                      address(memory + bytes), bytes, stream),
                 "cuMemcpyAsync");
    driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  } catch (...) {
    clean();
    throw;
  }
  clean();
  if (sent != received)
    throw Failure(Failure::Internal, "NCCL: what came is not what was sent");
}
