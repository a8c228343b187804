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
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_IMAGEPLACES_H
