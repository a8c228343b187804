//===- KernelTimer.h - When each kernel of a phase ran --------------------===//
#ifndef PP_RUNTIME_EXEC_KERNELTIMER_H
#define PP_RUNTIME_EXEC_KERNELTIMER_H

#include "device/Device.h"

#include <deque>

namespace pp::runtime {

/// Takes the times of kernels on their stream, of a program that marks them
/// (pp_mark_kernel):
///
///   stream   ──begin 0, kernel 0, end 0──begin 1, kernel 1, end 1──▶
///
/// The two timestamps stand next to the kernel, so the time of a kernel holds
/// no other work of the stream or the host. An asynchronous device is held back
/// until some kernels are enqueued; otherwise the time of a short kernel would
/// be the time of enqueueing it.
class KernelTimer {
public:
  /// Nanoseconds of the steady clock; valid when the stream has got there.
  struct Run {
    unsigned kernel;
    int64_t begin, end;
    /// Micro-batches that it was for, at once.
    unsigned microbatches = 1;
  };

  explicit KernelTimer(Stream &stream) : stream(stream) {}

  const std::deque<Run> &getRuns() const { return runs; }
  void clear() { runs.clear(); }

  /// While a scope lives, the marks of the calling thread go to its timer.
  /// `mayHold`: the kernels have run before, as Stream::hold wants.
  class Scope {
  public:
    Scope(KernelTimer &timer, bool mayHold);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    KernelTimer &timer;
  };

  /// A kernel begins; -1: the last one has ended.
  void mark(int64_t kernel);
  /// The one that has begun is for so many micro-batches.
  void share(unsigned microbatches) {
    if (open)
      open->microbatches = microbatches;
  }

private:
  /// A driver keeps about a thousand entries per stream before it makes the
  /// host wait; each kernel is at most a few, and two timestamps.
  static constexpr unsigned mostHeld = 64;

  void release();

  Stream &stream;
  // A stream writes to them later, so they must not move.
  std::deque<Run> runs;
  Run *open = nullptr;
  unsigned held = 0;
  bool mayHold = false;
};

/// KernelTimer::share of the timer that the marks of the calling thread go to,
/// if there is one.
void shareMarkedKernel(uint64_t microbatches);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_KERNELTIMER_H
