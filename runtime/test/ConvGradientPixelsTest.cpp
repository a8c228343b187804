//===- ConvGradientPixelsTest.cpp - Gradients of weights with AVX2 --------===//
#include "cpu/ConvGradientPixels.h"
#include "ConvTilesCases.h"
#include "cpu/Processor.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <vector>

using namespace pp::runtime;

namespace {

enum class Layout { Plain, ChannelsLast, Blocked8 };

/// A convolution with groups, of whose channels `channels` and `outputs` are
/// those of one.
struct PixelsCase {
  int64_t samples, channels, outputs, groups;
  ImageAxes image, window, strides, dilations, padding, result;
  Layout layout;

  static ImagePlaces placesOf(Layout layout, int64_t channels,
                              const ImageAxes &extents) {
    const int64_t pixel = layout == Layout::Plain      ? 1
                          : layout == Layout::Blocked8 ? 8
                                                       : channels;
    ImagePlaces places;
    places.axes = {extents[1] * extents[2] * pixel, extents[2] * pixel, pixel};
    places.sample = countOf(extents) * channels;
    places.block =
        layout == Layout::ChannelsLast ? 1 : countOf(extents) * pixel;
    places.blockChannels = layout == Layout::Blocked8 ? 8 : 1;
    return places;
  }

  ConvGradientPixels::Shape shape(bool isAdded) const {
    auto shape = ConvTilesCase{samples, channels,  outputs, image, window,
                               strides, dilations, padding, result}
                     .shape();
    shape.isShort = false;
    shape.x = placesOf(layout, channels * groups, image);
    shape.dy = placesOf(layout, outputs * groups, result);
    shape.isAdded = isAdded;
    return shape;
  }
};

std::vector<PixelsCase> pixelsCases() {
  return {
      // Several bands: rows of an image, images, and columns of a row.
      {2,
       8,
       8,
       1,
       {1, 30, 60},
       {1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 1},
       {1, 30, 60},
       Layout::Blocked8},
      {11,
       16,
       12,
       1,
       {1, 9, 10},
       {1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 0, 2},
       {1, 7, 12},
       Layout::ChannelsLast},
      {2,
       16,
       8,
       1,
       {1, 1, 1700},
       {1, 1, 5},
       {1, 1, 1},
       {1, 1, 3},
       {0, 0, 6},
       {1, 1, 1700},
       Layout::Blocked8},
      // Channels and outputs that fill no block, a place that is left over, and
      // strides of which some pixels are seen by no place.
      {3,
       11,
       13,
       1,
       {1, 12, 13},
       {1, 2, 2},
       {1, 3, 3},
       {1, 3, 6},
       {0, 2, 4},
       {1, 4, 4},
       Layout::Plain},
      {2,
       8,
       5,
       1,
       {1, 11, 17},
       {1, 2, 2},
       {1, 2, 4},
       {1, 1, 1},
       {0, 0, 0},
       {1, 5, 4},
       Layout::ChannelsLast},
      // More padding than pixels.
      {1,
       24,
       16,
       1,
       {1, 2, 3},
       {1, 3, 3},
       {1, 1, 1},
       {1, 4, 4},
       {0, 4, 4},
       {1, 2, 3},
       Layout::Blocked8},
      // Depth, of which some planes are a band, and one of which rows are.
      {2,
       8,
       8,
       1,
       {7, 12, 13},
       {3, 3, 2},
       {2, 1, 1},
       {1, 2, 1},
       {1, 2, 0},
       {4, 12, 12},
       Layout::Blocked8},
      {1,
       9,
       4,
       1,
       {3, 30, 40},
       {2, 2, 3},
       {1, 1, 1},
       {2, 1, 1},
       {0, 0, 1},
       {1, 29, 40},
       Layout::Plain},
      // Groups whose channels lie in two blocks.
      {2,
       12,
       12,
       4,
       {1, 9, 9},
       {1, 3, 3},
       {1, 2, 2},
       {1, 1, 1},
       {0, 1, 1},
       {1, 5, 5},
       Layout::Blocked8},
      {2,
       8,
       20,
       3,
       {1, 6, 7},
       {1, 3, 1},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 0},
       {1, 6, 7},
       Layout::Plain},
  };
}

/// Whole numbers, of which all sums are exact.
std::vector<float> wholeNumbers(int64_t count, std::minstd_rand &random) {
  std::vector<float> result(count);
  for (float &value : result)
    value = static_cast<float>(static_cast<int>(random() % 9)) - 4;
  return result;
}

struct Tensors {
  std::vector<float> x, dy, gradient;

  Tensors(const PixelsCase &each, std::minstd_rand &random)
      : x(wholeNumbers(each.samples * each.channels * each.groups *
                           countOf(each.image),
                       random)),
        dy(wholeNumbers(each.samples * each.outputs * each.groups *
                            countOf(each.result),
                        random)),
        gradient(wholeNumbers(each.groups * each.outputs * each.channels *
                                  countOf(each.window),
                              random)) {}
};

