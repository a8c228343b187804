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

/// A convolution with as many outputs as channels, in groups of 1, 2, 4 or 8.
/// `isShort`: images are of bf16, else of f32.
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

class PaddedRows;

/// The numbers of the window that a class of pixels sees, in segments that lie
/// side by side.
struct Segments {
  int64_t length = 1;
  std::vector<int64_t> offsets; ///< of the segments, in padded rows
  std::vector<int64_t> indices; ///< in the window, segments x length

  /// `stride`: from one pixel of `columns` to the next.
  Segments(const Axis::Class &planes, const Axis::Class &rows,
           const Axis::Class &columns, int64_t stride, const PaddedRows &padded,
           const ImageAxes &window);
  /// Those of each copy of the rows, one after the other.
  void repeat(int64_t copies, int64_t copyPitch);
};

/// Rows of an image with zeros around them, as many as stay in a cache, for as
/// many rows of each class as that is enough for, and for some blocks of 16
/// channels: with channels last as many as may be. There are those of each
/// plane that a window sees, and of each plane a copy for each channel of a
/// group, see RowLoops::spreadGroups.
class PaddedRows {
public:
  PaddedRows(const Shape &shape, const Axis &depth, const Axis &height,
             const Axis &width, const RowLoops &loops);

  /// Numbers from row to row.
  int64_t pitch() const {
    return (width.low + width.extent + width.high) * lanes;
  }
  /// Rows of each class at a time, and blocks.
  int64_t rowsAtATime() const { return atATime; }
  int64_t blocksAtATime() const { return blocks; }
  /// Numbers from copy to copy of a plane, from plane to plane of a block, and
  /// from block to block.
  int64_t copyPitch() const;
  int64_t planePitch() const { return copies * copyPitch(); }
  int64_t blockPitch() const { return planes * planePitch(); }
  uint64_t getBytes() const { return blocks * blockPitch() * sizeof(float); }

  /// Reads what the rows of a class of rows from `first` on see of the planes
  /// that plane `plane` of a class of planes does. Where `to` has what the
  /// rowsAtATime() before them see, what both do is moved.
  /// `row`: of the sample, with the blocks that are read.
  void fill(const void *image, const RowPlace &row, const Axis::Class &planes,
            int64_t plane, int64_t first, int64_t count, bool isNext,
            float *to) const;
  /// Where tap 0 of the first pixel of a class is that is `row` behind `first`.
  int64_t offsetOf(int64_t row) const {
    return (row * height.stride - height.firstAt) * pitch() + width.low * lanes;
  }

private:
  /// Of a single plane, or of none, which is zeros.
  void fillPlane(const void *image, RowPlace row, bool isPlane, int64_t first,
                 int64_t count, bool isNext, float *to) const;
  int64_t rowsFor(int64_t count) const {
    return (count - 1) * height.stride + height.lastAt - height.firstAt + 1;
  }

  const Axis &depth, &height, &width;
  const RowLoops &loops;
  int64_t planes, copies, atATime, blocks;
};

/// Whether this processor has the instructions, and groups do not lie in
/// several blocks.
bool isPossible(const Shape &shape);

} // namespace pp::runtime::depthwise

#endif // PP_RUNTIME_CPU_DEPTHWISEWINDOWS_H
