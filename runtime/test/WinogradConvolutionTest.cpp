//===- WinogradConvolutionTest.cpp - In tiles -----------------------------===//
#include "cpu/WinogradConvolution.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/PairProduct.h"
#include "cpu/TiledProduct.h"
#include "cpu/WinogradGradient.h"
#include "plan/ShortFloat.h"

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
  int64_t edge;
  bool isShort;
  bool inPairs = false;

  WinogradConvolution::Shape shape() const {
    WinogradConvolution::Shape shape{};
    shape.edge = edge;
    shape.isShort = isShort;
    shape.inPairs = inPairs;
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

using Shorts = std::vector<uint16_t>;

Shorts narrowed(const Numbers &numbers) {
  Shorts result;
  for (float number : numbers)
    result.push_back(toShortFloat(DataType::BF16, number));
  return result;
}
Numbers widened(const Shorts &numbers) {
  Numbers result;
  for (uint16_t number : numbers)
    result.push_back(fromShortFloat(DataType::BF16, number));
  return result;
}

/// Numbers that the elements of x, weights and y can be; for pairs such whose
/// transforms are bf16, too.
Numbers randomElements(const Case &of, std::minstd_rand &random,
                       int64_t count) {
  Numbers numbers = randomNumbers(random, count);
  if (of.inPairs)
    for (float &number : numbers)
      number = std::round(number * 3) / 4;
  return of.isShort ? widened(narrowed(numbers)) : numbers;
}

testing::Message describe(const Case &of) {
  return testing::Message()
         << of.samples << " x " << of.channels << " x " << of.height << " x "
         << of.width << " to " << of.outputs << ", padding " << of.padding
         << ", tiles of " << of.edge << (of.isShort ? ", bf16" : "")
         << (of.inPairs ? ", in pairs" : "");
}

/// With x, weights and y of `Element`, in parts that share the tiles.
template <typename Element>
std::vector<Element> runOn(const Case &of, const ProductTiles &registers,
                           const std::vector<Element> &x,
                           const std::vector<Element> &weights,
                           const Numbers &bias, int64_t parts = 1) {
  WinogradConvolution::Shape shape = of.shape();
  Numbers transformed(WinogradConvolution::getWeightBytes(shape) /
                      sizeof(float));
  WinogradConvolution::transformWeights(shape, weights.data(), of.direction,
                                        transformed.data(), registers);
  std::vector<Element> y(of.samples * shape.y.sample);
  for (int64_t part = 0; part < parts; ++part) {
    shape.begin = shape.tiles() * part / parts;
    shape.end = shape.tiles() * (part + 1) / parts;
    WinogradConvolution convolution(shape, registers);
    Numbers scratchpad(convolution.getScratchpadBytes() / sizeof(float));
    convolution.run(x.data(), transformed.data(), {bias.data()}, relu, y.data(),
                    scratchpad.data());
  }
  return y;
}

Numbers run(const Case &of, const ProductTiles &registers, const Numbers &x,
            const Numbers &weights, const Numbers &bias, int64_t parts = 1) {
  if (!of.isShort)
    return runOn(of, registers, x, weights, bias, parts);
  return widened(
      runOn(of, registers, narrowed(x), narrowed(weights), bias, parts));
}

/// Compares with sums in f64, and the tiles of both kinds of registers with
/// each other.
void check(const Case &of, std::minstd_rand &random) {
  const WinogradConvolution::Shape shape = of.shape();
  SCOPED_TRACE(describe(of));
  Numbers x = randomElements(of, random, of.samples * shape.x.sample);
  Numbers weights = randomElements(of, random, of.channels * of.outputs * 9);
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
    sum = std::max(sum, 0.0);
    // Rounded once, and halfway between two numbers to either.
    double rounding = of.isShort ? sum / 256 : 0;
    most = std::max(most, std::abs(sum - y[at]) - rounding);
  }
  // Of sums of so many products of numbers below 1.
  double unit = of.edge == 2 ? 1e-6 : 4e-6;
  EXPECT_LT(most, unit * std::sqrt(9.0 * double(of.channels)));
}

/// Calls `checkWith` with an edge of tiles, whether tensors are bf16, and
/// whether what is transformed is too.
template <typename Function> void forEachKind(const Function &checkWith) {
  for (int64_t edge : {2, 4})
    for (bool isShort : {false, true})
      checkWith(edge, isShort, /*inPairs=*/false);
  if (hasPairProducts())
    checkWith(2, /*isShort=*/true, /*inPairs=*/true);
}

/// As runOn, the gradient of the weights.
template <typename Element>
Numbers gradientOn(const Case &of, const ProductTiles &registers,
                   const std::vector<Element> &x,
                   const std::vector<Element> &dy) {
  WinogradGradient gradient(of.shape(), registers);
  Numbers scratchpad(gradient.getScratchpadBytes() / sizeof(float));
  Numbers result(of.outputs * of.channels * 9);
  gradient.run(x.data(), dy.data(), result.data(), scratchpad.data());
  return result;
}

