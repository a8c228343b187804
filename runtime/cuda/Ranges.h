//===- Ranges.h - Names for what a profiler shows -------------------------===//
#ifndef PP_RUNTIME_CUDA_RANGES_H
#define PP_RUNTIME_CUDA_RANGES_H

namespace pp::cuda {

/// Before the first range of any thread: NVTX's own start is a race between
/// threads.
void initializeRanges();

/// Ranges of the calling thread; they nest.
void beginRange(const char *name) noexcept;
void endRange() noexcept;

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_RANGES_H
