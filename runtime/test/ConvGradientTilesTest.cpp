//===- ConvGradientTilesTest.cpp - Gradients of weights in tiles ----------===//
#include "cpu/ConvGradientTiles.h"
#include "ConvTilesCases.h"

#include <cmath>

using namespace pp::runtime;

namespace {

using ConvGradientTilesTest = TilesTest;
PP_INSTANTIATE_TILES(ConvGradientTilesTest);

TEST_P(ConvGradientTilesTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : convTilesCases()) {
    const ConvGradientTiles::Shape shape = each.shape();
    ASSERT_TRUE(ConvGradientTiles::isPossible(shape));
    auto x = makeShortNumbers(random, shape.samples * shape.x.sample);
    auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
    std::vector<float> gradient(shape.outputs * shape.columns(), 9.0f);
    ConvGradientTiles product(shape, tiles());
    std::vector<char> scratchpad(product.getScratchpadBytes(), char(0xff));
    product.run(x.data(), dy.data(), gradient.data(), scratchpad.data());

    std::vector<double> sums(gradient.size()), sizes(gradient.size());
    const int64_t places = shape.columns() / shape.channels;
    forEachMeeting(shape, [&](int64_t xAt, int64_t dyAt, int64_t place) {
      for (int64_t o = 0; o < shape.outputs; ++o)
        for (int64_t channel = 0; channel < shape.channels; ++channel) {
          double term = static_cast<double>(fromBF16(x[xAt + channel])) *
                        fromBF16(dy[dyAt + o]);
          int64_t at = (o * shape.channels + channel) * places + place;
          sums[at] += term;
          sizes[at] += std::fabs(term);
        }
    });
    for (size_t at = 0; at < gradient.size(); ++at)
      ASSERT_NEAR(gradient[at], sums[at], sizes[at] * 0x1p-19)
          << "at " << at << " with " << shape.channels << " channels";
  }
}

TEST_P(ConvGradientTilesTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  constexpr int64_t first = 13;
  const ConvGradientTiles::Shape shape = convTilesCases()[5].shape();
  auto x = makeShortNumbers(random, shape.samples * shape.x.sample);
  auto dy = makeShortNumbers(random, shape.samples * shape.dy.sample);
  auto run = [&](int64_t outputs, const uint16_t *from) {
    ConvGradientTiles::Shape part = shape;
    part.outputs = outputs;
    ConvGradientTiles product(part, tiles());
    std::vector<char> scratchpad(product.getScratchpadBytes());
    std::vector<float> gradient(outputs * shape.columns());
    product.run(x.data(), from, gradient.data(), scratchpad.data());
    return gradient;
  };
  std::vector<float> whole = run(shape.outputs, dy.data());
  std::vector<float> part = run(shape.outputs - first, dy.data() + first);
  whole.erase(whole.begin(), whole.begin() + first * shape.columns());
  EXPECT_EQ(whole, part);
}

/// What it does not do is left to other code.
TEST(ConvGradientTiles, KnowsWhatIsPossible) {
  const ConvGradientTiles::Shape shape = convTilesCases()[0].shape();
  auto isPossible = [&](auto change) {
    ConvGradientTiles::Shape other = shape;
    change(other);
    return ConvGradientTiles::isPossible(other);
  };
  EXPECT_TRUE(isPossible([](auto &) {}));
  EXPECT_FALSE(isPossible([](auto &other) { other.isShort = false; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.channels = 24; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.x.block = 16; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.dy.blockChannels = 16; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.dy.axes[1] += 40; }));
}

} // namespace
