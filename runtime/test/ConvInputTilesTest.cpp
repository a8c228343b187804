//===- ConvInputTilesTest.cpp - Gradients of images in tiles --------------===//
#include "ConvTilesCases.h"
#include "cpu/ConvInputTiles.h"
#include "cpu/Processor.h"

#include <cmath>

using namespace pp::runtime;

namespace {

using ConvInputTilesTest = TilesTest;
PP_INSTANTIATE_TILES(ConvInputTilesTest);

std::vector<uint16_t> runTiles(const ConvInputTiles::Shape &shape,
                               const MatrixTiles &tiles, const uint16_t *dy,
                               const uint16_t *weights) {
  ConvInputTiles product(shape, tiles);
  std::vector<uint16_t> dx(shape.samples * shape.x.sample, 0xffff);
  std::vector<char> scratchpad(product.getScratchpadBytes(), char(0xff));
  product.run(dy, weights, dx.data(), scratchpad.data());
  return dx;
}

TEST_P(ConvInputTilesTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : convTilesCases()) {
    const ConvInputTiles::Shape shape = each.shape();
    ASSERT_TRUE(ConvInputTiles::isPossible(shape));
    auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
    auto weights = makeShortNumbers(random, shape.outputs * shape.columns());
    auto dx = runTiles(shape, tiles(), dy.data(), weights.data());

    std::vector<double> sums(dx.size()), sizes(dx.size());
    const int64_t places = shape.columns() / shape.channels;
    forEachMeeting(shape, [&](int64_t xAt, int64_t dyAt, int64_t place) {
      for (int64_t o = 0; o < shape.outputs; ++o)
        for (int64_t channel = 0; channel < shape.channels; ++channel) {
          double term =
              static_cast<double>(fromBF16(dy[dyAt + o])) *
              fromBF16(
                  weights[(o * shape.channels + channel) * places + place]);
          sums[xAt + channel] += term;
          sizes[xAt + channel] += std::fabs(term);
        }
    });
    for (size_t at = 0; at < dx.size(); ++at)
      ASSERT_NEAR(fromBF16(dx[at]), sums[at],
                  sizes[at] * 0x1p-19 + std::fabs(sums[at]) * 0x1p-8)
          << "at " << at << " with " << shape.channels << " channels";
  }
}

/// Where there are pixels that nothing sees, too.
TEST_P(ConvInputTilesTest, PacksNothingBehindItsWeights) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : convTilesCases()) {
    const ConvInputTiles product(each.shape(), tiles());
    auto weights =
        makeShortNumbers(random, each.shape().outputs * each.shape().columns());
    const uint64_t bytes = product.getWeightBytes();
    std::vector<char> packed(3 * bytes, char(0xff));
    product.packWeights(weights.data(), packed.data());
    EXPECT_EQ(std::count(packed.begin() + static_cast<ptrdiff_t>(bytes),
                         packed.end(), char(0xff)),
              static_cast<ptrdiff_t>(2 * bytes));
  }
}

/// Threads and replicas share samples.
TEST_P(ConvInputTilesTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  const ConvInputTiles::Shape shape = convTilesCases()[1].shape();
  auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
  auto weights = makeShortNumbers(random, shape.outputs * shape.columns());
  ConvInputTiles::Shape rest = shape;
  --rest.samples;
  auto whole = runTiles(shape, tiles(), dy.data(), weights.data());
  auto part =
      runTiles(rest, tiles(), dy.data() + shape.dy.sample, weights.data());
  whole.erase(whole.begin(), whole.begin() + shape.x.sample);
  EXPECT_EQ(whole, part);
}

/// With strides of one and windows, where weights are many.
TEST(ConvInputTiles, IsPreferredWhereItIsFaster) {
  ConvInputTiles::Shape shape = convTilesCases()[0].shape();
  EXPECT_FALSE(ConvInputTiles::isPreferred(shape));
  shape.strides = {1, 2, 2};
  EXPECT_EQ(ConvInputTiles::isPreferred(shape), hasMatrixTiles());
  shape.strides = {1, 1, 1};
  shape.x.axes[2] = shape.channels = 512;
  shape.dy.axes[2] = shape.outputs = 512;
  EXPECT_EQ(ConvInputTiles::isPreferred(shape), hasMatrixTiles());
}

/// What it does not do is left to other code.
TEST(ConvInputTiles, KnowsWhatIsPossible) {
  const ConvInputTiles::Shape shape = convTilesCases()[0].shape();
  auto isPossible = [&](auto change) {
    ConvInputTiles::Shape other = shape;
    change(other);
    return ConvInputTiles::isPossible(other);
  };
  EXPECT_TRUE(isPossible([](auto &) {}));
  EXPECT_FALSE(isPossible([](auto &other) { other.isShort = false; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.outputs = 48; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.x.block = 16; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.dy.blockChannels = 16; }));
}

} // namespace
