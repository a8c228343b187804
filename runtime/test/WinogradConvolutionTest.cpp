//===- WinogradConvolutionTest.cpp - Tiles of 2 x 2 -----------------------===//
#include "cpu/WinogradConvolution.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/TiledProduct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace pp::runtime;
using Numbers = std::vector<float>;
using Direction = WinogradConvolution::Direction;

namespace {

/// Channels last.
ImagePlaces placesOf(int64_t channels, int64_t height, int64_t width) {
  return {height * width * channels,
          1,
          {0, width * channels, channels},
          /*blockChannels=*/1};
}

Numbers randomNumbers(std::minstd_rand &random, int64_t count) {
  std::uniform_real_distribution<float> pick(-1, 1);
  Numbers numbers(count);
  for (float &number : numbers)
    number = pick(random);
  return numbers;
}

/// Of images of `channels` x `height` x `width`, with as much padding on all
/// sides.
struct Case {
  int64_t samples, channels, outputs, height, width, padding;
  Direction direction;

  WinogradConvolution::Shape shape() const {
    WinogradConvolution::Shape shape{};
    shape.samples = samples;
    shape.channels = channels;
    shape.outputs = outputs;
    shape.height = height;
    shape.width = width;
    shape.rows = height + 2 * padding - 2;
    shape.columns = width + 2 * padding - 2;
    shape.padTop = shape.padLeft = padding;
    shape.x = placesOf(channels, height, width);
    shape.y = placesOf(outputs, shape.rows, shape.columns);
    return shape;
  }
  /// The number of a window by which a channel goes into an output.
  int64_t weight(int64_t output, int64_t channel, int64_t i, int64_t j) const {
    return direction == Direction::Forward
               ? (output * channels + channel) * 9 + 3 * i + j
               : (channel * outputs + output) * 9 + 3 * (2 - i) + 2 - j;
  }
};

const ConvEpilogue relu = [] {
  ConvEpilogue epilogue;
  epilogue.hasBias = true;
  epilogue.activation = ConvEpilogue::Relu;
  return epilogue;
}();

Numbers run(const Case &of, const ProductTiles &registers, const Numbers &x,
            const Numbers &weights, const Numbers &bias) {
  WinogradConvolution convolution(of.shape(), registers);
  Numbers transformed(
      WinogradConvolution::getWeightBytes(of.channels, of.outputs) /
      sizeof(float));
  WinogradConvolution::transformWeights(weights.data(), of.direction,
                                        of.channels, of.outputs,
                                        transformed.data(), registers);
  Numbers scratchpad(convolution.getScratchpadBytes() / sizeof(float));
  Numbers y(of.samples * of.shape().y.sample);
  convolution.run(x.data(), transformed.data(), bias.data(), relu, y.data(),
                  scratchpad.data());
  return y;
}

/// Compares with sums in f64, and the tiles of both kinds of registers with
/// each other.
void check(const Case &of, std::minstd_rand &random) {
  const WinogradConvolution::Shape shape = of.shape();
  SCOPED_TRACE(testing::Message() << of.samples << " x " << of.channels << " x "
                                  << of.height << " x " << of.width << " to "
                                  << of.outputs << ", padding " << of.padding);
  Numbers x = randomNumbers(random, of.samples * shape.x.sample);
  Numbers weights = randomNumbers(random, of.channels * of.outputs * 9);
  Numbers bias = randomNumbers(random, of.outputs);
  Numbers y = run(of, productTiles(), x, weights, bias);
  if (&productTiles() != &productTilesAvx2)
    EXPECT_EQ(run(of, productTilesAvx2, x, weights, bias), y);
  auto pixel = [&](int64_t sample, int64_t channel, int64_t row,
                   int64_t column) -> double {
    bool isInside =
        row >= 0 && row < of.height && column >= 0 && column < of.width;
    return isInside ? x[sample * shape.x.sample + row * shape.x.axes[1] +
                        column * shape.x.axes[2] + channel]
                    : 0;
  };
  double most = 0;
  for (int64_t at = 0; at < int64_t(y.size()); ++at) {
    int64_t output = at % of.outputs, column = at / of.outputs % shape.columns;
    int64_t row = at / (of.outputs * shape.columns) % shape.rows;
    double sum = bias[output];
    for (int64_t channel = 0; channel < of.channels; ++channel)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 3; ++j)
          sum += weights[of.weight(output, channel, i, j)] *
                 pixel(at / shape.y.sample, channel, row + i - of.padding,
                       column + j - of.padding);
    most = std::max(most, std::abs(std::max(sum, 0.0) - y[at]));
  }
  // Of sums of so many products of numbers below 1.
  EXPECT_LT(most, 1e-6 * std::sqrt(9.0 * double(of.channels)));
}

TEST(WinogradConvolutionTest, IsAsExactAsSumsOfF32) {
  if (!TiledProduct::isPossible())
    GTEST_SKIP() << "this processor has no such registers";
  std::minstd_rand random(5);
  for (Direction direction : {Direction::Forward, Direction::Backward}) {
    check({1, 16, 16, 1, 1, 1, direction}, random);
    check({1, 32, 80, 7, 7, 1, direction}, random);
    check({2, 48, 16, 5, 9, 0, direction}, random);
    check({3, 16, 32, 4, 3, 2, direction}, random);
    // More terms than are added at once; more tiles.
    check({1, 272, 64, 3, 4, 1, direction}, random);
    check({5, 16, 144, 9, 10, 1, direction}, random);
  }
}

} // namespace
