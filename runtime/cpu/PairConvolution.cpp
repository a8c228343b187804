//===- PairConvolution.cpp ------------------------------------------------===//
#include "cpu/PairConvolution.h"
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/PairWeights.h"
#include "cpu/Processor.h"
#include "plan/DataType.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;

static constexpr int64_t lanes = pairColumns;
/// Channels, outputs, and pixels of a row at a time.
static constexpr int64_t channelsAtOnce = 128, outputsAtOnce = 2 * lanes,
                         pixelsAtOnce = 12;

bool PairConvolution::isPossible(const Shape &shape) {
  return hasPairProducts() && shape.channels % lanes == 0 &&
         shape.outputs % lanes == 0 && shape.x.hasTogether(lanes) &&
         shape.dy.hasTogether(lanes);
}

bool PairConvolution::isPreferred(const Shape &shape) {
  // Fewer weights stay in a cache. A single place is no slower in the library.
  constexpr int64_t mostPixels = 128, leastWeights = 1 << 20;
  const int64_t places = countOf(shape.window);
  return hasFastBFloat16() && !hasMatrixTiles() && isPossible(shape) &&
         places > 1 && shape.pixels() <= mostPixels &&
         shape.outputs * shape.channels * places >= leastWeights;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

uint64_t PairConvolution::getWeightBytes(const Shape &shape) {
  return shape.outputs * shape.channels * countOf(shape.window) *
         sizeof(uint16_t);
}

void PairConvolution::packWeights(const Shape &shape, const uint16_t *weights,
                                  uint16_t *to) {
  packPairWeights(weights, shape.outputs, shape.channels, countOf(shape.window),
                  to);
}

//===----------------------------------------------------------------------===//
// The convolution
//===----------------------------------------------------------------------===//

/// What all windows see of an axis.
ImageAxes PairConvolution::paddedImage() const {
  ImageAxes padded;
  for (size_t axis = 0; axis < padded.size(); ++axis)
    padded[axis] = (shape.result[axis] - 1) * shape.strides[axis] +
                   (shape.window[axis] - 1) * shape.dilations[axis] + 1;
  return padded;
}

/// From pixel to pixel of the copy. Those that are a power of two apart would
/// share places of the cache.
int64_t PairConvolution::pitch() const { return shape.channels + 2 * lanes; }

uint64_t PairConvolution::imageBytes() const {
  return alignUp(shape.samples * countOf(paddedImage()) * pitch() *
                 sizeof(uint16_t));
}

uint64_t PairConvolution::getScratchpadBytes() const {
  return imageBytes() + shape.pixels() * outputsAtOnce * sizeof(float);
}

void PairConvolution::copyImage(const uint16_t *x, uint16_t *to) const {
  const ImageAxes padded = paddedImage();
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t z = 0; z < padded[0]; ++z)
      for (int64_t i = 0; i < padded[1]; ++i)
        for (int64_t j = 0; j < padded[2]; ++j, to += pitch()) {
          const ImageAxes at{z - shape.padding[0], i - shape.padding[1],
                             j - shape.padding[2]};
          bool isPixel = true;
          const uint16_t *from = x + sample * shape.x.sample;
          for (size_t axis = 0; axis < at.size(); ++axis) {
            isPixel &= at[axis] >= 0 && at[axis] < shape.image[axis];
            from += at[axis] * shape.x.axes[axis];
          }
          if (!isPixel)
            std::fill_n(to, shape.channels, 0);
          else if (shape.x.isChannelsLast())
            std::memcpy(to, from, shape.channels * sizeof(uint16_t));
          else
            for (int64_t channel = 0; channel < shape.channels;
                 channel += lanes)
              std::memcpy(to + channel, from + shape.x.offsetOfChannel(channel),
                          lanes * sizeof(uint16_t));
        }
}

/// Of 16 outputs of a pixel.
PP_INLINE void finishBody(const float *sums, const float *bias,
                          const ConvEpilogue &epilogue, uint16_t *to) {
  using Lanes = LanesOf<lanes>;
  alignas(64) float numbers[lanes];
  Lanes sum = loadLanes<lanes>(sums);
  if (bias)
    sum += loadLanes<lanes>(bias);
  storeLanes<lanes>(numbers, sum);
  epilogue.apply(numbers, lanes);
  storeLanes<lanes>(to, loadLanes<lanes>(numbers));
}
PP_DOT static void finish(const float *sums, const float *bias,
                          const ConvEpilogue &epilogue, uint16_t *to) {
  finishBody(sums, bias, epilogue, to);
}

void PairConvolution::run(const uint16_t *x, const uint16_t *weights,
                          const float *bias, const ConvEpilogue &epilogue,
                          uint16_t *y, void *scratchpad) const {
  auto *image = static_cast<uint16_t *>(scratchpad);
  auto *sums =
      reinterpret_cast<float *>(static_cast<char *>(scratchpad) + imageBytes());
  copyImage(x, image);
  const ImageAxes padded = paddedImage();
  const auto &[depth, height, width] = shape.result;
  const int64_t places = countOf(shape.window);
  const int64_t panel = places * shape.channels * lanes;
  auto pixelOf = [&](const ImageAxes &at) {
    return (at[0] * padded[1] + at[1]) * padded[2] + at[2];
  };
  // Adds a part of the products of all rows of the result.
  auto addRows = [&](const ImageAxes &place, int64_t channel, int64_t channels,
                     int64_t outputs, const uint16_t *b, bool isAdded) {
    float *to = sums;
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t z = 0; z < depth; ++z)
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; j += pixelsAtOnce) {
            const int64_t count = std::min(pixelsAtOnce, width - j);
            const ImageAxes at{
                z * shape.strides[0] + place[0] * shape.dilations[0],
                i * shape.strides[1] + place[1] * shape.dilations[1],
                j * shape.strides[2] + place[2] * shape.dilations[2]};
            multiplyPairs(
                {image + (sample * countOf(padded) + pixelOf(at)) * pitch() +
                     channel,
                 shape.strides[2] * pitch(), /*aPair=*/2, b, panel,
                 channels / 2},
                count, outputs, to, outputsAtOnce, isAdded);
            to += count * outputsAtOnce;
          }
  };
  for (int64_t output = 0; output < shape.outputs; output += outputsAtOnce) {
    const int64_t outputs = std::min(outputsAtOnce, shape.outputs - output);
    for (int64_t place = 0; place < places; ++place)
      for (int64_t channel = 0; channel < shape.channels;
           channel += channelsAtOnce)
        addRows(splitIndex(place, shape.window), channel,
                std::min(channelsAtOnce, shape.channels - channel), outputs,
                weights + output / lanes * panel +
                    (place * shape.channels + channel) * lanes,
                place + channel > 0);
    const float *from = sums;
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t z = 0; z < depth; ++z)
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j, from += outputsAtOnce) {
            uint16_t *pixel = y + sample * shape.dy.sample +
                              z * shape.dy.axes[0] + i * shape.dy.axes[1] +
                              j * shape.dy.axes[2];
            for (int64_t lane = 0; lane < outputs; lane += lanes)
              finish(from + lane, bias ? bias + output + lane : nullptr,
                     epilogue, pixel + shape.dy.offsetOfChannel(output + lane));
          }
  }
}
