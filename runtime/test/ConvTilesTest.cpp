//===- ConvTilesTest.cpp - Convolutions and gradients of images in tiles --===//
#include "cpu/ConvTiles.h"
#include "ConvTilesCases.h"
#include "cpu/Processor.h"

#include <cmath>

using namespace pp::runtime;

namespace {

using ConvTilesTest = TilesTest;
PP_INSTANTIATE_TILES(ConvTilesTest);

constexpr ConvDirection forward = ConvDirection::Forward,
                        backward = ConvDirection::Backward;

/// What follows the sums of a convolution.
struct Ending {
  ConvEpilogue epilogue;
  std::vector<float> bias;
};

std::vector<uint16_t> runTiles(const ConvTiles::Shape &shape,
                               ConvDirection direction,
                               const MatrixTiles &tiles, const uint16_t *from,
                               const uint16_t *weights, bool isPacked = false,
                               const Ending &ending = {}) {
  const ConvTiles product(shape, direction, tiles);
  const int64_t size = direction == forward ? shape.dy.sample : shape.x.sample;
  std::vector<uint16_t> to(shape.samples * size, 0xffff);
  std::vector<char> scratchpad(product.getScratchpadBytes(isPacked),
                               char(0xff));
  const float *bias = ending.bias.empty() ? nullptr : ending.bias.data();
  if (!isPacked) {
    product.run(from, weights, bias, ending.epilogue, to.data(),
                scratchpad.data());
    return to;
  }
  std::vector<char> packed(product.getWeightBytes(), char(0xff));
  product.packWeights(weights, packed.data());
  product.runPacked(from, packed.data(), bias, ending.epilogue, to.data(),
                    scratchpad.data());
  return to;
}

void compareWithLoops(const ConvTiles::Shape &shape, ConvDirection direction,
                      const MatrixTiles &tiles, std::minstd_rand &random) {
  const bool isForward = direction == forward;
  auto x = makeShortNumbers(random, shape.samples * shape.x.sample);
  auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
  auto weights = makeShortNumbers(random, shape.outputs * shape.columns());
  const auto to = runTiles(shape, direction, tiles, (isForward ? x : dy).data(),
                           weights.data());
  EXPECT_EQ(runTiles(shape, direction, tiles, (isForward ? x : dy).data(),
                     weights.data(), /*isPacked=*/true),
            to);

  std::vector<double> sums(to.size()), sizes(to.size());
  const int64_t places = countOf(shape.window);
  forEachMeeting(shape, [&](int64_t xAt, int64_t dyAt, int64_t place) {
    for (int64_t o = 0; o < shape.outputs; ++o)
      for (int64_t channel = 0; channel < shape.channels; ++channel) {
        const double weight =
            fromBF16(weights[(o * shape.channels + channel) * places + place]);
        const int64_t at = isForward ? dyAt + o : xAt + channel;
        const double term =
            weight * fromBF16(isForward ? x[xAt + channel] : dy[dyAt + o]);
        sums[at] += term;
        sizes[at] += std::fabs(term);
      }
  });
  for (size_t at = 0; at < to.size(); ++at)
    ASSERT_NEAR(fromBF16(to[at]), sums[at],
                sizes[at] * 0x1p-19 + std::fabs(sums[at]) * 0x1p-8)
        << "at " << at << " with " << shape.channels << " channels";
}

TEST_P(ConvTilesTest, MatchesLoops) {
  std::minstd_rand random(3);
  int convolutions = 0;
  for (const ConvTilesCase &each : convTilesCases()) {
    const ConvTiles::Shape shape = each.shape();
    ASSERT_TRUE(ConvTiles::isPossible(shape, backward));
    compareWithLoops(shape, backward, tiles(), random);
    if (!ConvTiles::isPossible(shape, forward))
      continue;
    ++convolutions;
    compareWithLoops(shape, forward, tiles(), random);
  }
  EXPECT_GE(convolutions, 3);
}

/// Where there are pixels that nothing sees, too.
TEST_P(ConvTilesTest, PacksNothingBehindItsWeights) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : convTilesCases())
    for (ConvDirection direction : {forward, backward}) {
      const ConvTiles::Shape shape = each.shape();
      if (!ConvTiles::isPossible(shape, direction))
        continue;
      const ConvTiles product(shape, direction, tiles());
      auto weights = makeShortNumbers(random, shape.outputs * shape.columns());
      const uint64_t bytes = product.getWeightBytes();
      std::vector<char> packed(3 * bytes, char(0xff));
      product.packWeights(weights.data(), packed.data());
      EXPECT_EQ(std::count(packed.begin() + static_cast<ptrdiff_t>(bytes),
                           packed.end(), char(0xff)),
                static_cast<ptrdiff_t>(2 * bytes));
    }
}

