//===- SlotFlag.cpp -------------------------------------------------------===//
#include "transport/SlotFlag.h"
#include "support/Spin.h"
#include "transport/Transport.h"

#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace pp::runtime;

static constexpr uint32_t abortedState = UINT32_MAX;

/// Not std::atomic::wait, which does not wake other processes.
static void futex(std::atomic<uint32_t> &word, int operation, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), operation, value,
          nullptr, nullptr, 0);
}

void SlotFlag::wake() noexcept {
  // Sequentially consistent, as is the count in waitFor: either the sleeper
  // sees the new state, or it is counted here.
  if (sleepers.load())
    futex(state, FUTEX_WAKE, INT_MAX);
}

template <typename Condition>
void SlotFlag::waitUntil(Condition isThere, unsigned spins) {
  auto isOver = [&](uint32_t current) {
    if (current == abortedState)
      throw Transport::Aborted();
    return isThere(current);
  };
  for (unsigned i = 0; i < spins; ++i) {
    if (isOver(get()))
      return;
    spinPause();
  }
  while (true) {
    sleepers.fetch_add(1);
    uint32_t current = state.load();
    if (current != abortedState && !isThere(current))
      futex(state, FUTEX_WAIT, current);
    sleepers.fetch_sub(1);
    if (isOver(get()))
      return;
  }
}

void SlotFlag::waitFor(uint32_t value, unsigned spins) {
  waitUntil([=](uint32_t current) { return current == value; }, spins);
}

void SlotFlag::waitUntilAtLeast(uint32_t value, unsigned spins) {
  waitUntil([=](uint32_t current) { return current >= value; }, spins);
}

/// Compare-and-swap, so that an abort in between is not overwritten.
void SlotFlag::change(uint32_t from, uint32_t to) {
  if (!state.compare_exchange_strong(from, to))
    throw Transport::Aborted();
  wake();
}

void SlotFlag::abort() noexcept {
  state.store(abortedState);
  wake();
}
