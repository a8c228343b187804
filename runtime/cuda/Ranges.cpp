//===- Ranges.cpp - Through NVTX ------------------------------------------===//
#include "Ranges.h"

// Headers alone: they open what NVTX_INJECTION64_PATH names, which a profiler
// sets. Without one, a call is the test of a pointer.
#include <nvtx3/nvToolsExt.h>

void pp::cuda::initializeRanges() {
  [[maybe_unused]] static const bool isInitialized = [] {
    nvtxInitialize(nullptr);
    return true;
  }();
}

void pp::cuda::beginRange(const char *name) noexcept { nvtxRangePushA(name); }
void pp::cuda::endRange() noexcept { nvtxRangePop(); }
