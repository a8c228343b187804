//===- ThreadBlock.h - The threads of a GPU's block on one thread ---------===//
//
// A kernel with barriers and shuffles runs with a fiber per thread. Each fiber
// runs until it waits; a shuffle goes on when the 32 threads of the warp are
// there, a barrier when all threads of the block are.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_MOCK_THREADBLOCK_H
#define PP_RUNTIME_MOCK_THREADBLOCK_H

#include "mock/Fiber.h"
#include "pprt/pprt.h"

#include <cstdint>
#include <deque>
#include <string>

namespace pp::runtime {

/// Runs one block at a time, in one thread of the host.
class ThreadBlock {
public:
  static constexpr int64_t warpSize = 32;

  ThreadBlock() = default;
  ThreadBlock(const ThreadBlock &) = delete;
  ThreadBlock &operator=(const ThreadBlock &) = delete;

  /// The one of the calling thread; keeps its fibers until the thread ends.
  static ThreadBlock &ofThisThread();

  /// Runs the threads of `block`. Between two barriers they run one after the
  /// other, in turns from the first and from the last on, so that a missing
  /// barrier shows. Returns what went wrong, or an empty text: threads that
  /// wait for others which never come, or that wait at different places.
  std::string run(const pp_mock_kernel &kernel, void *const *arguments,
                  void *shared, int64_t block, int64_t threads);

  // In a thread of the block: see pprt.h.
  void waitForBlock(int32_t place);
  int32_t shuffle(int32_t bits, int32_t mask, int32_t place);

private:
  enum class State { Ready, Barrier, Shuffle, Done };
  struct Thread {
    explicit Thread(std::function<void()> work) : fiber(std::move(work)) {}
    Fiber fiber;
    State state = State::Ready;
    int32_t place = 0;
    int32_t bits = 0, mask = 0; // of a shuffle; `bits` also its result
  };

  void addThread();
  void runThread();
  void wait(State state, int32_t place);
  std::string runWarp(int64_t first, bool backwards);
  std::string exchange(int64_t first, int64_t size);
  std::string passBarrier(bool &isDone);

  std::deque<Thread> threads; // some may be idle
  // Of the block that runs:
  const pp_mock_kernel *kernel = nullptr;
  void *const *arguments = nullptr;
  void *shared = nullptr;
  int64_t block = 0, count = 0;
  int64_t current = 0; // the thread that runs
};

} // namespace pp::runtime

#endif // PP_RUNTIME_MOCK_THREADBLOCK_H
