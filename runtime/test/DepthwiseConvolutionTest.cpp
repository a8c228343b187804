//===- DepthwiseConvolutionTest.cpp - A window for each channel -----------===//
#include "cpu/DepthwiseConvolution.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/DepthwiseGradient.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <random>
#include <vector>

using namespace pp::runtime;
using Direction = depthwise::Direction;

namespace {

using Numbers = std::vector<float>;

enum class Places { Plain, ChannelsLast, Blocked8, Blocked16 };

struct Case {
  int64_t samples, channels;
  ImageAxes image, window, strides, dilations, padding;
  Places x, y;
  bool isShort;
  int64_t groupChannels = 1;
};

void PrintTo(const Case &given, std::ostream *out) {
  *out << given.samples << "x" << given.channels;
  for (const ImageAxes *axes : {&given.image, &given.window, &given.strides,
                                &given.dilations, &given.padding})
    *out << " " << (*axes)[0] << "x" << (*axes)[1] << "x" << (*axes)[2];
  *out << " " << static_cast<int>(given.x) << " " << static_cast<int>(given.y)
       << (given.isShort ? " bf16 " : " f32 ") << given.groupChannels;
}

ImagePlaces placesOf(Places places, int64_t channels, const ImageAxes &axes) {
  const int64_t pixel = places == Places::Plain          ? 1
                        : places == Places::ChannelsLast ? channels
                        : places == Places::Blocked8     ? 8
                                                         : 16;
  const bool isLast = places == Places::ChannelsLast;
  return {channels * countOf(axes),
          isLast ? 1 : pixel * countOf(axes),
          {axes[1] * axes[2] * pixel, axes[2] * pixel, pixel},
          isLast ? 1 : pixel};
}

/// An image of f32 or of bf16, whose numbers are such.
struct Image {
  Numbers longs;
  std::vector<uint16_t> shorts;
  bool isShort;

