//===- ImagePlaces.h - Where the numbers of an image lie ------------------===//
#ifndef PP_RUNTIME_CPU_IMAGEPLACES_H
#define PP_RUNTIME_CPU_IMAGEPLACES_H

#include <array>
#include <cstdint>

namespace pp::runtime {

/// Depth, height and width; 1 where there are fewer.
using ImageAxes = std::array<int64_t, 3>;

/// Strides of a tensor N x C x D x H x W, in elements. Channels of a block lie
/// together; without blocks it has one.
struct ImagePlaces {
  int64_t sample, block;
  ImageAxes axes;
  int64_t blockChannels;

  int64_t offsetOfChannel(int64_t channel) const {
    return channel / blockChannels * block + channel % blockChannels;
  }
  /// Whether the channels of a pixel lie together.
  bool isChannelsLast() const { return block == 1 && blockChannels == 1; }
  /// Whether each `count` of them do, from the first on.
  bool hasTogether(int64_t count) const {
    return isChannelsLast() || blockChannels % count == 0;
  }
};

/// How often a pixel of an axis sees one that is there at a place of a window,
/// of all pixels and places: it sees begin + pixel * step + place * distance.
inline int64_t countSeen(int64_t begin, int64_t step, int64_t pixels,
                         int64_t distance, int64_t places, int64_t extent) {
  int64_t count = 0;
  for (int64_t place = 0; place < places; ++place)
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const int64_t at = begin + pixel * step + place * distance;
      count += at >= 0 && at < extent;
    }
  return count;
}

/// Windows that move over images: what convolutions and pooling have in common.
/// `x` are the images, `dy` the gradient of the result.
struct WindowSizes {
  int64_t samples, channels;
  ImageAxes image, window, result;
  /// `dilations` are distances, 1 in a window without holes.
  ImageAxes strides, dilations, padding;
  ImagePlaces x, dy;
};

inline int64_t countOf(const ImageAxes &extents) {
  return extents[0] * extents[1] * extents[2];
}
/// Where the element of this index is in a dense array.
inline ImageAxes splitIndex(int64_t index, const ImageAxes &extents) {
  return {index / extents[2] / extents[1], index / extents[2] % extents[1],
          index % extents[2]};
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_IMAGEPLACES_H
