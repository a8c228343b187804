//===- KernelTimer.cpp ----------------------------------------------------===//
#include "exec/KernelTimer.h"
#include "cpu/LibraryKernel.h"

using namespace pp::runtime;

static thread_local KernelTimer *current = nullptr;

KernelTimer::Scope::Scope(KernelTimer &timer, bool mayHold) : timer(timer) {
  timer.mayHold = mayHold;
  timer.open = nullptr;
  current = &timer;
}

KernelTimer::Scope::~Scope() {
  current = nullptr;
  // Where the phase has failed.
  timer.release();
}

void KernelTimer::release() {
  if (held)
    stream.release();
  held = 0;
}

void KernelTimer::mark(int64_t kernel) {
  if (open)
    stream.timestamp(open->end);
  open = nullptr;
  if (kernel < 0 || held == mostHeld)
    release();
  if (kernel < 0)
    return;
  if (mayHold && held++ == 0)
    stream.hold();
  runs.push_back({static_cast<unsigned>(kernel), 0, 0});
  open = &runs.back();
  stream.timestamp(open->begin);
}

void pp::runtime::shareMarkedKernel(uint64_t microbatches) {
  if (current)
    current->share(static_cast<unsigned>(microbatches));
}

void pp_mark_kernel(int64_t kernel) {
  if (!current)
    return;
  try {
    current->mark(kernel);
  } catch (const std::exception &e) {
    keepKernelError(std::string("cannot take the time of a kernel: ") +
                    e.what());
  }
}