  Image(int64_t count, bool isShort, std::minstd_rand &random)
      : longs(count), shorts(count), isShort(isShort) {
    std::uniform_real_distribution<float> pick(-1, 1);
    for (int64_t i = 0; i < count; ++i)
      set(i, pick(random));
  }
  void set(int64_t i, float value) {
    shorts[i] = toShortFloat(DataType::BF16, value);
    longs[i] = isShort ? fromShortFloat(DataType::BF16, shorts[i]) : value;
  }
  const void *data() const {
    return isShort ? static_cast<const void *>(shorts.data()) : longs.data();
  }
  void *data() {
    return isShort ? static_cast<void *>(shorts.data()) : longs.data();
  }
  float at(int64_t i) const {
    return isShort ? fromShortFloat(DataType::BF16, shorts[i]) : longs[i];
  }
};

class DepthwiseTest : public ::testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    const Case &given = GetParam();
    shape.samples = given.samples;
    shape.channels = given.channels;
    shape.image = given.image;
    shape.window = given.window;
    shape.strides = given.strides;
    shape.dilations = given.dilations;
    shape.padding = given.padding;
    shape.isShort = given.isShort;
    shape.groupChannels = given.groupChannels;
    for (size_t axis = 0; axis < 3; ++axis)
      shape.result[axis] =
          (given.image[axis] + 2 * given.padding[axis] -
           (given.window[axis] - 1) * given.dilations[axis] - 1) /
              given.strides[axis] +
          1;
    shape.x = placesOf(given.x, given.channels, shape.image);
    shape.dy = placesOf(given.y, given.channels, shape.result);
    if (!depthwise::isPossible(shape))
      GTEST_SKIP() << "not on this processor";
  }

  int64_t windowSize() const { return countOf(shape.window); }
  int64_t imageSize(const ImageAxes &axes) const {
    return shape.samples * shape.channels * countOf(axes);
  }
  static int64_t offsetOf(const ImagePlaces &places, int64_t sample,
                          int64_t channel, const ImageAxes &pixel) {
    int64_t offset = sample * places.sample + places.offsetOfChannel(channel);
    for (size_t axis = 0; axis < pixel.size(); ++axis)
      offset += pixel[axis] * places.axes[axis];
    return offset;
  }
  int64_t countWeights() const {
    return shape.channels * shape.groupChannels * windowSize();
  }
  /// Calls `use` for each place of a window that an output sees, with the pixel
  /// and the number of the place.
  template <typename Use>
  void forWindow(const ImageAxes &output, Use use) const {
    for (int64_t place = 0; place < windowSize(); ++place) {
      ImageAxes pixel = splitIndex(place, shape.window);
      bool isInside = true;
      for (size_t axis = 0; axis < pixel.size(); ++axis) {
        pixel[axis] = output[axis] * shape.strides[axis] +
                      pixel[axis] * shape.dilations[axis] - shape.padding[axis];
        isInside &= pixel[axis] >= 0 && pixel[axis] < shape.image[axis];
      }
      if (isInside)
        use(pixel, place);
    }
  }
  /// Calls `use` for each multiplication with the index of x, weight and y.
  template <typename Use> void forAll(Use use) const {
    const int64_t group = shape.groupChannels;
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t output = 0; output < shape.channels; ++output)
        for (int64_t i = 0; i < countOf(shape.result); ++i) {
          const ImageAxes at = splitIndex(i, shape.result);
          for (int64_t other = 0; other < group; ++other)
            forWindow(at, [&](const ImageAxes &pixel, int64_t place) {
              use(offsetOf(shape.x, sample, output / group * group + other,
                           pixel),
                  (output * group + other) * windowSize() + place,
                  offsetOf(shape.dy, sample, output, at));
            });
        }
  }

  /// What parts of the work write, in memory that has no more than they need.
  Image runParts(Direction direction, const Image &from, const Image &weights,
                 const float *bias, const ConvEpilogue &epilogue,
                 const std::vector<depthwise::Part> &parts,
                 const depthwise::RowLoops &loops = depthwise::rowLoops()) {
    DepthwiseConvolution convolution(shape, direction, loops);
    Image to(
        imageSize(direction == Direction::Forward ? shape.result : shape.image),
        shape.isShort, random);
    for (const depthwise::Part &part : parts) {
      std::vector<std::byte> scratchpad(convolution.getScratchpadBytes());
      convolution.run(from.data(), weights.data(), bias, epilogue, to.data(),
                      part, scratchpad.data());
    }
    return to;
  }
  /// All at once, and channels, samples or rows in two parts.
  std::vector<std::vector<depthwise::Part>>
  divisions(Direction direction) const {
    using Range = depthwise::Part::Range;
    const Range blocks{0, shape.blocks()}, samples{0, shape.samples},
        rows{0, DepthwiseConvolution(shape, direction).countRows()};
    auto half = [](const Range &range, bool isFirst) -> Range {
      const int64_t middle = range.count / 2;
      return isFirst ? Range{0, middle} : Range{middle, range.count - middle};
    };
    return {{{blocks, samples, rows}},
            {{half(blocks, true), samples, rows},
             {half(blocks, false), samples, rows}},
            {{blocks, half(samples, true), rows},
             {blocks, half(samples, false), rows}},
            {{blocks, samples, half(rows, true)},
             {blocks, samples, half(rows, false)}}};
  }

  void expectNear(const Numbers &expected, const Image &actual,
                  double tolerance) const {
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference =
          std::abs(double(expected[i]) - actual.at(static_cast<int64_t>(i)));
      worst = std::max(worst, difference / (1 + std::abs(expected[i])));
    }
    EXPECT_LE(worst, shape.isShort ? 0.005 : tolerance);
  }

  depthwise::Shape shape{};
  std::minstd_rand random;
};

TEST_P(DepthwiseTest, WritesResult) {
  Image x(imageSize(shape.image), shape.isShort, random);
  Image weights(countWeights(), shape.isShort, random);
  Numbers bias(shape.channels);
  for (float &each : bias)
    each = std::uniform_real_distribution<float>(-1, 1)(random);
  Numbers expected(imageSize(shape.result));
  forAll([&](int64_t a, int64_t b, int64_t c) {
    expected[c] += x.longs[a] * weights.longs[b];
  });
  for (const auto &parts : divisions(Direction::Forward)) {
    Image y = runParts(Direction::Forward, x, weights, nullptr, {}, parts);
    expectNear(expected, y, 1e-5);
  }
  if (shape.isShort)
    return;
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t channel = 0; channel < shape.channels; ++channel)
      for (int64_t i = 0; i < countOf(shape.result); ++i) {
        float &each = expected[offsetOf(shape.dy, sample, channel,
                                        splitIndex(i, shape.result))];
        each = std::max(each + bias[channel], 0.0F);
      }
  ConvEpilogue relu;
  relu.hasBias = true;
  relu.activation = ConvEpilogue::Relu;
  expectNear(expected,
             runParts(Direction::Forward, x, weights, bias.data(), relu,
                      divisions(Direction::Forward)[0]),
             1e-5);
}

