//===- ConvGradientTilesTest.cpp - Gradients of weights in tiles ----------===//
#include "cpu/ConvGradientTiles.h"
#include "PlainTiles.h"
#include "cpu/Processor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace pp::runtime;

namespace {

using Axes = ImageAxes;

struct Case {
  int64_t samples, channels, outputs;
  Axes image, window, strides, dilations, padding, result;
};

/// With the processor's tiles, or plain ones.
class ConvGradientTilesTest : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl"))
      GTEST_SKIP() << "this processor cannot pack tiles";
    if (GetParam() && !hasMatrixTiles())
      GTEST_SKIP() << "this processor has no AMX";
  }
};
INSTANTIATE_TEST_SUITE_P(Tiles, ConvGradientTilesTest, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "Amx" : "Plain";
                         });

ImagePlaces placesOf(int64_t channels, const Axes &extents) {
  ImagePlaces places;
  places.axes = {extents[1] * extents[2] * channels, extents[2] * channels,
                 channels};
  places.sample = extents[0] * places.axes[0];
  places.block = 1;
  places.blockChannels = 1;
  return places;
}

ConvGradientTiles::Shape shapeOf(const Case &c) {
  ConvGradientTiles::Shape shape;
  shape.samples = c.samples;
  shape.channels = c.channels;
  shape.outputs = c.outputs;
  shape.image = c.image;
  shape.window = c.window;
  shape.result = c.result;
  shape.strides = c.strides;
  shape.dilations = c.dilations;
  shape.padding = c.padding;
  shape.x = placesOf(c.channels, c.image);
  shape.dy = placesOf(c.outputs, c.result);
  shape.isShort = true;
  return shape;
}

std::vector<uint16_t> makeNumbers(std::minstd_rand &random, int64_t count) {
  std::vector<uint16_t> result(count);
  for (uint16_t &number : result)
    number = toBF16(static_cast<float>(random() % 2001) / 1000 - 1);
  return result;
}

TEST_P(ConvGradientTilesTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (const Case &c : {
           Case{2,
                16,
                20,
                {1, 7, 6},
                {1, 3, 3},
                {1, 1, 1},
                {1, 1, 1},
                {0, 1, 1},
                {1, 7, 6}},
           // Strides and paddings, of which pixels see nothing else.
           Case{3,
                32,
                16,
                {1, 9, 8},
                {1, 3, 2},
                {1, 2, 3},
                {1, 2, 1},
                {0, 3, 1},
                {1, 6, 3}},
           Case{1,
                48,
                40,
                {1, 2, 2},
                {1, 3, 3},
                {1, 1, 1},
                {1, 4, 4},
                {0, 4, 4},
                {1, 2, 2}},
           Case{2,
                64,
                33,
                {1, 8, 8},
                {1, 1, 1},
                {1, 2, 2},
                {1, 1, 1},
                {0, 0, 0},
                {1, 4, 4}},
           Case{2,
                16,
                8,
                {3, 4, 5},
                {2, 3, 3},
                {1, 2, 1},
                {1, 1, 1},
                {1, 1, 0},
                {4, 2, 3}},
           // More than one block of terms and of columns.
           Case{2,
                32,
                24,
                {1, 24, 25},
                {1, 3, 3},
                {1, 1, 1},
                {1, 1, 1},
                {0, 1, 1},
                {1, 24, 25}},
       }) {
    ConvGradientTiles::Shape shape = shapeOf(c);
    ASSERT_TRUE(ConvGradientTiles::isPossible(shape));
    auto x = makeNumbers(random, c.samples * shape.x.sample);
    auto dy = makeNumbers(random, c.samples * shape.dy.sample);
    std::vector<float> gradient(c.outputs * shape.columns(), 9.0f);
    ConvGradientTiles tiles(shape, GetParam() ? matrixTilesAmx : plainTiles);
    std::vector<char> scratchpad(tiles.getScratchpadBytes(), char(0xff));
    tiles.run(x.data(), dy.data(), gradient.data(), scratchpad.data());

    std::vector<double> sums(gradient.size()), sizes(gradient.size());
    for (int64_t sample = 0; sample < c.samples; ++sample)
      for (int64_t i = 0; i < c.result[0] * c.result[1] * c.result[2]; ++i) {
        Axes pixel{i / c.result[2] / c.result[1], i / c.result[2] % c.result[1],
                   i % c.result[2]};
        int64_t places = c.window[0] * c.window[1] * c.window[2];
        for (int64_t place = 0; place < places; ++place) {
          Axes in{place / c.window[2] / c.window[1],
                  place / c.window[2] % c.window[1], place % c.window[2]};
          int64_t xAt = sample * shape.x.sample,
                  dyAt = sample * shape.dy.sample;
          bool isSeen = true;
          for (size_t axis = 0; axis < 3; ++axis) {
            int64_t at = pixel[axis] * c.strides[axis] +
                         in[axis] * c.dilations[axis] - c.padding[axis];
            isSeen &= at >= 0 && at < c.image[axis];
            xAt += at * shape.x.axes[axis];
            dyAt += pixel[axis] * shape.dy.axes[axis];
          }
          for (int64_t o = 0; isSeen && o < c.outputs; ++o)
            for (int64_t channel = 0; channel < c.channels; ++channel) {
              double term = static_cast<double>(fromBF16(x[xAt + channel])) *
                            fromBF16(dy[dyAt + o]);
              int64_t at = (o * c.channels + channel) * places + place;
              sums[at] += term;
              sizes[at] += std::fabs(term);
            }
        }
      }
    for (size_t at = 0; at < gradient.size(); ++at)
      ASSERT_NEAR(gradient[at], sums[at], sizes[at] * 0x1p-19)
          << "at " << at << " of a window of " << c.window[1] << " x "
          << c.window[2];
  }
}

