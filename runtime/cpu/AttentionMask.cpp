//===- AttentionMask.cpp --------------------------------------------------===//
#include "cpu/AttentionMask.h"
#include "cpu/ChannelLanes.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"

#include <limits>

using namespace pp::runtime;

/// Whether one of the sums is more than minus infinity, or no number.
PP_INLINE bool addBody(float *scores, float scale, const float *mask,
                       int64_t count) {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  uint32_t seen = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float sum = scores[i] * scale + mask[i];
    scores[i] = sum;
    seen |= static_cast<uint32_t>(sum != hidden);
  }
  return seen != 0;
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