TEST_P(DepthwiseTest, WritesGradientOfInput) {
  Image dy(imageSize(shape.result), shape.isShort, random);
  Image weights(countWeights(), shape.isShort, random);
  Numbers expected(imageSize(shape.image));
  forAll([&](int64_t a, int64_t b, int64_t c) {
    expected[a] += dy.longs[c] * weights.longs[b];
  });
  const Image whole = runParts(Direction::Backward, dy, weights, nullptr, {},
                               divisions(Direction::Backward)[0]);
  expectNear(expected, whole, 1e-5);
  for (const auto &parts : divisions(Direction::Backward)) {
    Image other =
        runParts(Direction::Backward, dy, weights, nullptr, {}, parts);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(whole.at(static_cast<int64_t>(i)),
                other.at(static_cast<int64_t>(i)));
  }
}

TEST_P(DepthwiseTest, WritesGradientOfWeights) {
  Image x(imageSize(shape.image), shape.isShort, random);
  Image dy(imageSize(shape.result), shape.isShort, random);
  std::vector<double> sums(countWeights());
  forAll([&](int64_t a, int64_t b, int64_t c) {
    sums[b] += double(x.longs[a]) * dy.longs[c];
  });
  const DepthwiseGradient gradient(shape, /*isAdded=*/false);
  const DepthwiseGradient added(shape, /*isAdded=*/true);
  std::vector<std::byte> scratchpad(gradient.getScratchpadBytes());
  Numbers whole(sums.size(), NAN), parts(sums.size(), NAN);
  gradient.run(x.data(), dy.data(), whole.data(), 0, shape.blocks(),
               scratchpad.data());
  for (int64_t block = 0; block < shape.blocks(); ++block)
    gradient.run(x.data(), dy.data(), parts.data(), block, 1,
                 scratchpad.data());
  EXPECT_EQ(whole, parts);
  Numbers twice = whole;
  added.run(x.data(), dy.data(), twice.data(), 0, shape.blocks(),
            scratchpad.data());
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_NEAR(whole[i], sums[i], 1e-4 * (1 + std::abs(sums[i])));
    ASSERT_EQ(twice[i], whole[i] + whole[i]);
  }
}

TEST_P(DepthwiseTest, HasTheSameBitsInHalfRegisters) {
  if (&depthwise::rowLoops() == &depthwise::rowLoopsAvx2)
    GTEST_SKIP() << "this processor has no others";
  Image x(imageSize(shape.image), shape.isShort, random);
  Image dy(imageSize(shape.result), shape.isShort, random);
  Image weights(countWeights(), shape.isShort, random);
  for (Direction direction : {Direction::Forward, Direction::Backward}) {
    const Image &from = direction == Direction::Forward ? x : dy;
    const auto parts = divisions(direction)[0];
    const Image whole = runParts(direction, from, weights, nullptr, {}, parts);
    const Image half = runParts(direction, from, weights, nullptr, {}, parts,
                                depthwise::rowLoopsAvx2);
    for (int64_t i = 0; i < std::ssize(whole.longs); ++i)
      ASSERT_EQ(whole.at(i), half.at(i));
  }
  auto gradientWith = [&](const depthwise::RowLoops &loops) {
    const DepthwiseGradient gradient(shape, /*isAdded=*/false, loops);
    std::vector<std::byte> scratchpad(gradient.getScratchpadBytes());
    Numbers result(countWeights());
    gradient.run(x.data(), dy.data(), result.data(), 0, shape.blocks(),
                 scratchpad.data());
    return result;
  };
  EXPECT_EQ(gradientWith(depthwise::rowLoops()),
            gradientWith(depthwise::rowLoopsAvx2));
}

/// Height and width.
using Pair = std::array<int64_t, 2>;

Case make(int64_t samples, int64_t channels, Pair image, Pair window,
          Pair strides, Pair dilations, Pair padding, Places x, Places y,
          bool isShort, int64_t groupChannels = 1) {
  auto axes = [](Pair pair, int64_t depth) {
    return ImageAxes{depth, pair[0], pair[1]};
  };
  return {samples,
          channels,
          axes(image, 1),
          axes(window, 1),
          axes(strides, 1),
          axes(dilations, 1),
          axes(padding, 0),
          x,
          y,
          isShort,
          groupChannels};
}