Numbers gradient(const Case &of, const ProductTiles &registers,
                 const Numbers &x, const Numbers &dy) {
  return of.isShort ? gradientOn(of, registers, narrowed(x), narrowed(dy))
                    : gradientOn(of, registers, x, dy);
}

void checkGradient(const Case &of, std::minstd_rand &random) {
  const WinogradConvolution::Shape shape = of.shape();
  SCOPED_TRACE(describe(of));
  Numbers x = randomElements(of, random, of.samples * shape.x.sample);
  Numbers dy = randomElements(of, random, of.samples * shape.y.sample);
  Numbers result = gradient(of, productTiles(), x, dy);
  if (&productTiles() != &productTilesAvx2)
    EXPECT_EQ(gradient(of, productTilesAvx2, x, dy), result);
  double most = 0;
  for (int64_t output = 0; output < of.outputs; ++output)
    for (int64_t channel = 0; channel < of.channels; ++channel)
      for (int64_t place = 0; place < 9; ++place) {
        double sum = 0;
        for (int64_t sample = 0; sample < of.samples; ++sample)
          for (int64_t i = 0; i < shape.rows; ++i)
            for (int64_t j = 0; j < shape.columns; ++j) {
              int64_t row = i + place / 3 - of.padding;
              int64_t column = j + place % 3 - of.padding;
              if (row >= 0 && row < of.height && column >= 0 &&
                  column < of.width)
                sum +=
                    double(x[sample * shape.x.sample + row * shape.x.axes[1] +
                             column * shape.x.axes[2] + channel]) *
                    dy[sample * shape.y.sample + i * shape.y.axes[1] +
                       j * shape.y.axes[2] + output];
            }
        int64_t at = (output * of.channels + channel) * 9 + place;
        most = std::max(most, std::abs(sum - result[at]));
      }
  double unit = of.edge == 2 ? 1e-6 : 4e-6;
  EXPECT_LT(most,
            unit *
                std::sqrt(double(of.samples * shape.rows * shape.columns) + 9));
}

TEST(WinogradConvolutionTest, ItsGradientIsAsExactAsSumsOfF32) {
  if (!TiledProduct::isPossible())
    GTEST_SKIP() << "this processor has no such registers";
  std::minstd_rand random(6);
  forEachKind([&](int64_t edge, bool isShort, bool inPairs) {
    auto checkSizes = [&](int64_t samples, int64_t channels, int64_t outputs,
                          int64_t height, int64_t width, int64_t padding) {
      checkGradient({samples, channels, outputs, height, width, padding,
                     Direction::Forward, edge, isShort, inPairs},
                    random);
    };
    checkSizes(1, 16, 16, 1, 1, 1);
    checkSizes(1, 32, 80, 7, 7, 1);
    checkSizes(2, 48, 16, 5, 9, 0);
    checkSizes(3, 16, 32, 4, 3, 2);
    // More channels, and more tiles, than are added at once.
    checkSizes(1, 144, 80, 5, 6, 1);
    checkSizes(9, 16, 48, 17, 10, 1);
    checkSizes(9, 80, 16, 17, 10, 1);
  });
}

/// The gradients of three micro-batches in one pass, after one of its own.
template <typename Element>
void checkSums(const Case &of, const ProductTiles &registers, bool isFirst,
               const std::vector<Element> &x, const std::vector<Element> &dy) {
  const WinogradConvolution::Shape shape = of.shape();
  WinogradGradient writes(shape, registers);
  WinogradGradient adds = writes;
  adds.setAdded();
  constexpr int64_t count = 3;
  EXPECT_FALSE(WinogradGradientSums::find(writes, count));
  EXPECT_FALSE(WinogradGradientSums::find(adds, 1));
  auto sums = WinogradGradientSums::find(adds, count);
  ASSERT_TRUE(sums);
  ASSERT_EQ(sums->atOnce(), count);
  std::vector<GradientFactors> factors;
  for (int64_t i = 0; i < count; ++i)
    factors.push_back({&x[i * shape.x.sample], &dy[i * shape.y.sample]});
  const uint64_t bytes = sums->getScratchpadBytes();
  std::vector<char> scratchpad(std::max(bytes, adds.getScratchpadBytes()) + 64,
                               char(0xff));
  Numbers expected(of.outputs * of.channels * 9, 9), found = expected;
  for (const GradientFactors &each : factors)
    (isFirst && &each == &factors[0] ? writes : adds)
        .run(each.x, each.dy, expected.data(), scratchpad.data());
  std::fill(scratchpad.begin(), scratchpad.end(), char(0xff));
  sums->run(factors, found.data(), isFirst, scratchpad.data());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(
      std::count(scratchpad.begin() + bytes, scratchpad.end(), char(0xff)),
      int64_t(scratchpad.size() - bytes));
}