/// In f32, before they are rounded.
TEST_P(ConvTilesTest, AppliesBiasAndActivation) {
  std::minstd_rand random(7);
  const ConvTiles::Shape shape = convTilesCases()[5].shape();
  auto x = makeShortNumbers(random, shape.samples * shape.x.sample);
  auto weights = makeShortNumbers(random, shape.outputs * shape.columns());
  Ending ending;
  ending.epilogue.hasBias = true;
  for (int64_t o = 0; o < shape.outputs; ++o)
    ending.bias.push_back(static_cast<float>(o % 7) - 3);
  auto run = [&](const Ending &other) {
    return runTiles(shape, forward, tiles(), x.data(), weights.data(),
                    /*isPacked=*/false, other);
  };
  const auto plain = run({}), biased = run(ending);
  ending.epilogue.activation = ConvEpilogue::Clip;
  ending.epilogue.low = -0.5;
  ending.epilogue.high = 2;
  const auto clipped = run(ending);
  for (size_t at = 0; at < plain.size(); ++at) {
    const float bias = ending.bias[at % shape.outputs];
    const float before = fromBF16(plain[at]), with = fromBF16(biased[at]);
    ASSERT_NEAR(with, before + bias,
                0x1p-8 * (std::fabs(before) + std::fabs(with)))
        << at;
    ASSERT_EQ(fromBF16(clipped[at]), std::clamp(with, -0.5f, 2.0f)) << at;
  }
}

/// Threads and replicas share samples.
TEST_P(ConvTilesTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  const ConvTiles::Shape shape = convTilesCases()[1].shape();
  for (ConvDirection direction : {forward, backward}) {
    const int64_t read =
        direction == forward ? shape.x.sample : shape.dy.sample;
    const int64_t written =
        direction == forward ? shape.dy.sample : shape.x.sample;
    auto from = makeShortNumbers(random, shape.samples * read);
    auto weights = makeShortNumbers(random, shape.outputs * shape.columns());
    ConvTiles::Shape rest = shape;
    --rest.samples;
    auto whole =
        runTiles(shape, direction, tiles(), from.data(), weights.data());
    auto part =
        runTiles(rest, direction, tiles(), from.data() + read, weights.data());
    whole.erase(whole.begin(), whole.begin() + written);
    EXPECT_EQ(whole, part);
  }
}

/// With few pixels for many weights; gradients with strides, too.
TEST(ConvTiles, IsPreferredWhereItIsFaster) {
  ConvTiles::Shape shape = convTilesCases()[0].shape();
  EXPECT_FALSE(ConvTiles::isPreferred(shape, backward));
  shape.strides = {1, 2, 2};
  EXPECT_EQ(ConvTiles::isPreferred(shape, backward), hasMatrixTiles());
  EXPECT_FALSE(ConvTiles::isPreferred(shape, forward));
  shape.strides = {1, 1, 1};
  shape.x.axes[2] = shape.channels = 512;
  shape.dy.axes[2] = shape.outputs = 512;
  for (ConvDirection direction : {forward, backward})
    EXPECT_EQ(ConvTiles::isPreferred(shape, direction), hasMatrixTiles());
}

/// What it does not do is left to other code.
TEST(ConvTiles, KnowsWhatIsPossible) {
  const ConvTiles::Shape shape = convTilesCases()[1].shape();
  for (ConvDirection direction : {forward, backward}) {
    auto isPossible = [&](auto change) {
      ConvTiles::Shape other = shape;
      change(other);
      return ConvTiles::isPossible(other, direction);
    };
    const bool isForward = direction == forward;
    EXPECT_TRUE(isPossible([](auto &) {}));
    EXPECT_FALSE(isPossible([](auto &other) { other.isShort = false; }));
    EXPECT_EQ(isPossible([](auto &other) { other.outputs = 48; }), isForward);
    EXPECT_FALSE(isPossible([](auto &other) { other.outputs = 40; }));
    EXPECT_EQ(isPossible([](auto &other) { other.channels = 48; }), !isForward);
    EXPECT_FALSE(isPossible([](auto &other) { other.x.block = 16; }));
    EXPECT_FALSE(isPossible([](auto &other) { other.dy.blockChannels = 16; }));
  }
}

} // namespace