/// The same with a depth.
Case deep(Case given, int64_t image, int64_t window, int64_t stride,
          int64_t dilation, int64_t padding) {
  given.image[0] = image;
  given.window[0] = window;
  given.strides[0] = stride;
  given.dilations[0] = dilation;
  given.padding[0] = padding;
  return given;
}

constexpr Places plain = Places::Plain, last = Places::ChannelsLast,
                 blocks8 = Places::Blocked8, blocks16 = Places::Blocked16;

INSTANTIATE_TEST_SUITE_P(
    All, DepthwiseTest,
    ::testing::Values(
        make(2, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, last, last, false),
        make(2, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, blocks16, blocks16,
             true),
        // Depth: planes of zeros on both sides, several classes of them, some
        // that no window sees, groups, and rows in several turns.
        deep(make(2, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, blocks8,
                  blocks8, false),
             5, 3, 1, 1, 1),
        deep(make(2, 24, {8, 7}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, last, last,
                  true),
             7, 3, 2, 1, 1),
        deep(make(1, 16, {6, 6}, {1, 3}, {1, 2}, {1, 1}, {0, 1}, plain, plain,
                  false),
             9, 2, 3, 1, 0),
        deep(make(2, 16, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, last, last,
                  false, 4),
             4, 3, 1, 2, 2),
        deep(make(1, 64, {90, 50}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, last, last,
                  false),
             3, 3, 1, 1, 1),
        // Channels that fill no block, and more blocks than go together.
        make(3, 75, {14, 11}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, last, last,
             false),
        make(2, 24, {12, 12}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, last, last, true),
        make(2, 24, {10, 19}, {5, 3}, {1, 2}, {1, 1}, {2, 0}, plain, plain,
             true),
        make(2, 20, {10, 35}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, plain, last,
             false),
        make(2, 24, {10, 9}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, blocks8, blocks8,
             false),
        make(2, 24, {10, 9}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, blocks8, plain,
             true),
        // Holes, strides beyond 2, and windows that the stride skips.
        make(2, 16, {17, 15}, {3, 5}, {1, 1}, {2, 3}, {2, 6}, blocks16,
             blocks16, false),
        make(2, 16, {17, 15}, {3, 4}, {2, 2}, {3, 2}, {3, 1}, last, last,
             false),
        make(2, 16, {17, 15}, {4, 4}, {3, 4}, {1, 1}, {0, 1}, last, blocks16,
             false),
        make(2, 16, {9, 9}, {1, 1}, {2, 3}, {1, 1}, {0, 0}, last, last, false),
        make(2, 16, {3, 2}, {1, 2}, {5, 4}, {1, 1}, {0, 2}, last, last, false),
        // More padding than the window reaches.
        make(1, 16, {5, 4}, {3, 3}, {1, 1}, {1, 1}, {4, 5}, last, last, false),
        // A single axis, and long windows.
        make(2, 40, {1, 70}, {1, 31}, {1, 1}, {1, 1}, {0, 15}, plain, plain,
             false),
        make(2, 40, {1, 70}, {1, 9}, {1, 2}, {1, 1}, {0, 4}, last, last, true),
        make(1, 16, {1, 40}, {1, 22}, {1, 1}, {1, 1}, {0, 3}, last, last,
             false),
        // Images that take several turns.
        make(2, 32, {60, 70}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, last, last,
             false),
        make(1, 80, {70, 60}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, last, last, true),
        make(1, 16, {120, 50}, {2, 2}, {3, 3}, {1, 1}, {0, 0}, blocks16,
             blocks16, false),
        make(1, 16, {40, 300}, {9, 3}, {1, 1}, {1, 1}, {4, 1}, blocks16, plain,
             false),
        // Groups.
        make(2, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, last, last, false,
             4),
        make(2, 40, {14, 12}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, last, last, true,
             8),
        make(2, 20, {9, 12}, {3, 5}, {1, 1}, {2, 1}, {2, 2}, plain, plain,
             false, 2),
        make(2, 48, {60, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, blocks16,
             blocks16, true, 8),
        make(1, 64, {50, 50}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, last, last, false,
             8)));

} // namespace