TEST(WinogradConvolutionTest, AddsGradientsOfSeveralMicrobatches) {
  if (!TiledProduct::isPossible())
    GTEST_SKIP() << "this processor has no such registers";
  std::minstd_rand random(8);
  forEachKind([&](int64_t edge, bool isShort, bool inPairs) {
    auto checkSizes = [&](int64_t channels, int64_t outputs, int64_t height,
                          int64_t width) {
      const Case of{1, channels,           outputs, height,  width,
                    1, Direction::Forward, edge,    isShort, inPairs};
      SCOPED_TRACE(describe(of));
      const WinogradConvolution::Shape shape = of.shape();
      Numbers x = randomElements(of, random, 3 * shape.x.sample);
      Numbers dy = randomElements(of, random, 3 * shape.y.sample);
      for (const ProductTiles *registers : {&productTiles(), &productTilesAvx2})
        for (bool isFirst : {false, true})
          isShort
              ? checkSums(of, *registers, isFirst, narrowed(x), narrowed(dy))
              : checkSums(of, *registers, isFirst, x, dy);
    };
    checkSizes(16, 16, 1, 1);
    checkSizes(48, 80, 7, 7);
    // More channels than those whose tiles stay in the cache.
    checkSizes(800, 32, 9, 10);
  });
  // Of many tiles one is as good.
  WinogradGradient of(
      Case{9, 16, 16, 9, 10, 1, Direction::Forward, 2, false}.shape());
  of.setAdded();
  EXPECT_FALSE(WinogradGradientSums::find(of, 3));
}

TEST(WinogradConvolutionTest, IsAsExactAsSumsOfF32) {
  if (!TiledProduct::isPossible())
    GTEST_SKIP() << "this processor has no such registers";
  std::minstd_rand random(5);
  forEachKind([&](int64_t edge, bool isShort, bool inPairs) {
    for (Direction direction : {Direction::Forward, Direction::Backward}) {
      auto checkSizes = [&](int64_t samples, int64_t channels, int64_t outputs,
                            int64_t height, int64_t width, int64_t padding) {
        check({samples, channels, outputs, height, width, padding, direction,
               edge, isShort, inPairs},
              random);
      };
      checkSizes(1, 16, 16, 1, 1, 1);
      checkSizes(1, 32, 80, 7, 7, 1);
      checkSizes(2, 48, 16, 5, 9, 0);
      checkSizes(3, 16, 32, 4, 3, 2);
      // More terms than are added at once; more tiles.
      checkSizes(1, 272, 64, 3, 4, 1);
      checkSizes(5, 16, 144, 9, 10, 1);
      checkSizes(9, 16, 16, 9, 10, 1);
    }
  });
}

/// Of numbers whose transforms are no bf16.
TEST(WinogradConvolutionTest, HasTheSameBitsInPartsOfTiles) {
  if (!TiledProduct::isPossible())
    GTEST_SKIP() << "this processor has no such registers";
  std::minstd_rand random(9);
  forEachKind([&](int64_t edge, bool isShort, bool inPairs) {
    const Case of{1, 48, 80,
                  // Of tiles more than there are at once in a part of two.
                  edge * 12 - 1, edge * 11, 1, Direction::Forward, edge,
                  isShort, inPairs};
    SCOPED_TRACE(describe(of));
    const WinogradConvolution::Shape shape = of.shape();
    Numbers x = randomElements(of, random, shape.x.sample);
    Numbers weights = randomElements(of, random, of.channels * of.outputs * 9);
    Numbers bias = randomNumbers(random, of.outputs);
    const Numbers whole = run(of, productTiles(), x, weights, bias);
    for (int64_t parts : {2, 3, 5})
      EXPECT_EQ(run(of, productTiles(), x, weights, bias, parts), whole)
          << parts << " parts";
  });
}

TEST(WinogradConvolutionTest, RoundsPairsToTheNearest) {
  if (!hasPairProducts())
    GTEST_SKIP() << "this processor has no such registers";
  std::minstd_rand random(7);
  const Case of{2, 64, 32, 9, 10, 1, Direction::Forward, 2, true, true};
  Case exact = of;
  exact.inPairs = false;
  const WinogradConvolution::Shape shape = of.shape();
  Numbers x = randomElements(exact, random, of.samples * shape.x.sample);
  Numbers dy = randomElements(exact, random, of.samples * shape.y.sample);
  Numbers weights = randomElements(exact, random, of.channels * of.outputs * 9);
  Numbers bias = randomNumbers(random, of.outputs);
  auto isOffBy = [](const Numbers &numbers, const Numbers &expected) {
    double square = 0, error = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      square += double(expected[i]) * expected[i];
      error += std::pow(double(numbers[i]) - expected[i], 2);
    }
    return std::sqrt(error / square);
  };
  // Half of a unit in the last of eight places is a 512th at most.
  const double off = isOffBy(run(of, productTiles(), x, weights, bias),
                             run(exact, productTiles(), x, weights, bias));
  EXPECT_GT(off, 0.001);
  EXPECT_LT(off, 0.005);
  const double ofGradient = isOffBy(gradient(of, productTiles(), x, dy),
                                    gradient(exact, productTiles(), x, dy));
  EXPECT_GT(ofGradient, 0.001);
  EXPECT_LT(ofGradient, 0.005);
}

} // namespace
