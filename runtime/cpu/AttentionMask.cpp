//===- AttentionMask.cpp --------------------------------------------------===//
#include "cpu/AttentionMask.h"
#include "cpu/ChannelLanes.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace pp::runtime;

static constexpr float hidden = -std::numeric_limits<float>::infinity();
/// A larger number with a logarithm added to it is off by more than 1e-5.
static constexpr float far = 128;

static constexpr int64_t lanes = 16;

namespace {
using Lanes = LanesOf<lanes>;
using Words = WordsOf<lanes>;
} // namespace

/// Whether one of the sums is more than minus infinity, or no number.
PP_INLINE bool addBody(float *scores, float scale, const float *mask,
                       int64_t count) {
  Lanes most = Lanes{} + hidden;
  Words seen{};
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    const Lanes sum =
        loadLanes<lanes>(scores + at) * scale + loadLanes<lanes>(mask + at);
    storeLanes<lanes>(scores + at, sum);
    most = sum > most ? sum : most;
    seen |= reinterpret_cast<Words>(sum != hidden);
  }
  float largest = hidden;
  bool isSeen = false;
  for (; at < count; ++at) {
    scores[at] = scores[at] * scale + mask[at];
    largest = std::max(largest, scores[at]);
    isSeen |= scores[at] != hidden;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    largest = std::max(largest, most[lane]);
    isSeen |= seen[lane] != 0;
  }
  if (std::isfinite(largest) && std::abs(largest) > far)
    for (int64_t i = 0; i < count; ++i)
      scores[i] -= largest;
  return isSeen;
}

static bool addPlain(float *scores, float scale, const float *mask,
                     int64_t count) {
  return addBody(scores, scale, mask, count);
}
__attribute__((target("avx2,fma"))) static bool
addAvx2(float *scores, float scale, const float *mask, int64_t count) {
  return addBody(scores, scale, mask, count);
}
__attribute__((target("avx512f"))) static bool
addAvx512(float *scores, float scale, const float *mask, int64_t count) {
  return addBody(scores, scale, mask, count);
}

bool AttentionMask::add(float *scores, float scale, int64_t row,
                        int64_t count) const {
  const float *mask = first + row * rowStride;
  auto *add = hasAvx512()                  ? addAvx512
              : TiledProduct::isPossible() ? addAvx2
                                           : addPlain;
  const bool isSeen = add(scores, scale, mask, count);
  return isSeen || !isZeroed;
}
