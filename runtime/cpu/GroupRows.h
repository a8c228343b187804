//===- GroupRows.h - What windows see of a group of channels ----*- C++ -*-===//
//
// Rows of a group, copied to where the first cache has them: in vectors of 8
// channels, with zeros around, so that no loop asks where the image ends or how
// it lies. With a stride, pixels that an output and the next one see lie side
// by side: first every second one from the first on, then those between.
//
//   x, channels last         rows of a group
//  ┌─────┬─────┬─────┐      ┌────────────┐
//  │ g0  │ g1  │ g2  │ copy │ 0 0 0 0 0  │
//  │     │ x x │     │ ───▶ │ 0 x x x 0  │
//  │     │ x x │     │      │ 0 x x x 0  │
//  └─────┴─────┴─────┘      └────────────┘
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_GROUPROWS_H
#define PP_RUNTIME_CPU_GROUPROWS_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvShape.h"
#include "cpu/DepthwiseWindows.h"
#include "cpu/GroupTiles.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

/// Of x for a convolution and the gradient of its weights, or of dY for that of
/// its image: an axis is divided into classes of pixels that see the same
/// numbers of the window (depthwise::Axis).
class GroupRows {
public:
  /// Whether there is code for a convolution: of f32, along one or two axes,
  /// with groups, or a single one, that have multiples of 8 channels, which lie
  /// together.
  static bool arePossible(const ConvShape &whole);

  /// `mostBytes`: of the copy, if more than one row fits.
  GroupRows(const ConvShape &whole, ConvDirection direction, int64_t mostBytes);

  /// An image, of which a group has so many channels.
  struct Image {
    ImagePlaces places;
    int64_t channels;

    int64_t vectors() const { return channels / groupLanes; }
    /// Where the channels of a group begin in a sample.
    int64_t placeOf(int64_t sample, int64_t group) const {
      return sample * places.sample + places.offsetOfChannel(group * channels);
    }
    int64_t vectorPitch() const {
      return places.offsetOfChannel(groupLanes) - places.offsetOfChannel(0);
    }
  };
  /// Pixels of some rows and columns that see the same numbers of the window.
  struct Work {
    depthwise::Axis::Class rows, columns;
    std::vector<int64_t> places; ///< of the window, in the order of the sums
    /// Where segments of 8 channels lie that the first of the pixels sees, in
    /// the copy: of each place all channels.
    std::vector<int64_t> offsets;
  };

  /// Numbers of the copy.
  int64_t countCopied() const { return from.vectors() * channelPitch(); }
  /// Copies what `count` rows of each class see, from row `first` of them on;
  /// `image` is the group's.
  void copy(const float *image, int64_t first, int64_t count, float *to) const;
  /// From what one row of a class sees to what the next one does, in the copy.
  int64_t pitch() const { return height.stride * rowPitch(); }
  int64_t countRows() const { return height.longestCount; }
  int64_t weightsOfOutput() const {
    return countOf(sizes.window) * sizes.channels / groups;
  }

  WindowSizes sizes;
  int64_t groups;
  depthwise::Axis height, width;
  Image from, to;
  /// Columns of the copy, each `width.stride`-th of them.
  int64_t columnsOfPhase;
  int64_t atATime = 1; ///< rows of each class
  std::vector<Work> works;

private:
  /// Numbers from row to row of the copy, and from 8 channels to the next.
  int64_t rowPitch() const {
    return width.stride * columnsOfPhase * groupLanes;
  }
  int64_t channelPitch() const { return copiedRows(atATime) * rowPitch(); }
  /// Rows that so many of each class see.
  int64_t copiedRows(int64_t count) const {
    return (count - 1) * height.stride + height.lastAt - height.firstAt + 1;
  }
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_GROUPROWS_H
