//===- PairConvolutionTest.cpp - Convolutions of few pixels ---------------===//
#include "cpu/PairConvolution.h"
#include "PairTest.h"

#include <algorithm>
#include <vector>

using namespace pp::runtime;
using Sizes = PairConvolution::Shape;

namespace {

struct Case {
  int64_t samples, channels, outputs;
  ImageAxes image, window, strides, dilations, padding;
  bool isInBlocks;

  /// With as much padding on both sides.
  Sizes sizes() const {
    Sizes sizes{};
    sizes.samples = samples;
    sizes.channels = channels;
    sizes.outputs = outputs;
    sizes.image = image;
    sizes.window = window;
    sizes.strides = strides;
    sizes.dilations = dilations;
    sizes.padding = padding;
    for (size_t axis = 0; axis < image.size(); ++axis)
      sizes.result[axis] = (image[axis] + 2 * padding[axis] -
                            (window[axis] - 1) * dilations[axis] - 1) /
                               strides[axis] +
                           1;
    sizes.x = placesOf(channels, image);
    sizes.dy = placesOf(outputs, sizes.result);
    return sizes;
  }
  ImagePlaces placesOf(int64_t channels, const ImageAxes &axes) const {
    const int64_t pixel = isInBlocks ? 16 : channels;
    return {countOf(axes) * channels,
            isInBlocks ? countOf(axes) * 16 : 1,
            {axes[1] * axes[2] * pixel, axes[2] * pixel, pixel},
            isInBlocks ? 16 : 1};
  }
};

const Case cases[] = {
    {1, 16, 16, {1, 1, 1}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, true},
    {1, 144, 48, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, true},
    {2, 48, 80, {1, 6, 9}, {1, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 0}, false},
    // More pixels in a row than at a time, more places than are packed at once.
    {1, 32, 32, {1, 5, 17}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, true},
    {2, 32, 16, {3, 4, 4}, {2, 2, 2}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, false},
    {1, 48, 32, {1, 3, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, true},
};

class PairConvolutionTest : public PairTest {};

Shorts run(const Sizes &of, const Shorts &x, const Shorts &weights,
           const float *bias, const ConvEpilogue &epilogue) {
  Shorts packed(weights.size());
  PairConvolution::packWeights(of, weights.data(), packed.data());
  const PairConvolution convolution(of);
  const uint64_t bytes = convolution.getScratchpadBytes();
  std::vector<char> scratchpad(bytes + 64, char(0xff));
  Shorts y(of.samples * of.dy.sample);
  convolution.run(x.data(), packed.data(), bias, epilogue, y.data(),
                  scratchpad.data());
  EXPECT_EQ(
      std::count(scratchpad.begin() + bytes, scratchpad.end(), char(0xff)), 64);
  return y;
}

/// The sum of an output of a pixel.
float sumOf(const Sizes &of, const Shorts &x, const Shorts &weights,
            int64_t sample, const ImageAxes &pixel, int64_t output) {
  float sum = 0;
  for (int64_t channel = 0; channel < of.channels; ++channel)
    for (int64_t place = 0; place < countOf(of.window); ++place) {
      const ImageAxes in = splitIndex(place, of.window);
      int64_t at = sample * of.x.sample + of.x.offsetOfChannel(channel);
      bool isInside = true;
      for (size_t axis = 0; axis < in.size(); ++axis) {
        const int64_t index = pixel[axis] * of.strides[axis] +
                              in[axis] * of.dilations[axis] - of.padding[axis];
        isInside &= index >= 0 && index < of.image[axis];
        at += index * of.x.axes[axis];
      }
      if (isInside)
        sum +=
            wide(x[at]) *
            wide(weights[(output * of.channels + channel) * countOf(of.window) +
                         place]);
    }
  return sum;
}

TEST_F(PairConvolutionTest, MatchesLoops) {
  ConvEpilogue relu;
  relu.hasBias = true;
  relu.activation = ConvEpilogue::Relu;
  for (const Case &each : cases) {
    const Sizes of = each.sizes();
    ASSERT_TRUE(PairConvolution::isPossible(of));
    const Shorts x = makeWhole(of.samples * of.x.sample);
    const Shorts weights =
        makeWhole(of.outputs * of.channels * countOf(of.window));
    std::vector<float> bias(of.outputs);
    for (float &number : bias)
      number = wide(makeWhole(1)[0]);
    const Shorts y = run(of, x, weights, nullptr, {});
    const Shorts positive = run(of, x, weights, bias.data(), relu);
    for (int64_t sample = 0; sample < of.samples; ++sample)
      for (int64_t at = 0; at < countOf(of.result); ++at)
        for (int64_t output = 0; output < of.outputs; ++output) {
          const ImageAxes pixel = splitIndex(at, of.result);
          const float sum = sumOf(of, x, weights, sample, pixel, output);
          int64_t place = sample * of.dy.sample + of.dy.offsetOfChannel(output);
          for (size_t axis = 0; axis < pixel.size(); ++axis)
            place += pixel[axis] * of.dy.axes[axis];
          ASSERT_EQ(y[place], toShortFloat(DataType::BF16, sum));
          ASSERT_EQ(
              positive[place],
              toShortFloat(DataType::BF16, std::max(sum + bias[output], 0.0f)));
        }
  }
}

TEST_F(PairConvolutionTest, NeedsChannelsThatLieTogether) {
  Case of = cases[0];
  of.channels = 24;
  EXPECT_FALSE(PairConvolution::isPossible(of.sizes()));
  of = cases[0];
  of.outputs = 8;
  EXPECT_FALSE(PairConvolution::isPossible(of.sizes()));
  Sizes plain = cases[0].sizes();
  plain.x.block = 2;
  plain.x.blockChannels = 1;
  EXPECT_FALSE(PairConvolution::isPossible(plain));
}

/// Outputs have the bits of the whole.
TEST_F(PairConvolutionTest, PartsHaveTheBitsOfTheWhole) {
  const Sizes of = cases[1].sizes();
  const Shorts x = makeAny(of.x.sample);
  const Shorts weights = makeAny(of.outputs * of.channels * countOf(of.window));
  const Shorts whole = run(of, x, weights, nullptr, {});
  Case half = cases[1];
  half.outputs = 32;
  const Shorts first = run(half.sizes(), x, weights, nullptr, {});
  EXPECT_TRUE(std::equal(first.begin(), first.end(), whole.begin()));
}

} // namespace
