//===- FlushDenormals.h - Denormal numbers count as zero ------------------===//
#ifndef PP_RUNTIME_SUPPORT_FLUSHDENORMALS_H
#define PP_RUNTIME_SUPPORT_FLUSHDENORMALS_H

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace pp::runtime {

/// From now on the calling thread takes denormal numbers for zero and makes
/// none: each operation on one costs more than a hundred cycles, and a model
/// whose activations or gradients vanish has millions. Threads that it starts,
/// such as a library's, begin with the same mode. Every thread that runs
/// kernels calls it, so that bits do not depend on which thread ran one.
/// Nothing happens on other architectures than x86-64.
inline void flushDenormals() {
#if defined(__SSE2__)
  constexpr unsigned flushToZero = 1U << 15, denormalsAreZero = 1U << 6;
  _mm_setcsr(_mm_getcsr() | flushToZero | denormalsAreZero);
#endif
}

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_FLUSHDENORMALS_H
