//===- PairLanes.h - Numbers of f32 become pairs of bf16 --------*- C++ -*-===//
//
// For functions that are compiled for PP_DOT.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_PAIRLANES_H
#define PP_RUNTIME_CPU_PAIRLANES_H

#include "cpu/ChannelLanes.h"

#include <immintrin.h>

#include <cstdint>

#define PP_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define PP_DOT_INLINE PP_DOT __attribute__((always_inline)) static inline

namespace pp::runtime {

/// Rounds 16 numbers.
PP_DOT_INLINE void storeShort(uint16_t *to, const LanesOf<16> &numbers) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(
                          reinterpret_cast<__m512>(numbers))));
}

/// Rounds twice 16 numbers: a number of the first and one of the second, in
/// turn.
PP_DOT_INLINE void storePairs(uint16_t *to, const LanesOf<16> &first,
                              const LanesOf<16> &second) {
  alignas(64) static constexpr uint16_t order[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512bh both = _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second),
                                            reinterpret_cast<__m512>(first));
  _mm512_storeu_si512(
      to, _mm512_permutexvar_epi16(_mm512_load_si512(order),
                                   reinterpret_cast<__m512i>(both)));
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PAIRLANES_H
