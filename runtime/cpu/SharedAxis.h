//===- SharedAxis.h - What threads share of images --------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_SHAREDAXIS_H
#define PP_RUNTIME_CPU_SHAREDAXIS_H

#include <cstdint>

namespace pp::runtime {

enum class SharedAxis { Samples, Channels, Rows };

/// Of images with fewer pixels, products share channels (ConvPixelProduct.h),
/// and rows are too few for equal shares.
constexpr int64_t fewPixels = 60;

/// How many there are of each.
struct SharedCounts {
  int64_t samples;
  /// Or groups, or blocks of channels.
  int64_t channels;
  int64_t rows;
};

/// What the parts of a kernel share. Kernels that follow each other should
/// share the same, so that each thread reads what it wrote, from the cache of
/// its own core (Zen 3: 50 GB/s from another core's that has the same L3, 12
/// from one that has not): samples, or else what lies farthest apart, as shares
/// of a generated kernel do: rows of pixels where channels lie together, and
/// channels elsewhere. `pixels` are those of all samples of a result.
inline SharedAxis findSharedAxis(const SharedCounts &of, bool isChannelsLast,
                                 int64_t pixels, int64_t parts) {
  constexpr int64_t enough = 8; // of unequal shares
  auto isEnough = [&](int64_t count) {
    return count >= enough * parts || (count >= parts && count % parts == 0);
  };
  if (isEnough(of.samples))
    return SharedAxis::Samples;
  if (isChannelsLast && pixels > fewPixels && isEnough(of.rows))
    return SharedAxis::Rows;
  if (isEnough(of.channels))
    return SharedAxis::Channels;
  if (isEnough(of.rows))
    return SharedAxis::Rows;
  if (of.channels >= parts)
    return SharedAxis::Channels;
  return of.samples >= parts ? SharedAxis::Samples : SharedAxis::Rows;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_SHAREDAXIS_H
