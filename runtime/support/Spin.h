//===- Spin.h - Looking before sleeping -----------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_SPIN_H
#define PP_RUNTIME_SUPPORT_SPIN_H

namespace pp::runtime {

/// Between two looks at a value that another thread will change.
inline void spinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// How often to look before sleeping, where `threads` of this process wait for
/// each other: spinning pays only where each has a core of its own.
unsigned spinsFor(unsigned threads);

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_SPIN_H
