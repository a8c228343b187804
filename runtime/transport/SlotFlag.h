//===- SlotFlag.h - Who may use a slot ------------------------------------===//
#ifndef PP_RUNTIME_TRANSPORT_SLOTFLAG_H
#define PP_RUNTIME_TRANSPORT_SLOTFLAG_H

#include <atomic>
#include <cstdint>

namespace pp::runtime {

/// The state of a slot between the thread that fills it and the one that
/// empties it: 0 is free, m + 1 holds micro-batch m. May lie in memory that two
/// processes share. Waiting spins, then sleeps.
///
/// A cache line of its own, so that polling one slot does not slow down
/// another.
class alignas(64) SlotFlag {
public:
  /// Waits until another thread has set `value`. Throws Transport::Aborted.
  void waitFor(uint32_t value, unsigned spins);
  /// The same, for a counter.
  void waitUntilAtLeast(uint32_t value, unsigned spins);
  /// Throws Transport::Aborted; then the state stays as it is.
  void change(uint32_t from, uint32_t to);
  uint32_t get() const { return state.load(std::memory_order_acquire); }
  /// Wakes whoever waits, for good.
  void abort() noexcept;

private:
  template <typename Condition>
  void waitUntil(Condition isThere, unsigned spins);
  void wake() noexcept;

  std::atomic<uint32_t> state{0};
  std::atomic<uint32_t> sleepers{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

} // namespace pp::runtime

#endif // PP_RUNTIME_TRANSPORT_SLOTFLAG_H
