//===- ConvGradientTilesTest.cpp - Gradients of weights in tiles ----------===//
#include "cpu/ConvGradientTiles.h"
#include "ConvTilesCases.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;

namespace {

using ConvGradientTilesTest = TilesTest;
PP_INSTANTIATE_TILES(ConvGradientTilesTest);

TEST_P(ConvGradientTilesTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : convTilesCases())
    for (bool isInBlocks : {false, true})
      for (bool isAdded : {false, true}) {
        ConvGradientTiles::Shape shape = each.shape(isInBlocks);
        shape.isAdded = isAdded;
        compareGradientWithLoops<ConvGradientTiles>(shape, tiles(), random);
        if (HasFatalFailure())
          return;
      }
}

/// dY with channels last between which something else lies, and windows whose
/// sums are more than a block of columns.
TEST_P(ConvGradientTilesTest, MatchesLoopsWithGapsAndLargeWindows) {
  std::minstd_rand random(4);
  ConvGradientTiles::Shape shape = convTilesCases()[0].shape();
  shape.dy.axes[1] += shape.outputs;
  shape.dy.sample += shape.result[1] * shape.outputs;
  compareGradientWithLoops<ConvGradientTiles>(shape, tiles(), random);
  const ConvTilesCase large = {1,         32,        32,
                               {1, 8, 9}, {1, 7, 6}, {1, 1, 1},
                               {1, 1, 1}, {0, 3, 2}, {1, 8, 8}};
  for (bool isInBlocks : {false, true})
    compareGradientWithLoops<ConvGradientTiles>(large.shape(isInBlocks),
                                                tiles(), random);
}

/// Sums of many terms, that wait for the others; with more rows, a is packed
/// part by part.
TEST_P(ConvGradientTilesTest, MatchesLoopsOfManyPixels) {
  std::minstd_rand random(6);
  for (int64_t outputs : {48, 352}) {
    const ConvTilesCase many = {2,           16,        outputs,
                                {1, 41, 41}, {1, 2, 2}, {1, 1, 1},
                                {1, 1, 1},   {0, 0, 0}, {1, 40, 40}};
    compareGradientWithLoops<ConvGradientTiles>(many.shape(/*isInBlocks=*/true),
                                                tiles(), random);
  }
}

TEST_P(ConvGradientTilesTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  for (auto [isInBlocks, first] : {std::pair<bool, int64_t>{false, 13},
                                   std::pair<bool, int64_t>{true, 16}})
    comparePartWithWhole<ConvGradientTiles>(
        convTilesCases()[5].shape(isInBlocks), first, tiles(), random);
}

/// What it does not do is left to other code.
TEST(ConvGradientTiles, KnowsWhatIsPossible) {
  const ConvGradientTiles::Shape shape = convTilesCases()[0].shape();
  auto isPossible = [&](auto change) {
    ConvGradientTiles::Shape other = shape;
    change(other);
    return ConvGradientTiles::isPossible(other);
  };
  auto inBlocksOf8 = [](auto &places) { places.blockChannels = 8; };
  auto withGaps = [](auto &other) { other.dy.axes[1] += 40; };
  EXPECT_TRUE(isPossible([](auto &) {}));
  EXPECT_TRUE(isPossible(withGaps));
  EXPECT_FALSE(isPossible([](auto &other) { other.isShort = false; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.channels = 24; }));
  EXPECT_FALSE(isPossible([](auto &other) { other.x.block = 16; }));
  EXPECT_FALSE(isPossible([&](auto &other) { inBlocksOf8(other.x); }));
  EXPECT_FALSE(isPossible([&](auto &other) { inBlocksOf8(other.dy); }));
  EXPECT_TRUE(isPossible([](auto &other) { other.outputs = 24; }));
  EXPECT_FALSE(isPossible([&](auto &other) {
    other.outputs = 24;
    withGaps(other);
  }));
}

/// Several micro-batches at once have the bits of one after the other.
TEST_P(ConvGradientTilesTest, AddsSeveralAtOnce) {
  std::minstd_rand random(7);
  constexpr int64_t count = 3;
  for (const ConvTilesCase &each : convTilesCases())
    for (bool isInBlocks : {false, true})
      for (bool isFirst : {false, true}) {
        ConvGradientTiles::Shape shape = each.shape(isInBlocks);
        shape.isAdded = true;
        auto sums = ConvGradientSums::find(shape, count, tiles());
        ASSERT_EQ(sums.has_value(), shape.pixels() <= 512);
        if (!sums)
          continue;
        ASSERT_EQ(sums->atOnce(), shape.pixels() <= 320 ? count : 2);
        std::vector<std::vector<uint16_t>> x, dy;
        std::vector<ConvGradientSums::Factors> factors;
        for (int64_t i = 0; i < sums->atOnce(); ++i) {
          x.push_back(makeShortNumbers(random, shape.samples * shape.x.sample));
          dy.push_back(
              makeShortNumbers(random, shape.samples * shape.dy.sample));
        }
        for (size_t i = 0; i < x.size(); ++i)
          factors.push_back({x[i].data(), dy[i].data()});
        std::vector<float> expected(shape.outputs * shape.columns(), 9);
        std::vector<float> found = expected;
        for (size_t i = 0; i < x.size(); ++i) {
          shape.isAdded = i != 0 || !isFirst;
          ConvGradientTiles one(shape, tiles());
          std::vector<char> scratchpad(one.getScratchpadBytes(), char(0xff));
          one.run(factors[i].a, factors[i].b, expected.data(),
                  scratchpad.data());
        }
        const uint64_t bytes = sums->getScratchpadBytes();
        std::vector<char> scratchpad(bytes + 64, char(0xff));
        sums->run(factors, found.data(), isFirst, scratchpad.data());
        ASSERT_EQ(std::memcmp(found.data(), expected.data(),
                              found.size() * sizeof(float)),
                  0);
        ASSERT_EQ(std::count(scratchpad.begin() + bytes, scratchpad.end(),
                             char(0xff)),
                  64);
      }
}

} // namespace
