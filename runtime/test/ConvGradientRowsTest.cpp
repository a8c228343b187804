//===- ConvGradientRowsTest.cpp - Gradients of weights from few channels --===//
#include "cpu/ConvGradientRows.h"
#include "ConvTilesCases.h"

using namespace pp::runtime;

namespace {

using ConvGradientRowsTest = TilesTest;
PP_INSTANTIATE_TILES(ConvGradientRowsTest);

std::vector<ConvTilesCase> rowCases() {
  return {
      // The first of a ResNet, of a ViT, and of a model of grey images.
      {2,
       3,
       32,
       {1, 14, 12},
       {1, 7, 7},
       {1, 2, 2},
       {1, 1, 1},
       {0, 3, 3},
       {1, 7, 6}},
      {2,
       3,
       48,
       {1, 8, 12},
       {1, 4, 4},
       {1, 4, 4},
       {1, 1, 1},
       {0, 0, 0},
       {1, 2, 3}},
      {3,
       1,
       16,
       {1, 9, 11},
       {1, 5, 5},
       {1, 1, 1},
       {1, 1, 1},
       {0, 0, 2},
       {1, 5, 11}},
      // Depth, distances between rows, padding on one side, and more padding
      // than pixels.
      {2,
       5,
       64,
       {3, 6, 4},
       {2, 2, 3},
       {1, 1, 2},
       {2, 3, 1},
       {1, 0, 5},
       {3, 3, 6}},
      {1,
       24,
       16,
       {1, 1, 40},
       {1, 1, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 0, 0},
       {1, 1, 38}},
  };
}

TEST_P(ConvGradientRowsTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : rowCases())
    for (bool isAdded : {false, true}) {
      ConvGradientRows::Shape shape = each.shape();
      shape.isAdded = isAdded;
      compareGradientWithLoops<ConvGradientRows>(shape, tiles(), random);
      if (HasFatalFailure())
        return;
    }
}

/// Images between whose samples and rows something else lies.
TEST_P(ConvGradientRowsTest, MatchesLoopsWithGaps) {
  std::minstd_rand random(4);
  ConvGradientRows::Shape shape = rowCases()[0].shape();
  shape.x.axes[1] += 5;
  shape.x.sample += 5 * shape.image[1] + 9;
  compareGradientWithLoops<ConvGradientRows>(shape, tiles(), random);
}

TEST_P(ConvGradientRowsTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  comparePartWithWhole<ConvGradientRows>(rowCases()[1].shape(), /*first=*/16,
                                         tiles(), random);
}

TEST(ConvGradientRows, KnowsWhatIsPossible) {
  auto isPossible = [](auto change) {
    ConvGradientRows::Shape shape = rowCases()[0].shape();
    change(shape);
    return ConvGradientRows::isPossible(shape);
  };
  EXPECT_TRUE(isPossible([](auto &) {}));
  EXPECT_FALSE(isPossible([](auto &shape) { shape.isShort = false; }));
  EXPECT_FALSE(isPossible([](auto &shape) { shape.outputs = 40; }));
  EXPECT_FALSE(isPossible([](auto &shape) { shape.x.axes[2] = 4; }));
  EXPECT_FALSE(isPossible([](auto &shape) { shape.x.block = 200; }));
  EXPECT_FALSE(isPossible([](auto &shape) { shape.dilations[2] = 2; }));
  EXPECT_FALSE(
      isPossible([](auto &shape) { shape.channels = shape.x.axes[2] = 16; }));
}

/// Few pixels, a window that is mostly zeros beside what it sees, and one of a
/// single place are left to other code.
TEST(ConvGradientRows, KnowsWhereItIsPreferred) {
  auto isPreferred = [](auto change) {
    ConvTilesCase image = {4,           3,         64,
                           {1, 32, 32}, {1, 3, 3}, {1, 1, 1},
                           {1, 1, 1},   {0, 1, 1}, {1, 32, 32}};
    change(image);
    return ConvGradientRows::isPreferred(image.shape());
  };
  EXPECT_EQ(isPreferred([](auto &) {}), hasMatrixTiles());
  EXPECT_FALSE(isPreferred([](auto &each) { each.channels = 2; }));
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.image = each.result = {1, 224, 224};
    each.dilations = {1, 100, 1};
    each.padding = {0, 100, 1};
  }));
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.samples = 1;
    each.image = each.result = {1, 15, 16};
  }));
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.channels = 24;
    each.window = {1, 1, 1};
    each.padding = {0, 0, 0};
  }));
}

} // namespace
