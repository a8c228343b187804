//===- Ranges.h - Names for what a profiler shows -------------------------===//
#ifndef PP_RUNTIME_CUDA_RANGES_H
#define PP_RUNTIME_CUDA_RANGES_H

namespace pp::cuda {

/// Ranges of the calling thread; they nest.
void beginRange(const char *name) noexcept;
void endRange() noexcept;

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_RANGES_H
