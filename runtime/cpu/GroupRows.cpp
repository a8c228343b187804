//===- GroupRows.cpp ------------------------------------------------------===//
#include "cpu/GroupRows.h"
#include "cpu/TiledProduct.h"

#include <algorithm>

using namespace pp::runtime;

using Type = KernelBuilder::Type;

static WindowSizes sizesOf(const ConvShape &whole) {
  const size_t ofGroups = whole.groups > 1 ? 3 : 2;
  return KernelBuilder::windowSizes(
      whole.src, whole.dst,
      KernelBuilder::imageAxes(whole.weights.dims(), ofGroups, 1),
      whole.strides, whole.dilations, whole.padLow);
}

bool GroupRows::arePossible(const ConvShape &whole) {
  if (!TiledProduct::isPossible() ||
      whole.algorithm != dnnl::algorithm::convolution_direct ||
      whole.tileEdge != 0 || whole.weights.data_type() != Type::f32)
    return false;
  const WindowSizes sizes = sizesOf(whole);
  auto isReadable = [&](const KernelBuilder::MemoryDesc &image,
                        const ImagePlaces &places) {
    return image.data_type() == Type::f32 &&
           image.dims()[1] / whole.groups % groupLanes == 0 &&
           (places.isChannelsLast() || places.blockChannels == groupLanes);
  };
  return sizes.image[0] == 1 && sizes.result[0] == 1 && sizes.window[0] == 1 &&
         isReadable(whole.src, sizes.x) && isReadable(whole.dst, sizes.dy);
}

GroupRows::GroupRows(const ConvShape &whole, ConvDirection direction,
                     int64_t mostBytes)
    : sizes(sizesOf(whole)), groups(whole.groups), height(sizes, 1, direction),
      width(sizes, 2, direction), from{sizes.x, sizes.channels / groups},
      to{sizes.dy, whole.outputChannels / groups} {
  if (direction == ConvDirection::Backward)
    std::swap(from, to);
  columnsOfPhase =
      (width.low + width.extent + width.high + width.stride - 1) / width.stride;
  const int64_t rowBytes =
      rowPitch() * from.vectors() * static_cast<int64_t>(sizeof(float));
  const int64_t more = mostBytes / rowBytes - copiedRows(1);
  if (more > 0)
    atATime = std::min(1 + more / height.stride, height.longestCount);
  for (const depthwise::Axis::Class &rows : height.classes)
    for (const depthwise::Axis::Class &columns : width.classes) {
      Work work{rows, columns, {}, {}};
      for (const depthwise::Axis::Tap &row : rows.taps)
        for (const depthwise::Axis::Tap &column : columns.taps) {
          work.places.push_back(row.index * sizes.window[2] + column.index);
          const int64_t at = width.low + column.at;
          const int64_t place =
              (row.at - height.firstAt) * rowPitch() +
              (at % width.stride * columnsOfPhase + at / width.stride) *
                  groupLanes;
          for (int64_t vector = 0; vector < from.vectors(); ++vector)
            work.offsets.push_back(vector * channelPitch() + place);
        }
      works.push_back(std::move(work));
    }
}

void GroupRows::copy(const float *image, int64_t first, int64_t count,
                     float *to) const {
  const int64_t begin = first * height.stride + height.firstAt;
  const int64_t step = from.places.axes[2], stride = width.stride;
  for (int64_t row = 0; row < copiedRows(count); ++row) {
    const int64_t line = begin + row;
    const bool isInside = line >= 0 && line < height.extent;
    for (int64_t vector = 0; vector < from.vectors(); ++vector) {
      float *copied = to + vector * channelPitch() + row * rowPitch();
      if (!isInside) {
        std::fill_n(copied, rowPitch(), 0.0F);
        continue;
      }
      const float *pixels =
          image + line * from.places.axes[1] + vector * from.vectorPitch();
      for (int64_t phase = 0; phase < stride; ++phase) {
        // Columns phase + i * stride, of which [low, high) are of the image.
        auto countBelow = [&](int64_t column) {
          return std::clamp<int64_t>((column - phase + stride - 1) / stride, 0,
                                     columnsOfPhase);
        };
        const int64_t low = countBelow(width.low),
                      high = countBelow(width.low + width.extent);
        copied = std::fill_n(copied, low * groupLanes, 0.0F);
        copyGroupPixels(pixels + (phase + low * stride - width.low) * step,
                        stride * step, high - low, copied);
        copied = std::fill_n(copied + (high - low) * groupLanes,
                             (columnsOfPhase - high) * groupLanes, 0.0F);
      }
    }
  }
}
