//===- ThreadBlock.cpp ----------------------------------------------------===//
#include "mock/ThreadBlock.h"

#include <algorithm>
#include <fmt/format.h>

using namespace pp::runtime;

ThreadBlock &ThreadBlock::ofThisThread() {
  static thread_local ThreadBlock block;
  return block;
}

void ThreadBlock::addThread() {
  threads.emplace_back([this] { runThread(); });
}

void ThreadBlock::runThread() {
  kernel->run(arguments, shared, block, current);
  threads[current].state = State::Done;
}

void ThreadBlock::wait(State state, int32_t place) {
  Thread &thread = threads[current];
  thread.state = state;
  thread.place = place;
  thread.fiber.pause();
}

void ThreadBlock::waitForBlock(int32_t place) { wait(State::Barrier, place); }

int32_t ThreadBlock::shuffle(int32_t bits, int32_t mask, int32_t place) {
  Thread &thread = threads[current];
  thread.bits = bits;
  thread.mask = mask;
  wait(State::Shuffle, place);
  return thread.bits;
}

std::string ThreadBlock::run(const pp_mock_kernel &toRun,
                             void *const *toArguments, void *toShared,
                             int64_t number, int64_t size) {
  while (static_cast<int64_t>(threads.size()) < size)
    addThread();
  kernel = &toRun;
  arguments = toArguments;
  shared = toShared;
  block = number;
  count = size;
  for (int64_t i = 0; i < count; ++i)
    threads[i].state = State::Ready;

  std::string error;
  bool backwards = block % 2 != 0;
  for (bool isDone = false; error.empty() && !isDone; backwards = !backwards) {
    int64_t warps = (count + warpSize - 1) / warpSize;
    for (int64_t i = 0; error.empty() && i < warps; ++i)
      error = runWarp((backwards ? warps - 1 - i : i) * warpSize, backwards);
    if (error.empty())
      error = passBarrier(isDone);
  }
  if (error.empty())
    return error;
  // Its threads still wait; others take their place.
  threads.clear();
  return fmt::format("kernel '{}', block {}: {}", kernel->name, block, error);
}

std::string ThreadBlock::runWarp(int64_t first, bool backwards) {
  int64_t size = std::min(warpSize, count - first);
  while (true) {
    for (int64_t i = 0; i < size; ++i) {
      current = first + (backwards ? size - 1 - i : i);
      if (threads[current].state == State::Ready)
        threads[current].fiber.resume();
    }
    bool shuffles = false;
    for (int64_t i = first; i < first + size; ++i)
      shuffles |= threads[i].state == State::Shuffle;
    if (!shuffles)
      return "";
    if (std::string error = exchange(first, size); !error.empty())
      return error;
  }
}

std::string ThreadBlock::exchange(int64_t first, int64_t size) {
  int32_t bits[warpSize];
  int64_t there = 0;
  bool isSamePlace = true;
  const Thread *some = nullptr;
  for (int64_t i = 0; i < size; ++i) {
    const Thread &thread = threads[first + i];
    bits[i] = thread.bits;
    if (thread.state != State::Shuffle)
      continue;
    isSamePlace &= !some || some->place == thread.place;
    some = &thread;
    ++there;
  }
  if (there < warpSize)
    return fmt::format("{} of the 32 threads from {} on take part in a shuffle",
                       there, first);
  if (!isSamePlace)
    return fmt::format("the threads from {} on are at different shuffles",
                       first);
  for (int64_t i = 0; i < size; ++i) {
    Thread &thread = threads[first + i];
    if (thread.mask < 0 || thread.mask >= warpSize)
      return fmt::format("thread {} shuffles with the mask {}", first + i,
                         thread.mask);
    thread.bits = bits[i ^ thread.mask];
    thread.state = State::Ready;
  }
  return "";
}

/// All threads wait at a barrier or are done.
std::string ThreadBlock::passBarrier(bool &isDone) {
  int64_t there = 0;
  bool isSamePlace = true;
  const Thread *some = nullptr;
  for (int64_t i = 0; i < count; ++i) {
    const Thread &thread = threads[i];
    if (thread.state != State::Barrier)
      continue;
    isSamePlace &= !some || some->place == thread.place;
    some = &thread;
    ++there;
  }
  isDone = there == 0;
  if (isDone)
    return "";
  if (there < count)
    return fmt::format("{} of {} threads reach a barrier", there, count);
  if (!isSamePlace)
    return "its threads are at different barriers";
  for (int64_t i = 0; i < count; ++i)
    threads[i].state = State::Ready;
  return "";
}

void pp_mock_barrier(int32_t place) {
  ThreadBlock::ofThisThread().waitForBlock(place);
}

int32_t pp_mock_shuffle(int32_t bits, int32_t mask, int32_t place) {
  return ThreadBlock::ofThisThread().shuffle(bits, mask, place);
}
