//===- ConvGradientRows.cpp -----------------------------------------------===//
#include "cpu/ConvGradientRows.h"
#include "cpu/Processor.h"
#include "plan/DataType.h"

#include <algorithm>

using namespace pp::runtime;

/// Numbers of x that a row of the window sees.
static int64_t countInRow(const WindowSizes &sizes) {
  return sizes.window[2] * sizes.channels;
}

/// One sample, copied, whose channels are what a row of the window sees.
static ConvGradientRows::Shape
makeSample(const ConvGradientRows::Shape &shape) {
  const int64_t seen =
      (shape.result[2] - 1) * shape.strides[2] + shape.window[2];
  const int64_t row =
      std::max(shape.padding[2] + shape.image[2], seen) * shape.channels;
  ConvGradientRows::Shape result = shape;
  result.samples = 1;
  result.channels = (countInRow(shape) + matrixTileLanes - 1) /
                    matrixTileLanes * matrixTileLanes;
  result.image[2] = shape.result[2];
  result.window[2] = result.strides[2] = 1;
  result.padding[2] = 0;
  result.x.axes = {row * shape.image[1], row,
                   shape.strides[2] * shape.channels};
  result.x.sample = row * shape.image[1] * shape.image[0];
  result.isAdded = false;
  return result;
}

static ConvGradientRows::Shape added(ConvGradientRows::Shape shape) {
  shape.isAdded = true;
  return shape;
}

bool ConvGradientRows::isPossible(const Shape &shape) {
  return shape.isShort && shape.x.isChannelsLast() &&
         shape.x.axes[2] == shape.channels &&
         shape.channels % matrixTileLanes != 0 && shape.dilations[2] == 1 &&
         ConvGradientShifts::isPossible(makeSample(shape));
}

bool ConvGradientRows::isPreferred(const Shape &shape) {
  constexpr int64_t fewestPixels = 256, mostPercent = 200;
  if (!hasMatrixTiles() || countOf(shape.window) == 1 ||
      shape.pixels() < fewestPixels || !isPossible(shape))
    return false;
  const Shape sample = makeSample(shape);
  return sample.channels <= 2 * countInRow(shape) &&
         ConvGradientShifts(sample, *shortTiles()).packedPercent() <=
             mostPercent;
}

ConvGradientRows::ConvGradientRows(const Shape &shape, const MatrixTiles &tiles)
    : shape(shape), sample(makeSample(shape)), first(sample, tiles),
      next(added(sample), tiles) {}

uint64_t ConvGradientRows::measureImage() const {
  // The last pixel is read with as many numbers as the others.
  return alignUp((sample.x.sample + sample.channels) * sizeof(uint16_t));
}

uint64_t ConvGradientRows::measureSums() const {
  return alignUp(sample.outputs * sample.columns() * sizeof(float));
}

uint64_t ConvGradientRows::getScratchpadBytes() const {
  return measureImage() + measureSums() +
         std::max(first.getScratchpadBytes(), next.getScratchpadBytes());
}

void ConvGradientRows::copyImage(const uint16_t *x, uint16_t *to) const {
  const int64_t before = shape.padding[2] * shape.channels;
  const int64_t numbers = shape.image[2] * shape.channels;
  const int64_t row = sample.x.axes[1];
  for (int64_t z = 0; z < shape.image[0]; ++z)
    for (int64_t y = 0; y < shape.image[1]; ++y, to += row) {
      std::fill_n(to, before, 0);
      std::copy_n(x + z * shape.x.axes[0] + y * shape.x.axes[1], numbers,
                  to + before);
      std::fill(to + before + numbers, to + row, 0);
    }
  std::fill_n(to, sample.channels, 0);
}

void ConvGradientRows::writeSums(const float *sums, float *gradient) const {
  const int64_t rows = countOf(sample.window), width = shape.window[2];
  for (int64_t output = 0; output < shape.outputs; ++output) {
    const float *own = sums + output * sample.columns();
    for (int64_t channel = 0; channel < shape.channels; ++channel)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t place = 0; place < width; ++place, ++gradient) {
          const float sum =
              own[(place * shape.channels + channel) * rows + row];
          *gradient = shape.isAdded ? *gradient + sum : sum;
        }
  }
}

void ConvGradientRows::run(const void *x, const void *dy, float *gradient,
                           void *scratchpad) const {
  auto *image = static_cast<uint16_t *>(scratchpad);
  char *behind = static_cast<char *>(scratchpad) + measureImage();
  auto *sums = reinterpret_cast<float *>(behind);
  behind += measureSums();
  for (int64_t i = 0; i < shape.samples; ++i) {
    copyImage(static_cast<const uint16_t *>(x) + i * shape.x.sample, image);
    (i == 0 ? first : next)
        .run(image, static_cast<const uint16_t *>(dy) + i * shape.dy.sample,
             sums, behind);
  }
  writeSums(sums, gradient);
}
