//===- ConvGradientShiftsTest.cpp - Gradients of weights by shifts --------===//
#include "cpu/ConvGradientShifts.h"
#include "ConvTilesCases.h"

using namespace pp::runtime;

namespace {

using ConvGradientShiftsTest = TilesTest;
PP_INSTANTIATE_TILES(ConvGradientShiftsTest);

TEST_P(ConvGradientShiftsTest, MatchesLoops) {
  std::minstd_rand random(3);
  for (const ConvTilesCase &each : convTilesCases())
    for (bool isInBlocks : {false, true})
      for (bool isAdded : {false, true}) {
        ConvGradientShifts::Shape shape = each.shape(isInBlocks);
        shape.isAdded = isAdded;
        compareGradientWithLoops<ConvGradientShifts>(shape, tiles(), random);
        if (HasFatalFailure())
          return;
      }
}

/// Paddings that are more than what is behind an image, or on one side only,
/// and results that see less than the image.
TEST_P(ConvGradientShiftsTest, MatchesLoopsAtTheEdges) {
  std::minstd_rand random(4);
  const ConvTilesCase base = {3,         16,        48,
                              {1, 5, 6}, {1, 3, 3}, {1, 1, 1},
                              {1, 1, 1}, {0, 1, 1}, {1, 5, 6}};
  struct Edge {
    ImageAxes window, strides, dilations, padding, result;
  };
  for (const Edge &edge : {
           Edge{{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 3, 4}},
           Edge{{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {1, 7, 8}},
           Edge{{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 2, 0}, {1, 5, 6}},
           Edge{{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 2}, {1, 5, 6}},
           Edge{{1, 7, 5}, {1, 2, 2}, {1, 1, 1}, {0, 3, 2}, {1, 3, 3}},
           Edge{{1, 4, 4}, {1, 4, 4}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
           Edge{{1, 3, 2}, {1, 3, 1}, {1, 2, 3}, {0, 4, 1}, {1, 3, 5}},
           Edge{{1, 5, 6}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
       }) {
    ConvTilesCase each = base;
    each.window = edge.window;
    each.strides = edge.strides;
    each.dilations = edge.dilations;
    each.padding = edge.padding;
    each.result = edge.result;
    for (bool isInBlocks : {false, true})
      compareGradientWithLoops<ConvGradientShifts>(each.shape(isInBlocks),
                                                   tiles(), random);
    if (HasFatalFailure())
      return;
  }
}

/// More terms than are packed at once, the last ones fewer, and dY with gaps.
TEST_P(ConvGradientShiftsTest, MatchesLoopsOfManyPixels) {
  std::minstd_rand random(6);
  for (int64_t channels : {16, 176}) {
    const ConvTilesCase many = {2,           channels,  32,
                                {1, 33, 40}, {1, 3, 3}, {1, 1, 1},
                                {1, 1, 1},   {0, 1, 1}, {1, 33, 40}};
    ConvGradientShifts::Shape shape = many.shape();
    shape.dy.axes[1] += shape.outputs;
    shape.dy.sample += shape.result[1] * shape.outputs;
    compareGradientWithLoops<ConvGradientShifts>(shape, tiles(), random);
  }
}

TEST_P(ConvGradientShiftsTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(5);
  for (bool isInBlocks : {false, true})
    comparePartWithWhole<ConvGradientShifts>(
        convTilesCases()[5].shape(isInBlocks), /*first=*/16, tiles(), random);
}

/// Where it would pack more, add more zeros, or its sums would not stay in a
/// cache, other code is better.
TEST(ConvGradientShifts, KnowsWhereItIsPreferred) {
  auto isPreferred = [](auto change) {
    ConvTilesCase square = {8,           64,        64,
                            {1, 28, 28}, {1, 3, 3}, {1, 1, 1},
                            {1, 1, 1},   {0, 1, 1}, {1, 28, 28}};
    change(square);
    return ConvGradientShifts::isPreferred(square.shape());
  };
  EXPECT_EQ(isPreferred([](auto &) {}), hasMatrixTiles());
  EXPECT_FALSE(isPreferred([](auto &each) { each.channels = 24; }));
  EXPECT_FALSE(isPreferred([](auto &each) { each.outputs = 40; }));
  EXPECT_FALSE(
      isPreferred([](auto &each) { each.channels = each.outputs = 256; }));
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.window = {1, 1, 1};
    each.padding = {0, 0, 0};
  }));
  EXPECT_FALSE(
      isPreferred([](auto &each) { each.image = each.result = {1, 9, 9}; }));
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.strides = {1, 2, 2};
    each.result = {1, 14, 14};
  }));
  // Places that see other rows each.
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.image = each.result = {1, 56, 56};
    each.dilations = {1, 24, 1};
    each.padding = {0, 24, 1};
  }));
  // As many as are added together.
  EXPECT_FALSE(isPreferred([](auto &each) {
    each.samples = 1;
    each.image = each.result = {1, 16, 16};
  }));
}

} // namespace
