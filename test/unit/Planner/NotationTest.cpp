//===- NotationTest.cpp - Schedules as text -------------------------------===//
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "gtest/gtest.h"

using namespace pp::planner;

namespace {

TEST(Notation, roundTrip) {
  std::vector<Channel> channels = neighborChannels(3, true);
  channels.push_back(
      {0, 2, Phase::Forward, Phase::Forward, Phase::Forward, "skip", 4});
  Schedule schedule =
      *insertTransfers(*oneForwardOneBackwardSchedule({3, 4}), channels);
  std::string text = toString(schedule);
  Result<Schedule> read = parseSchedule(text, channels);
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->ranks, schedule.ranks);
  EXPECT_EQ(read->rankOfStage, schedule.rankOfStage);
  EXPECT_EQ(read->microbatches, 4);
  // Stage 0 has two forward channels, stage 1 one.
  EXPECT_NE(text.find("0SEND_F0#0,0SEND_F0#4"), std::string::npos) << text;
  EXPECT_NE(text.find("1SEND_F0,"), std::string::npos) << text;
}

TEST(Notation, pytorchTables) {
  // Empty cells, several stages on a rank, no final newline.
  Result<Schedule> read =
      parseSchedule("0F0,2F0,,2I0,2W0,0B0\n1F0, 3F0,3B0,1B0");
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->stages, 4);
  EXPECT_EQ(read->rankOfStage, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(read->ranks[0].size(), 5u);
}

TEST(Notation, errors) {
  auto error = [](const char *text, std::vector<Channel> channels = {}) {
    Result<Schedule> read = parseSchedule(text, channels);
    return read ? std::string() : read.error();
  };
  EXPECT_EQ(error("0F0,X\n").find("line 1, field 2: 'X': expected"), 0u);
  EXPECT_EQ(error("0F0\n0F\n").find("line 2, field 1"), 0u);
  EXPECT_EQ(error("0F-1").find("line 1, field 1"), 0u);
  EXPECT_NE(error("0F0x").find("expected"), std::string::npos);
  EXPECT_NE(error("0F99999999999").find("expected"), std::string::npos);
  EXPECT_NE(error("0F99999999").find("too large"), std::string::npos);
  EXPECT_NE(error("0SEND_F0").find("no such channel"), std::string::npos);
  std::vector<Channel> two = {{0, 1}, {0, 2}};
  EXPECT_NE(error("0SEND_F0", two).find("several channels fit"),
            std::string::npos);
  EXPECT_NE(error("0SEND_F0#7", two).find("does not fit"), std::string::npos);
}

} // namespace
