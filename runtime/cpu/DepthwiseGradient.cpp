//===- DepthwiseGradient.cpp ----------------------------------------------===//
#include "cpu/DepthwiseGradient.h"
#include "plan/DataType.h"

#include <algorithm>

using namespace pp::runtime;
using namespace pp::runtime::depthwise;

DepthwiseGradient::DepthwiseGradient(const Shape &shape, bool isAdded,
                                     const RowLoops &loops)
    : shape(shape), isAdded(isAdded), loops(loops),
      depth(shape, 0, Direction::Forward), height(shape, 1, Direction::Forward),
      width(shape, 2, Direction::Forward),
      padded(shape, depth, height, width, loops),
      segments(depth.classes[0], height.classes[0], width.classes[0],
               width.stride, padded, shape.window) {}

int64_t DepthwiseGradient::rowsOfChain() const {
  constexpr int64_t pixels = 64;
  return std::clamp<int64_t>(pixels / shape.result[2], 1, padded.rowsAtATime());
}

uint64_t DepthwiseGradient::getScratchpadBytes() const {
  return alignUp(padded.getBytes()) +
         padded.blocksAtATime() *
             (countWeights() + rowsOfChain() * shape.result[2]) * lanes *
             sizeof(float);
}

void DepthwiseGradient::addRows(const float *rows, const void *dy,
                                RowPlace place, int64_t first, int64_t end,
                                float *factors, float *sums) const {
  const int64_t line = shape.result[2] * lanes, sample = place.offset;
  const int64_t ofBlock = rowsOfChain() * line;
  for (int64_t row = first; row < end; row += rowsOfChain()) {
    const int64_t count = std::min(rowsOfChain(), end - row);
    for (int64_t i = 0; i < count; ++i) {
      place.offset = sample + (row + i) * shape.dy.axes[1];
      loops.readRow(dy, place, factors + i * line, ofBlock);
    }
    for (int64_t block = 0; block < place.blocks; ++block)
      for (int64_t copy = 0; copy < shape.groupChannels; ++copy)
        loops.addProducts(
            {rows + block * padded.blockPitch() + copy * padded.copyPitch() +
                 padded.offsetOf(row - first),
             segments.offsets.data(),
             static_cast<int64_t>(segments.offsets.size()), segments.length,
             width.stride, count, shape.result[2],
             height.stride * padded.pitch(), line, factors + block * ofBlock,
             sums +
                 (block * shape.groupChannels + copy) * windowSize() * lanes});
  }
}

void DepthwiseGradient::run(const void *x, const void *dy, float *gradient,
                            int64_t firstBlock, int64_t blocks,
                            void *scratchpad) const {
  const int64_t atATime = padded.blocksAtATime();
  const int64_t sumNumbers = countWeights() * lanes;
  const int64_t rowNumbers = alignUp(padded.getBytes()) / sizeof(float);
  auto *rows = static_cast<float *>(scratchpad);
  float *sums = rows + rowNumbers;
  float *factors = sums + atATime * sumNumbers;
  for (int64_t block = firstBlock; block < firstBlock + blocks;
       block += atATime) {
    const int64_t some = std::min(atATime, firstBlock + blocks - block);
    std::fill_n(sums, some * sumNumbers, 0.0F);
    auto placeOf = [&](const ImagePlaces &places, int64_t sample) -> RowPlace {
      return {&places, shape.isShort,          shape.channels, block,
              some,    sample * places.sample, shape.result[2]};
    };
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t plane = 0; plane < shape.result[0]; ++plane) {
        RowPlace own = placeOf(shape.dy, sample);
        own.offset += plane * shape.dy.axes[0];
        for (int64_t first = 0; first < shape.result[1];
             first += padded.rowsAtATime()) {
          const int64_t end =
              std::min(first + padded.rowsAtATime(), shape.result[1]);
          padded.fill(x, placeOf(shape.x, sample), depth.classes[0], plane,
                      first, end - first, /*isNext=*/first > 0, rows);
          addRows(rows, dy, own, first, end, factors, sums);
        }
      }
    // Places of the window lie in `indices` as they do in the gradient.
    const int64_t channel = block * lanes;
    const int64_t count = std::min(some * lanes, shape.channels - channel);
    for (int64_t lane = 0; lane < count; ++lane) {
      const float *own = sums + lane / lanes * sumNumbers + lane % lanes;
      float *to = gradient + (channel + lane) * countWeights();
      for (int64_t place = 0; place < countWeights(); ++place) {
        const float sum = own[place * lanes];
        to[place] = isAdded ? to[place] + sum : sum;
      }
    }
  }
}
