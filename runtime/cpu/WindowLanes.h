//===- WindowLanes.h - The numbers of windows, in lanes ---------*- C++ -*-===//
//
// Windows of 3 x 3 of 16 outputs lie one after the other; their transforms need
// each number of all of them in a register.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_WINDOWLANES_H
#define PP_RUNTIME_CPU_WINDOWLANES_H

#include "cpu/TransposeRows.h"
#include "cpu/WinogradTiles.h"

#include <immintrin.h>

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PP_AVX512_INLINE PP_AVX512 __attribute__((always_inline)) static inline

namespace pp::runtime::winograd {

using Direction = WinogradConvolution::Direction;

/// From the window of an output, or of a channel, to that of the next.
template <Direction direction> struct WindowStrides {
  int64_t output, channel;

  explicit WindowStrides(const Sizes &shape)
      : output(direction == Direction::Forward ? 9 * shape.channels : 9),
        channel(direction == Direction::Forward ? 9 : 9 * shape.outputs) {}
};

/// Where a number of a window goes: to the gradient of x, the last comes first.
template <Direction direction> constexpr int placeOf(int number) {
  return direction == Direction::Forward ? number : 8 - number;
}

/// On any processor.
template <Direction direction, typename Element>
PP_INLINE void readWindow(const Element *from,
                          const WindowStrides<direction> &strides,
                          Lanes *window) {
  float numbers[9][lanes];
  for (int64_t lane = 0; lane < lanes; ++lane, from += strides.output)
    for (int i = 0; i < 9; ++i)
      numbers[placeOf<direction>(i)][lane] = widen(from[i]);
  for (int i = 0; i < 9; ++i)
    window[i] = load(numbers[i]);
}

/// The same of f32, in pieces that registers of AVX2 hold.
template <Direction direction>
__attribute__((target("avx2"), always_inline)) inline void
readWindow(const float *from, const WindowStrides<direction> &strides,
           Lanes *window) {
  float numbers[windowSize * lanes];
  readWindowsAvx2(from, strides.output, numbers);
  for (int64_t i = 0; i < windowSize; ++i)
    window[placeOf<direction>(i)] = load(numbers + i * lanes);
}

/// Asks for the window of a later channel: those of the gradient of x lie too
/// far apart for the processor to expect them.
template <Direction direction, typename Element>
PP_INLINE void askForWindow(const Element *from,
                            const WindowStrides<direction> &strides) {
  constexpr int64_t ahead = 16;
  if (direction == Direction::Backward)
    __builtin_prefetch(from + ahead * strides.channel);
}

inline constexpr __mmask16 ofWindow = 0x1ff;

template <Direction direction>
PP_AVX512_INLINE void readWindowAvx512(const float *from,
                                       const WindowStrides<direction> &strides,
                                       Lanes *window) {
  LaneRows rows;
  for (int64_t lane = 0; lane < lanes; ++lane, from += strides.output) {
    askForWindow(from, strides);
    rows[lane] = _mm512_maskz_loadu_epi32(ofWindow, from);
  }
  transposeRows(rows);
  for (int i = 0; i < 9; ++i)
    window[placeOf<direction>(i)] = reinterpret_cast<Lanes>(rows[i]);
}

/// Of rows that have two numbers of a window in each lane.
template <Direction direction>
PP_AVX512_INLINE void unpackWindow(const __m512i *rows, Lanes *window) {
  for (int i = 0; i < 9; ++i) {
    const __m512i both = rows[i / 2];
    const __m512i number =
        i % 2 == 0 ? _mm512_slli_epi32(both, 16)
                   : _mm512_and_si512(both, _mm512_set1_epi32(0xffff0000));
    window[placeOf<direction>(i)] = reinterpret_cast<Lanes>(number);
  }
}

/// Of bf16, that of a channel and that of the next.
template <Direction direction>
PP_AVX512_INLINE void readWindowsAvx512(const uint16_t *from,
                                        const WindowStrides<direction> &strides,
                                        Lanes *window, Lanes *next) {
  LaneRows rows;
  for (int64_t lane = 0; lane < lanes; ++lane, from += strides.output) {
    // Three windows are less than a line of the cache.
    if (lane % 3 == 0) {
      askForWindow(from, strides);
      askForWindow(from + strides.channel, strides);
    }
    rows[lane] = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(ofWindow, from)),
        _mm256_maskz_loadu_epi16(ofWindow, from + strides.channel), 1);
  }
  transposeRows(rows);
  unpackWindow<direction>(rows.data(), window);
  unpackWindow<direction>(rows.data() + 8, next);
}

} // namespace pp::runtime::winograd

#endif // PP_RUNTIME_CPU_WINDOWLANES_H
