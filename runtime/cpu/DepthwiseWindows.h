//===- DepthwiseWindows.h - Which inputs the outputs of an image see ------===//
//
// What DepthwiseConvolution and DepthwiseGradient have in common: windows as
// lists of offsets into rows with zeros around them, and those rows.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_DEPTHWISEWINDOWS_H
#define PP_RUNTIME_CPU_DEPTHWISEWINDOWS_H

#include "cpu/ConvDirection.h"
#include "cpu/DepthwiseRows.h"
#include "cpu/ImagePlaces.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pp::runtime::depthwise {

/// A convolution with as many outputs as channels, in groups of 1, 2, 4 or 8,
/// over one or two axes (height and width). `isShort`: images are of bf16, else
/// of f32.
struct Shape : WindowSizes {
  bool isShort = false;
  int64_t groupChannels = 1;

  /// Of 16 channels.
  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  /// Whether what lies together is moved together: all channels of a pixel.
  bool isChannelsLast() const {
    return x.isChannelsLast() && dy.isChannelsLast();
  }
};

using Direction = ConvDirection;

/// Some blocks of 16 channels of some samples, and some rows of each class.
struct Part {
  struct Range {
    int64_t first, count;
  };
  Range blocks, samples, rows;
};

/// An axis of the images that are read and written. What is written is divided
/// into classes, whose members see the same numbers of the window: with a
/// stride, every second (third, ...) pixel of dX is of one.
struct Axis {
  struct Tap {
    int64_t index; ///< in the window
    int64_t at;    ///< what the first of the class sees, among what is read
  };
  struct Class {
    int64_t first, step, count;
    std::vector<Tap> taps; ///< from the first pixel on
  };

  Axis(const WindowSizes &sizes, size_t axis, Direction direction);

  /// Pixels that are read, and zeros before and behind them.
  int64_t extent, low = 0, high = 0;
  int64_t stride; ///< of what is read, from one of a class to the next
  std::vector<Class> classes;
  int64_t longestCount = 0; ///< of the classes
  /// Between these are all taps, and 0.
  int64_t firstAt = 0, lastAt = 0;
};

/// The numbers of the window that a class of pixels sees, in segments that lie
/// side by side.
struct Segments {
  int64_t length = 1;
  std::vector<int64_t> offsets; ///< of the segments, in rows of `pitch` numbers
  std::vector<int64_t> indices; ///< in the window, segments x length

  Segments(const Axis::Class &rows, const Axis::Class &columns, int64_t stride,
           int64_t pitch, int64_t windowWidth);
  /// Those of each copy of the rows, one after the other.
  void repeat(int64_t copies, int64_t copyPitch);
};

/// Rows of an image with zeros around them, as many as stay in a cache, for as
/// many rows of each class as that is enough for, and for some blocks of 16
/// channels: with channels last as many as may be. There is a copy for each
/// channel of a group, see RowLoops::spreadGroups.
class PaddedRows {
public:
  PaddedRows(const Shape &shape, const Axis &height, const Axis &width,
             const RowLoops &loops);

  /// Numbers from row to row.
  int64_t pitch() const {
    return (width.low + width.extent + width.high) * lanes;
  }
  /// Rows of each class at a time, and blocks.
  int64_t rowsAtATime() const { return atATime; }
  int64_t blocksAtATime() const { return blocks; }
  /// Numbers from copy to copy of a block, and from block to block.
  int64_t copyPitch() const;
  int64_t blockPitch() const { return copies * copyPitch(); }
  uint64_t getBytes() const { return blocks * blockPitch() * sizeof(float); }

  /// Reads what the rows of a class from `first` on see. Where `to` has what
  /// the rowsAtATime() before them see, what both do is moved.
  /// `row`: of the sample, with the blocks that are read.
  void fill(const void *image, RowPlace row, int64_t first, int64_t count,
            bool isNext, float *to) const;
  /// Where tap 0 of the first pixel of a class is that is `row` behind `first`.
  int64_t offsetOf(int64_t row) const {
    return (row * height.stride - height.firstAt) * pitch() + width.low * lanes;
  }

private:
  int64_t rowsFor(int64_t count) const {
    return (count - 1) * height.stride + height.lastAt - height.firstAt + 1;
  }

  const Axis &height, &width;
  const RowLoops &loops;
  int64_t copies, atATime, blocks;
};

/// Whether this processor has the instructions, groups do not lie in several
/// blocks, and there is a single axis or two.
bool isPossible(const Shape &shape);

} // namespace pp::runtime::depthwise

#endif // PP_RUNTIME_CPU_DEPTHWISEWINDOWS_H
