//===- PairWeights.cpp ----------------------------------------------------===//
#include "cpu/PairWeights.h"
#include "cpu/TransposeRows.h"

#include <immintrin.h>

#include <algorithm>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
static constexpr int64_t lanes = 16;

/// Of 16 outputs, whose weights are `ofOutput` apart.
PP_AVX512 static void packPlaces(const uint16_t *from, int64_t ofOutput,
                                 int64_t channels, int64_t places,
                                 uint16_t *to) {
  for (int64_t first = 0; first < places; first += lanes) {
    const int64_t count = std::min(lanes, places - first);
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    auto load =
        [=](const uint16_t *at) __attribute__((always_inline)) PP_AVX512 {
          return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at));
        };
    for (int64_t channel = 0; channel < channels; channel += 2) {
      LaneRows rows;
      const uint16_t *at = from + channel * places + first;
      for (__m512i &row : rows) {
        row =
            _mm512_or_si512(load(at), _mm512_slli_epi32(load(at + places), 16));
        at += ofOutput;
      }
      transposeRows(rows);
      for (int64_t place = 0; place < count; ++place)
        _mm512_storeu_si512(to + ((first + place) * channels + channel) * lanes,
                            rows[place]);
    }
  }
}

/// The same of a single place, where pairs of channels lie together.
PP_AVX512 static void packChannels(const uint16_t *from, int64_t channels,
                                   uint16_t *to) {
  for (int64_t channel = 0; channel < channels; channel += 2 * lanes) {
    const int64_t pairs = std::min(lanes, (channels - channel) / 2);
    const auto mask = static_cast<__mmask16>((1u << pairs) - 1);
    LaneRows rows;
    const uint16_t *at = from + channel;
    for (__m512i &row : rows) {
      row = _mm512_maskz_loadu_epi32(mask, at);
      at += channels;
    }
    transposeRows(rows);
    for (int64_t pair = 0; pair < pairs; ++pair)
      _mm512_storeu_si512(to + (channel + 2 * pair) * lanes, rows[pair]);
  }
}

void pp::runtime::packPairWeights(const uint16_t *weights, int64_t outputs,
                                  int64_t channels, int64_t places,
                                  uint16_t *to) {
  const int64_t ofOutput = channels * places;
  for (int64_t output = 0; output < outputs; output += lanes) {
    if (places == 1)
      packChannels(weights, channels, to);
    else
      packPlaces(weights, ofOutput, channels, places, to);
    weights += lanes * ofOutput;
    to += lanes * ofOutput;
  }
}
