//===- ConvTilesCases.h - Convolutions for matrix tiles ---------*- C++ -*-===//
#ifndef PP_RUNTIME_TEST_CONVTILESCASES_H
#define PP_RUNTIME_TEST_CONVTILESCASES_H

#include "PlainTiles.h"
#include "cpu/ConvGradientProduct.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace pp::runtime {

struct ConvTilesCase {
  int64_t samples, channels, outputs;
  ImageAxes image, window, strides, dilations, padding, result;

  /// bf16 with channels last, or in blocks of 16.
  ConvGradientProduct::Shape shape(bool isInBlocks = false) const {
    auto places = [&](int64_t channels, const ImageAxes &extents) {
      const int64_t pixel = isInBlocks ? 16 : channels;
      ImagePlaces result;
      result.axes = {extents[1] * extents[2] * pixel, extents[2] * pixel,
                     pixel};
      result.sample = countOf(extents) * channels;
      result.block = isInBlocks ? countOf(extents) * pixel : 1;
      result.blockChannels = isInBlocks ? pixel : 1;
      return result;
    };
    ConvGradientProduct::Shape shape;
    shape.samples = samples;
    shape.channels = channels;
    shape.outputs = outputs;
    shape.image = image;
    shape.window = window;
    shape.result = result;
    shape.strides = strides;
    shape.dilations = dilations;
    shape.padding = padding;
    shape.x = places(channels, image);
    shape.dy = places(outputs, result);
    shape.isShort = true;
    return shape;
  }
};

inline std::vector<ConvTilesCase> convTilesCases() {
  return {
      {2,
       16,
       32,
       {1, 7, 6},
       {1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 1},
       {1, 7, 6}},
      // Strides, and paddings of which pixels see nothing else.
      {3,
       32,
       32,
       {1, 9, 8},
       {1, 3, 2},
       {1, 2, 3},
       {1, 2, 1},
       {0, 3, 1},
       {1, 6, 3}},
      {1,
       48,
       64,
       {1, 2, 2},
       {1, 3, 3},
       {1, 1, 1},
       {1, 4, 4},
       {0, 4, 4},
       {1, 2, 2}},
      // Pixels that nothing sees.
      {2,
       64,
       32,
       {1, 8, 8},
       {1, 1, 1},
       {1, 2, 2},
       {1, 1, 1},
       {0, 0, 0},
       {1, 4, 4}},
      {2,
       16,
       32,
       {3, 4, 5},
       {2, 3, 3},
       {1, 2, 1},
       {1, 1, 1},
       {1, 1, 0},
       {4, 2, 3}},
      // More than one block of terms and of columns.
      {2,
       32,
       96,
       {1, 24, 25},
       {1, 4, 3},
       {1, 1, 2},
       {1, 1, 1},
       {0, 1, 1},
       {1, 23, 13}},
      {1,
       304,
       160,
       {1, 5, 3},
       {1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 1},
       {1, 5, 3}},
  };
}

/// Calls visit(offset of a pixel of x, of one of dY, place of the window) for
/// all that meet.
inline void
forEachMeeting(const ConvGradientProduct::Shape &shape,
               const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  const int64_t pixels = countOf(shape.result);
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t i = 0; i < pixels; ++i)
      for (int64_t place = 0; place < countOf(shape.window); ++place) {
        const ImageAxes pixel = splitIndex(i, shape.result);
        const ImageAxes in = splitIndex(place, shape.window);
        int64_t x = sample * shape.x.sample, dy = sample * shape.dy.sample;
        bool isSeen = true;
        for (size_t axis = 0; axis < 3; ++axis) {
          int64_t at = pixel[axis] * shape.strides[axis] +
                       in[axis] * shape.dilations[axis] - shape.padding[axis];
          isSeen &= at >= 0 && at < shape.image[axis];
          x += at * shape.x.axes[axis];
          dy += pixel[axis] * shape.dy.axes[axis];
        }
        if (isSeen)
          visit(x, dy, place);
      }
}

inline std::vector<uint16_t> makeShortNumbers(std::minstd_rand &random,
                                              int64_t count) {
  std::vector<uint16_t> result(count);
  for (uint16_t &number : result)
    number = toBF16(static_cast<float>(random() % 2001) / 1000 - 1);
  return result;
}

/// Compares the gradient of weights with a sum over all that meet, or with what
/// was there before and that sum.
template <typename Product>
void compareGradientWithLoops(const ConvGradientProduct::Shape &shape,
                              const MatrixTiles &tiles,
                              std::minstd_rand &random) {
  ASSERT_TRUE(Product::isPossible(shape));
  auto x = makeShortNumbers(random, shape.samples * shape.x.sample);
  auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
  constexpr float before = 9;
  std::vector<float> gradient(shape.outputs * shape.columns(), before);
  const Product product(shape, tiles);
  constexpr int64_t behind = 64;
  const auto bytes = static_cast<int64_t>(product.getScratchpadBytes());
  std::vector<char> scratchpad(bytes + behind, char(0xff));
  product.run(x.data(), dy.data(), gradient.data(), scratchpad.data());
  EXPECT_EQ(
      std::count(scratchpad.begin() + bytes, scratchpad.end(), char(0xff)),
      behind);

  std::vector<double> sums(gradient.size(), shape.isAdded ? before : 0);
  std::vector<double> sizes = sums;
  const int64_t places = shape.columns() / shape.channels;
  forEachMeeting(shape, [&](int64_t xAt, int64_t dyAt, int64_t place) {
    for (int64_t o = 0; o < shape.outputs; ++o)
      for (int64_t channel = 0; channel < shape.channels; ++channel) {
        double term = static_cast<double>(
                          fromBF16(x[xAt + shape.x.offsetOfChannel(channel)])) *
                      fromBF16(dy[dyAt + shape.dy.offsetOfChannel(o)]);
        int64_t at = (o * shape.channels + channel) * places + place;
        sums[at] += term;
        sizes[at] += std::fabs(term);
      }
  });
  for (size_t at = 0; at < gradient.size(); ++at)
    ASSERT_NEAR(gradient[at], sums[at], sizes[at] * 0x1p-19)
        << "at " << at << " with " << shape.channels << " channels";
}

/// Compares the gradient of all outputs but the first ones with that of a part
/// that has these.
template <typename Product>
void comparePartWithWhole(const ConvGradientProduct::Shape &shape,
                          int64_t first, const MatrixTiles &tiles,
                          std::minstd_rand &random) {
  auto x = makeShortNumbers(random, shape.samples * shape.x.sample);
  auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
  auto run = [&](int64_t outputs, const uint16_t *from) {
    ConvGradientProduct::Shape part = shape;
    part.outputs = outputs;
    const Product product(part, tiles);
    std::vector<char> scratchpad(product.getScratchpadBytes());
    std::vector<float> gradient(outputs * shape.columns());
    product.run(x.data(), from, gradient.data(), scratchpad.data());
    return gradient;
  };
  std::vector<float> whole = run(shape.outputs, dy.data());
  std::vector<float> part =
      run(shape.outputs - first, dy.data() + shape.dy.offsetOfChannel(first));
  whole.erase(whole.begin(), whole.begin() + first * shape.columns());
  EXPECT_EQ(whole, part);
}

} // namespace pp::runtime

#endif // PP_RUNTIME_TEST_CONVTILESCASES_H