float gradientAt(const ConvGradientPixels::Shape &shape, const Tensors &of,
                 int64_t group, int64_t output, int64_t channel,
                 const ImageAxes &place) {
  float sum = 0;
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t pixel = 0; pixel < countOf(shape.result); ++pixel) {
      const ImageAxes at = splitIndex(pixel, shape.result);
      int64_t from = sample * shape.x.sample +
                     shape.x.offsetOfChannel(group * shape.channels + channel);
      int64_t to = sample * shape.dy.sample +
                   shape.dy.offsetOfChannel(group * shape.outputs + output);
      bool isInside = true;
      for (size_t axis = 0; axis < at.size(); ++axis) {
        const int64_t seen = at[axis] * shape.strides[axis] +
                             place[axis] * shape.dilations[axis] -
                             shape.padding[axis];
        isInside = isInside && seen >= 0 && seen < shape.image[axis];
        from += seen * shape.x.axes[axis];
        to += at[axis] * shape.dy.axes[axis];
      }
      if (isInside)
        sum += of.x[from] * of.dy[to];
    }
  return sum;
}

std::vector<float> inLoops(const ConvGradientPixels::Shape &shape,
                           int64_t groups, const Tensors &of) {
  std::vector<float> result;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t output = 0; output < shape.outputs; ++output)
      for (int64_t channel = 0; channel < shape.channels; ++channel)
        for (int64_t place = 0; place < countOf(shape.window); ++place) {
          const float before = shape.isAdded ? of.gradient[result.size()] : 0;
          result.push_back(before +
                           gradientAt(shape, of, group, output, channel,
                                      splitIndex(place, shape.window)));
        }
  return result;
}

/// A scratchpad of what a kernel asks for, with what no kernel may use.
std::vector<float> scratchpadOf(const ConvGradientPixels &gradient) {
  EXPECT_EQ(gradient.getScratchpadBytes() % 64, 0U);
  return std::vector<float>(gradient.getScratchpadBytes() / sizeof(float),
                            std::numeric_limits<float>::quiet_NaN());
}

class ConvGradientPixelsTest : public testing::TestWithParam<size_t> {
protected:
  void SetUp() override {
    if (!TiledProduct::isPossible())
      GTEST_SKIP() << "this processor has no AVX2";
  }
  PixelsCase each = pixelsCases()[GetParam()];
};

INSTANTIATE_TEST_SUITE_P(All, ConvGradientPixelsTest,
                         testing::Range<size_t>(0, pixelsCases().size()));

TEST_P(ConvGradientPixelsTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (bool isAdded : {false, true}) {
    const auto shape = each.shape(isAdded);
    ASSERT_TRUE(ConvGradientPixels::isPossible(shape));
    Tensors tensors(each, random);
    const std::vector<float> expected = inLoops(shape, each.groups, tensors);
    const ConvGradientPixels gradient(shape);
    std::vector<float> scratchpad = scratchpadOf(gradient);
    gradient.runGroups(tensors.x.data(), tensors.dy.data(), /*first=*/0,
                       each.groups, tensors.gradient.data(), scratchpad.data());
    EXPECT_EQ(tensors.gradient, expected);
  }
}

/// Of outputs of one group; numbers whose sums are rounded.
TEST_P(ConvGradientPixelsTest, PartsHaveTheBitsOfTheWhole) {
  if (each.groups > 1 || each.outputs < 8 || each.layout == Layout::Blocked8)
    return; // of a part, dY would lie otherwise
  std::minstd_rand random(5);
  Tensors tensors(each, random);
  for (float &value : tensors.x)
    value += static_cast<float>(random() % 1000) / 777;
  auto run = [&](int64_t first, int64_t outputs) {
    auto shape = each.shape(/*isAdded=*/true);
    shape.outputs = outputs;
    const ConvGradientPixels gradient(shape);
    std::vector<float> scratchpad = scratchpadOf(gradient);
    std::vector<float> result = tensors.gradient;
    const int64_t row = each.channels * countOf(each.window);
    gradient.run(tensors.x.data(),
                 tensors.dy.data() + shape.dy.offsetOfChannel(first),
                 result.data() + first * row, scratchpad.data());
    return std::vector<float>(result.begin() + first * row,
                              result.begin() + (first + outputs) * row);
  };
  const std::vector<float> whole = run(0, each.outputs);
  std::vector<float> parts = run(0, 3);
  const std::vector<float> rest = run(3, each.outputs - 3);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST(ConvGradientPixels, KnowsWhereItIsPreferred) {
  auto isPreferred = [](auto change) {
    PixelsCase image = {4,
                        16,
                        16,
                        1,
                        {1, 14, 14},
                        {1, 3, 3},
                        {1, 1, 1},
                        {1, 1, 1},
                        {0, 1, 1},
                        {1, 14, 14},
                        Layout::Blocked8};
    auto shape = image.shape(/*isAdded=*/false);
    change(shape);
    return ConvGradientPixels::isPreferred(shape);
  };
  EXPECT_EQ(isPreferred([](auto &) {}),
            TiledProduct::isPossible() && !hasAvx512());
  EXPECT_FALSE(isPreferred([](auto &shape) { shape.isShort = true; }));
  EXPECT_FALSE(isPreferred([](auto &shape) { shape.channels = 3; }));
  EXPECT_FALSE(isPreferred([](auto &shape) { shape.outputs = 2; }));
  EXPECT_FALSE(isPreferred([](auto &shape) { shape.samples = 0; }));
  EXPECT_FALSE(isPreferred([](auto &shape) { shape.window = {1, 1, 1}; }));
  EXPECT_FALSE(isPreferred([](auto &shape) { shape.strides = {1, 3, 3}; }));
  EXPECT_FALSE(isPreferred([](auto &shape) {
    shape.outputs = 8;
    shape.strides = {1, 2, 1};
  }));
}

} // namespace
