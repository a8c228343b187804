//===- ChannelLanes.h - Numbers of neighbouring channels ------------------===//
//
// Vectors of f32 that the compiler divides among the registers of whatever
// processor a function is compiled for. Everything here is inlined, into
// functions with an attribute `target`.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CHANNELLANES_H
#define PP_RUNTIME_CPU_CHANNELLANES_H

#include <cstdint>
#include <cstring>

#define PP_INLINE __attribute__((always_inline)) static inline

namespace pp::runtime {

template <int count>
using LanesOf = float __attribute__((vector_size(count * sizeof(float))));
template <int count>
using WordsOf = uint32_t __attribute__((vector_size(count * sizeof(uint32_t))));
template <int count>
using HalvesOf =
    uint16_t __attribute__((vector_size(count * sizeof(uint16_t))));

template <int count> PP_INLINE LanesOf<count> loadLanes(const float *from) {
  LanesOf<count> result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}
/// From bf16, as its bits.
template <int count> PP_INLINE LanesOf<count> loadLanes(const uint16_t *from) {
  HalvesOf<count> bits;
  std::memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<LanesOf<count>>(
      __builtin_convertvector(bits, WordsOf<count>) << 16);
}

template <int count>
PP_INLINE void storeLanes(float *to, const LanesOf<count> &value) {
  std::memcpy(to, &value, sizeof(value));
}
/// Rounds to the nearest, ties to even.
template <int count>
PP_INLINE void storeLanes(uint16_t *to, const LanesOf<count> &value) {
  using Words = WordsOf<count>;
  Words bits = reinterpret_cast<Words>(value);
  Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  Words quiet = (bits >> 16) | 0x40;
  auto isNumber = reinterpret_cast<Words>(value == value);
  HalvesOf<count> result = __builtin_convertvector(
      (rounded & isNumber) | (quiet & ~isNumber), HalvesOf<count>);
  std::memcpy(to, &result, sizeof(result));
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CHANNELLANES_H
