//===- PartClaims.h - Threads take the parts of a kernel --------*- C++ -*-===//
//
// Threads of a team are not equally fast where other programs share their
// cores. So each takes part after part: its own first, from the front, then
// what is left of the others', from the back.
//
//   thread 0, slow   0 ───────── 1 ─────────
//   thread 1         4 ── 5 ── 6 ── 7 ── 3 ── 2
//
// Which thread computes a part is no matter for its bits.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_PARTCLAIMS_H
#define PP_RUNTIME_CPU_PARTCLAIMS_H

#include "kernel/Part.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace pp::runtime {

/// Which parts of a kernel have been taken. Every thread of a team must run the
/// kernel equally often, but they need not meet in between, if no run reads
/// what one before it wrote.
class PartClaims {
public:
  /// Of a kernel that at most so many threads run.
  PartClaims(unsigned parts, unsigned threads)
      : parts(parts), claims(new std::atomic<uint64_t>[parts]()),
        runs(new Runs[threads]) {}

  /// Calls `run(part)` with each part that `own` takes: with each one that no
  /// other thread takes, or where its parts are fixed with those. One that is
  /// alone takes all, in their order.
  template <typename Run> void runEach(Part own, const Run &run) {
    if (own.count == 1) {
      for (unsigned part = 0; part < parts; ++part)
        run(part);
      return;
    }
    auto beginOf = [&](unsigned index) { return parts * index / own.count; };
    if (own.isFixed) {
      for (unsigned part = beginOf(own.index); part < beginOf(own.index + 1);
           ++part)
        run(part);
      return;
    }
    // A claim is the number of the run. Before a thread begins one, all parts
    // of the run before it have been claimed.
    const uint64_t number = ++runs[own.index].count;
    auto claim = [&](unsigned part) {
      uint64_t before = number - 1;
      if (claims[part].load(std::memory_order_relaxed) == before &&
          claims[part].compare_exchange_strong(before, number,
                                               std::memory_order_acq_rel))
        run(part);
    };
    for (unsigned part = beginOf(own.index); part < beginOf(own.index + 1);
         ++part)
      claim(part);
    for (unsigned other = own.index + 1; other < own.index + own.count;
         ++other) {
      const unsigned index = other % own.count;
      for (unsigned part = beginOf(index + 1); part-- > beginOf(index);)
        claim(part);
    }
  }

private:
  struct alignas(64) Runs {
    uint64_t count = 0;
  };
  unsigned parts;
  std::unique_ptr<std::atomic<uint64_t>[]> claims; // of the last run, by part
  std::unique_ptr<Runs[]> runs;                    // by thread
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PARTCLAIMS_H
