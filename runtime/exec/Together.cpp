//===- Together.cpp - W of several micro-batches --------------------------===//
#include "exec/KernelTimer.h"
#include "kernel/Kernel.h"
#include "kernel/Part.h"
#include "pprt/pprt.h"

#include <optional>

using namespace pp::runtime;

void pp_run_together(const pp_phase_arguments *arguments,
                     pp_phase_function part) {
  for (uint64_t i = 0; i < arguments->together; ++i)
    part(&arguments[i]);
}

void pp_execute_together(const pp_phase_arguments *arguments, void *kernel,
                         void *first, pp_tensors_function tensors,
                         uint64_t tensorCount, void *scratchpad) {
  void *pointers[PP_MOST_TOGETHER][PP_MOST_TENSORS];
  void *const *runs[PP_MOST_TOGETHER];
  const uint64_t count = arguments->together;
  for (uint64_t i = 0; i < count; ++i) {
    tensors(&arguments[i], pointers[i]);
    runs[i] = pointers[i];
  }
  shareMarkedKernel(count);
  // Lanes of gradients are sums of their own.
  auto sumOf = [&](uint64_t i) { return runs[i][tensorCount - 1]; };
  // One is added to again later, without a meeting in between.
  std::optional<FixedParts> own;
  for (uint64_t i = 1; i < count && !own; ++i)
    if (sumOf(i) != sumOf(0))
      own.emplace();
  for (uint64_t begin = 0, end; begin < count; begin = end) {
    for (end = begin + 1; end < count && sumOf(end) == sumOf(begin); ++end)
      ;
    static_cast<Kernel *>(kernel)->executeTogether(
        std::span(runs + begin, end - begin),
        arguments[begin].is_first ? static_cast<Kernel *>(first) : nullptr,
        scratchpad);
  }
}
