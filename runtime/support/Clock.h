//===- Clock.h - The clock of traces and statistics -----------------------===//
#ifndef PP_RUNTIME_SUPPORT_CLOCK_H
#define PP_RUNTIME_SUPPORT_CLOCK_H

#include <chrono>
#include <cstdint>

namespace pp::runtime {

inline int64_t steadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_CLOCK_H