TEST_P(ConvGradientTilesTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  constexpr int64_t first = 13;
  Case c{2,         32,        40,        {1, 20, 30}, {1, 3, 3},
         {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 20, 30}};
  ConvGradientTiles::Shape shape = shapeOf(c);
  auto x = makeNumbers(random, c.samples * shape.x.sample);
  auto dy = makeNumbers(random, c.samples * shape.dy.sample);
  auto run = [&](int64_t outputs, const uint16_t *from) {
    ConvGradientTiles::Shape part = shape;
    part.outputs = outputs;
    ConvGradientTiles tiles(part, GetParam() ? matrixTilesAmx : plainTiles);
    std::vector<char> scratchpad(tiles.getScratchpadBytes());
    std::vector<float> gradient(outputs * shape.columns());
    tiles.run(x.data(), from, gradient.data(), scratchpad.data());
    return gradient;
  };
  std::vector<float> whole = run(c.outputs, dy.data());
  std::vector<float> part = run(c.outputs - first, dy.data() + first);
  EXPECT_EQ(
      std::vector<float>(whole.begin() + first * shape.columns(), whole.end()),
      part);
}

/// What it does not do is left to other code.
TEST(ConvGradientTiles, KnowsWhatIsPossible) {
  ConvGradientTiles::Shape shape = shapeOf({2,
                                            32,
                                            40,
                                            {1, 4, 4},
                                            {1, 1, 1},
                                            {1, 1, 1},
                                            {1, 1, 1},
                                            {0, 0, 0},
                                            {1, 4, 4}});
  EXPECT_TRUE(ConvGradientTiles::isPossible(shape));
  auto changed = [&](auto change) {
    ConvGradientTiles::Shape other = shape;
    change(other);
    return ConvGradientTiles::isPossible(other);
  };
  EXPECT_FALSE(changed([](auto &other) { other.isShort = false; }));
  EXPECT_FALSE(changed([](auto &other) { other.channels = 24; }));
  EXPECT_FALSE(changed([](auto &other) { other.x.block = 16; }));
  EXPECT_FALSE(changed([](auto &other) { other.dy.blockChannels = 16; }));
  EXPECT_FALSE(changed([](auto &other) { other.dy.axes[1] += 40; }));
}

} // namespace
