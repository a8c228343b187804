//===- DepthwiseWindows.cpp -----------------------------------------------===//
#include "cpu/DepthwiseWindows.h"
#include "cpu/TiledProduct.h"

#include <algorithm>

using namespace pp::runtime;
using namespace pp::runtime::depthwise;

bool depthwise::isPossible(const Shape &shape) {
  const int64_t group = shape.groupChannels;
  return TiledProduct::isPossible() &&
         (group == 1 || group == 2 || group == 4 || group == 8);
}

Axis::Axis(const WindowSizes &sizes, size_t axis, Direction direction) {
  const int64_t window = sizes.window[axis], move = sizes.strides[axis];
  const int64_t dilation = sizes.dilations[axis], padding = sizes.padding[axis];
  if (direction == Direction::Forward) {
    extent = sizes.image[axis];
    stride = move;
    Class all{0, 1, sizes.result[axis], {}};
    for (int64_t index = 0; index < window; ++index)
      all.taps.push_back({index, index * dilation - padding});
    classes.push_back(std::move(all));
  } else {
    extent = sizes.result[axis];
    stride = 1;
    const int64_t pixels = sizes.image[axis];
    for (int64_t first = 0; first < std::min(move, pixels); ++first) {
      Class some{first, move, (pixels - first + move - 1) / move, {}};
      for (int64_t index = window; index-- > 0;) {
        // Pixel p sees dY at o, where o * stride = p + padding -
        // index * dilation.
        const int64_t at = first + padding - index * dilation;
        if (at % move == 0)
          some.taps.push_back({index, at / move});
      }
      classes.push_back(std::move(some));
    }
  }
  for (const Class &some : classes) {
    longestCount = std::max(longestCount, some.count);
    if (some.taps.empty())
      continue;
    firstAt = std::min(firstAt, some.taps.front().at);
    lastAt = std::max(lastAt, some.taps.back().at);
  }
  low = -firstAt;
  high =
      std::max<int64_t>(0, (longestCount - 1) * stride + lastAt + 1 - extent);
}

Segments::Segments(const Axis::Class &planes, const Axis::Class &rows,
                   const Axis::Class &columns, int64_t stride,
                   const PaddedRows &padded, const ImageAxes &window) {
  const int64_t count = static_cast<int64_t>(columns.taps.size());
  bool areTogether = stride <= 2;
  for (int64_t i = 1; i < count; ++i)
    areTogether &= columns.taps[i].at == columns.taps[0].at + i;
  if (areTogether)
    for (int64_t i = 2; i <= std::min(count, longestSegment); ++i)
      if (count % i == 0)
        length = i;
  for (size_t plane = 0; plane < planes.taps.size(); ++plane)
    for (const Axis::Tap &row : rows.taps)
      for (int64_t i = 0; i < count; ++i) {
        const Axis::Tap &column = columns.taps[i];
        if (i % length == 0)
          offsets.push_back(static_cast<int64_t>(plane) * padded.planePitch() +
                            row.at * padded.pitch() + column.at * lanes);
        indices.push_back((planes.taps[plane].index * window[1] + row.index) *
                              window[2] +
                          column.index);
      }
}

void Segments::repeat(int64_t copies, int64_t copyPitch) {
  const std::vector<int64_t> ownOffsets = offsets, ownIndices = indices;
  for (int64_t copy = 1; copy < copies; ++copy) {
    for (int64_t offset : ownOffsets)
      offsets.push_back(offset + copy * copyPitch);
    indices.insert(indices.end(), ownIndices.begin(), ownIndices.end());
  }
}

PaddedRows::PaddedRows(const Shape &shape, const Axis &depth,
                       const Axis &height, const Axis &width,
                       const RowLoops &loops)
    : depth(depth), height(height), width(width), loops(loops), planes(1),
      copies(shape.groupChannels), blocks(1) {
  for (const Axis::Class &some : depth.classes)
    planes = std::max(planes, static_cast<int64_t>(some.taps.size()));
  const int64_t span = rowsFor(1);
  const int64_t ofRow = planes * copies * pitch();
  int64_t cached = ((planes * copies > 1 ? 256 : 64) << 10) / sizeof(float);
  if (shape.isChannelsLast()) {
    cached = (384 << 10) / sizeof(float); // in the second level
    // Those that are moved for the next rows should not be the most of them.
    const int64_t least = rowsFor(std::min<int64_t>(4, height.longestCount));
    const int64_t most = std::max<int64_t>(1, cached / (least * ofRow));
    const int64_t rounds = (shape.blocks() + most - 1) / most;
    blocks = (shape.blocks() + rounds - 1) / rounds;
  }
  const int64_t rows = cached / blocks / ofRow;
  atATime = rows <= span ? 1 : (rows - span) / height.stride + 1;
  atATime = std::min(atATime, height.longestCount);
}

int64_t PaddedRows::copyPitch() const {
  // Those that are a power of two apart would share places of the cache.
  return rowsFor(atATime) * pitch() + lanes;
}

void PaddedRows::fill(const void *image, const RowPlace &row,
                      const Axis::Class &planes, int64_t plane, int64_t first,
                      int64_t count, bool isNext, float *to) const {
  for (const Axis::Tap &tap : planes.taps) {
    const int64_t at = plane * depth.stride + tap.at;
    RowPlace own = row;
    own.offset += at * row.places->axes[0];
    fillPlane(image, own, at >= 0 && at < depth.extent, first, count, isNext,
              to);
    to += planePitch();
  }
}

void PaddedRows::fillPlane(const void *image, RowPlace row, bool isPlane,
                           int64_t first, int64_t count, bool isNext,
                           float *to) const {
  const int64_t begin = first * height.stride + height.firstAt;
  const int64_t rows = rowsFor(count);
  const int64_t before = (first - atATime) * height.stride + height.firstAt;
  const int64_t kept =
      isNext ? std::clamp<int64_t>(before + rowsFor(atATime) - begin, 0, rows)
             : 0;
  for (int64_t copy = 0; copy < row.blocks * copies; ++copy) {
    float *own =
        to + copy / copies * blockPitch() + copy % copies * copyPitch();
    if (kept > 0)
      std::copy_n(own + (begin - before) * pitch(), kept * pitch(), own);
    for (int64_t i = kept; i < rows; ++i) {
      const bool isRow = isPlane && begin + i >= 0 && begin + i < height.extent;
      float *line = own + i * pitch();
      const int64_t left = isRow ? width.low : width.low + width.extent;
      std::fill_n(line, left * lanes, 0.0F);
      std::fill_n(line + (width.low + width.extent) * lanes, width.high * lanes,
                  0.0F);
    }
  }
  row.width = width.extent;
  const int64_t sample = row.offset;
  for (int64_t i = kept; i < rows; ++i) {
    const int64_t at = begin + i;
    if (!isPlane || at < 0 || at >= height.extent)
      continue;
    row.offset = sample + at * row.places->axes[1];
    float *line = to + i * pitch() + width.low * lanes;
    loops.readRow(image, row, line, blockPitch());
    for (int64_t block = 0; copies > 1 && block < row.blocks; ++block)
      loops.spreadGroups(line + block * blockPitch(), width.extent, copies,
                         copyPitch());
  }
}
