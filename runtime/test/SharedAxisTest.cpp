//===- SharedAxisTest.cpp -------------------------------------------------===//
#include "cpu/SharedAxis.h"

#include "gtest/gtest.h"

using namespace pp::runtime;

namespace {

constexpr bool isChannelsLast = true;

TEST(SharedAxis, IsThatOfSamplesWhereTheseAreEnough) {
  for (int64_t samples : {2, 4, 16, 17})
    for (bool areLast : {false, true})
      EXPECT_EQ(findSharedAxis({samples, 64, 28}, areLast, 784 * samples, 2),
                SharedAxis::Samples);
  // Of three, one thread would have two.
  EXPECT_EQ(findSharedAxis({3, 64, 28}, isChannelsLast, 3 * 784, 2),
            SharedAxis::Rows);
  EXPECT_EQ(findSharedAxis({3, 64, 28}, !isChannelsLast, 3 * 784, 2),
            SharedAxis::Channels);
}

TEST(SharedAxis, IsThatOfALargeImageWhichLiesFarthestApart) {
  EXPECT_EQ(findSharedAxis({1, 64, 14}, isChannelsLast, 196, 2),
            SharedAxis::Rows);
  EXPECT_EQ(findSharedAxis({1, 64, 14}, !isChannelsLast, 196, 2),
            SharedAxis::Channels);
}

TEST(SharedAxis, IsThatOfChannelsWhereRowsAreFew) {
  EXPECT_EQ(findSharedAxis({1, 64, 6}, isChannelsLast, 36, 2),
            SharedAxis::Channels);
  EXPECT_EQ(findSharedAxis({1, 64, 14}, isChannelsLast, 196, 4),
            SharedAxis::Channels);
}

TEST(SharedAxis, IsThatOfUnequalSharesWhereNothingElseIsLeft) {
  EXPECT_EQ(findSharedAxis({1, 1, 5}, isChannelsLast, 25, 2), SharedAxis::Rows);
  EXPECT_EQ(findSharedAxis({1, 3, 5}, !isChannelsLast, 25, 2),
            SharedAxis::Channels);
  EXPECT_EQ(findSharedAxis({5, 1, 1}, !isChannelsLast, 5, 2),
            SharedAxis::Samples);
}

} // namespace
