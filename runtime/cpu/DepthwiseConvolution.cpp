//===- DepthwiseConvolution.cpp -------------------------------------------===//
#include "cpu/DepthwiseConvolution.h"
#include "cpu/ConvEpilogue.h"
#include "plan/DataType.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <iterator>
#include <utility>

using namespace pp::runtime;
using namespace pp::runtime::depthwise;

DepthwiseConvolution::DepthwiseConvolution(const Shape &shape,
                                           Direction direction,
                                           const RowLoops &loops)
    : shape(shape), direction(direction), loops(loops),
      depth(shape, 0, direction), height(shape, 1, direction),
      width(shape, 2, direction), padded(shape, depth, height, width, loops) {
  for (const Axis::Class &planes : depth.classes)
    for (const Axis::Class &rows : height.classes)
      for (const Axis::Class &columns : width.classes) {
        Segments segments(planes, rows, columns, width.stride, padded,
                          shape.window);
        segments.repeat(shape.groupChannels, padded.copyPitch());
        works.push_back({&planes, &rows, &columns, std::move(segments)});
      }
}

int64_t DepthwiseConvolution::lineWidth() const {
  return direction == Direction::Forward ? shape.result[2] : shape.image[2];
}

uint64_t DepthwiseConvolution::getScratchpadBytes() const {
  return alignUp(padded.getBytes()) + padded.blocksAtATime() *
                                          (countWeights() + lineWidth()) *
                                          lanes * sizeof(float);
}

void DepthwiseConvolution::gatherWeights(const void *weights, int64_t channel,
                                         float *to) const {
  const int64_t count = std::min(lanes, shape.channels - channel);
  auto at = [&](int64_t i) {
    return shape.isShort
               ? fromShortFloat(DataType::BF16,
                                static_cast<const uint16_t *>(weights)[i])
               : static_cast<const float *>(weights)[i];
  };
  const int64_t group = shape.groupChannels;
  for (const Work &work : works) {
    const std::vector<int64_t> &indices = work.segments.indices;
    const int64_t ofCopy = static_cast<int64_t>(indices.size()) / group;
    for (int64_t i = 0; i < std::ssize(indices); ++i)
      for (int64_t lane = 0; lane < lanes; ++lane) {
        // Forward it is the output's own, of a channel of its group.
        int64_t output = channel + lane, other = i / ofCopy;
        if (direction == Direction::Backward) {
          const int64_t begin = output / group * group;
          other = std::exchange(output, begin + other) - begin;
        }
        *to++ = lane < count
                    ? at((output * group + other) * windowSize() + indices[i])
                    : 0;
      }
  }
}

void DepthwiseConvolution::writeRows(const float *rows, const float *factors,
                                     const float *bias,
                                     const ConvEpilogue &epilogue, void *to,
                                     RowPlace place, const Axis::Class &planes,
                                     int64_t first, int64_t end,
                                     float *lines) const {
  const int64_t linePitch = lineWidth() * lanes, sample = place.offset;
  const int64_t columns = static_cast<int64_t>(width.classes.size());
  for (int64_t row = first; row < end; ++row) {
    // Works of a row of `to` follow each other.
    int64_t weight = 0;
    for (size_t begin = 0; begin < works.size(); begin += columns) {
      const Axis::Class &own = *works[begin].rows;
      const int64_t firstWeight = weight;
      for (int64_t i = 0; i < columns; ++i)
        weight += works[begin + i].segments.indices.size() * lanes;
      if (works[begin].planes != &planes || row >= own.count)
        continue;
      for (int64_t block = 0; block < place.blocks; ++block) {
        float *line = lines + block * linePitch;
        const float *weights =
            factors + block * countWeights() * lanes + firstWeight;
        for (int64_t i = 0; i < columns; ++i) {
          const Work &work = works[begin + i];
          const Segments &segments = work.segments;
          loops.writeSums({rows + block * padded.blockPitch() +
                               padded.offsetOf(row - first),
                           segments.offsets.data(),
                           static_cast<int64_t>(segments.offsets.size()),
                           segments.length, width.stride, weights,
                           line + work.columns->first * lanes,
                           work.columns->step * lanes, work.columns->count});
          weights += segments.indices.size() * lanes;
        }
        if (bias) {
          const int64_t channel = (place.block + block) * lanes;
          const int64_t count = std::min(lanes, shape.channels - channel);
          for (int64_t pixel = 0; pixel < lineWidth(); ++pixel)
            for (int64_t lane = 0; lane < count; ++lane)
              line[pixel * lanes + lane] += bias[channel + lane];
        }
        epilogue.apply(line, linePitch);
      }
      place.offset =
          sample + (own.first + row * own.step) * place.places->axes[1];
      loops.writeRow(lines, linePitch, place, to);
    }
  }
}

void DepthwiseConvolution::run(const void *from, const void *weights,
                               const float *bias, const ConvEpilogue &epilogue,
                               void *to, const Part &part,
                               void *scratchpad) const {
  const bool isForward = direction == Direction::Forward;
  const ImagePlaces &fromPlaces = isForward ? shape.x : shape.dy;
  const ImagePlaces &toPlaces = isForward ? shape.dy : shape.x;
  const int64_t atATime = padded.blocksAtATime();
  const int64_t factorNumbers = countWeights() * lanes;
  const int64_t rowNumbers = alignUp(padded.getBytes()) / sizeof(float);
  auto *rows = static_cast<float *>(scratchpad);
  float *factors = rows + rowNumbers;
  float *lines = factors + atATime * factorNumbers;
  auto endOf = [](const Part::Range &range) {
    return range.first + range.count;
  };
  const int64_t lastBlock = endOf(part.blocks), lastRow = endOf(part.rows);
  for (int64_t block = part.blocks.first; block < lastBlock; block += atATime) {
    const int64_t blocks = std::min(atATime, lastBlock - block);
    for (int64_t i = 0; i < blocks; ++i)
      gatherWeights(weights, (block + i) * lanes, factors + i * factorNumbers);
    for (int64_t sample = part.samples.first; sample < endOf(part.samples);
         ++sample)
      for (const Axis::Class &planes : depth.classes)
        for (int64_t plane = 0; plane < planes.count; ++plane) {
          RowPlace target = placeOf(toPlaces, sample, block, blocks);
          target.offset +=
              (planes.first + plane * planes.step) * toPlaces.axes[0];
          for (int64_t first = part.rows.first; first < lastRow;
               first += padded.rowsAtATime()) {
            const int64_t end = std::min(first + padded.rowsAtATime(), lastRow);
            padded.fill(from, placeOf(fromPlaces, sample, block, blocks),
                        planes, plane, first, end - first,
                        /*isNext=*/first > part.rows.first, rows);
            writeRows(rows, factors, bias, epilogue, to, target, planes, first,
                      end, lines);
          }
        }
  }
}
