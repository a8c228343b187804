//===- DeferredHostWork.h - Done once a stream gets somewhere -------------===//
//
// A stream cannot write to pageable memory without making the host wait, nor
// read the host's clock. So timestamps and copies to the host end in pinned
// memory and events, and whoever waits for a later event brings them home:
//
//   stream    ──copy to pinned──time event──record(e)──▶
//   deferred      entry 0         entry 1      position 2
//   host                              synchronize(e): resolve(2)
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_DEFERREDHOSTWORK_H
#define PP_RUNTIME_CUDA_DEFERREDHOSTWORK_H

#include "Context.h"

#include <deque>
#include <vector>

namespace pp::cuda {

/// What the host has yet to do for one stream. Any thread may call its
/// functions.
class DeferredHostWork {
public:
  /// Waits for the stream, to compare its clock with the host's.
  DeferredHostWork(Context &context, CUstream stream);
  ~DeferredHostWork();
  DeferredHostWork(const DeferredHostWork &) = delete;
  DeferredHostWork &operator=(const DeferredHostWork &) = delete;

  /// Records an event whose steady time in nanoseconds goes to `to`.
  void addTimestamp(CUstream stream, int64_t &to);
  /// Copies `bytes` from a pinned block to `to` (nowhere if null), and gives
  /// the block back.
  void addPinned(void *block, void *to, uint64_t bytes);

  /// The number of entries so far.
  uint64_t getPosition();
  /// Does what entries before `position` ask for; the stream has got there.
  void resolve(uint64_t position);

private:
  struct Entry {
    CUevent event = nullptr; // a timestamp
    int64_t *time = nullptr;
    void *block = nullptr; // or a copy
    void *to = nullptr;
    uint64_t bytes = 0;
  };
  CUevent takeEvent(const Driver &driver);
  void finish(const Entry &entry);

  Context &context;
  std::mutex mutex;
  std::deque<Entry> entries;
  uint64_t resolved = 0; // entries that are gone
  std::vector<CUevent> freeEvents;
  // Differences are exact only between near events, so each timestamp is
  // measured from the last one.
  CUevent last = nullptr;
  double lastNanoseconds = 0;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_DEFERREDHOSTWORK_H
