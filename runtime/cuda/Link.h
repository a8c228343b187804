//===- Link.h - One direction between two GPUs, by NCCL -------------------===//
//
// A communicator of two, for one direction of one pair of ranks: so no transfer
// waits behind one of another pair, and none crosses another in a communicator.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_LINK_H
#define PP_RUNTIME_CUDA_LINK_H

#include "Context.h"
#include "Nccl.h"

#include <atomic>
#include <mutex>

namespace pp::cuda {

/// All calls to NCCL return at once and are polled, so that abort() finds no
/// other thread inside.
class Link {
public:
  /// Starts to open it. Rank 0 of the communicator sends.
  Link(Context &context, const Nccl &nccl, const ncclUniqueId &id,
       bool isSender);
  ~Link();
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  /// Throws Failure(System).
  bool isOpen();
  void send(CUstream stream, const void *data, uint64_t bytes);
  void receive(CUstream stream, void *data, uint64_t bytes);
  void abort() noexcept;

private:
  template <typename Call> void give(const char *what, Call call);

  Context &context;
  const Nccl &nccl;
  std::mutex mutex; // of calls to NCCL
  ncclComm_t communicator = nullptr;
  int other;
};

/// Sends a value from the GPU to itself through a communicator of one. Throws
/// Failure.
void checkLinks(Context &context, const Nccl &nccl);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_LINK_H
