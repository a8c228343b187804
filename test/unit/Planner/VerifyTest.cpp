//===- VerifyTest.cpp - Every error the verifier can give -----------------===//
#include "pp/Planner/Schedule/Verify.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "gtest/gtest.h"
#include <chrono>

using namespace pp::planner;

namespace {

std::string verifyText(const std::string &text,
                       std::vector<Channel> channels = neighborChannels(2,
                                                                        true)) {
  Result<Schedule> schedule = parseSchedule(text, channels);
  if (!schedule)
    return "parse: " + schedule.error();
  std::string errors;
  for (const std::string &error : verifySchedule(*schedule))
    errors += (errors.empty() ? "" : "; ") + error;
  return errors;
}

constexpr const char *good =
    "0F0,0SEND_F0,0RECV_B0,0B0,0U\n1RECV_F0,1F0,1B0,1SEND_B0,1U\n";

TEST(Verify, good) {
  EXPECT_EQ(verifyText(good), "");
  EXPECT_EQ(verifyText("0F0,0B0,0U\n1F0,1B0,1U\n"), "");
  EXPECT_EQ(verifyText("0F0,0I0,0W0,0U\n1F0,1I0,1W0,1U\n"), "");
}

TEST(Verify, missing) {
  EXPECT_EQ(verifyText("0F0,0B0,0U\n1B0,1U\n"), "1F0 is missing");
  EXPECT_EQ(verifyText("0F0,0U\n1F0,1B0,1U\n"), "0B0 is missing");
  EXPECT_EQ(verifyText("0F0,0I0,0U\n1F0,1B0,1U\n"), "0W0 is missing");
  EXPECT_EQ(verifyText("0F0,0W0,0U\n1F0,1B0,1U\n"), "0I0 is missing");
  EXPECT_EQ(verifyText("0F0,0B0\n1F0,1B0,1U\n"), "0U is missing");
  EXPECT_EQ(verifyText("0F0,0RECV_B0,0B0,0U\n1RECV_F0,1F0,1B0,1SEND_B0,1U\n"),
            "0SEND_F0 is missing");
  EXPECT_EQ(verifyText("0F0,0SEND_F0,0RECV_B0,0B0,0U\n1F0,1B0,1SEND_B0,1U\n"),
            "1RECV_F0 is missing");
  // All of a kind.
  EXPECT_EQ(verifyText("0F0,0B0,0F1,0U\n1F0,1B0,1U\n"),
            "0B1 is missing; 1F1 is missing; 1B1 is missing");
}

TEST(Verify, doubled) {
  EXPECT_EQ(verifyText("0F0,0F0,0B0,0U\n1F0,1B0,1U\n"),
            "0F0 is in the schedule twice");
  EXPECT_EQ(verifyText("0F0,0B0,0U,0U\n1F0,1B0,1U\n"),
            "0U is in the schedule twice");
  EXPECT_EQ(verifyText("0F0,0B0,0W0,0U\n1F0,1B0,1U\n"),
            "0W0 repeats a part of 0B0");
}

TEST(Verify, order) {
  EXPECT_EQ(verifyText("0B0,0F0,0U\n1F0,1B0,1U\n"), "0F0 comes after 0B0");
  EXPECT_EQ(verifyText("0F0,0W0,0I0,0U\n1F0,1B0,1U\n"), "0I0 comes after 0W0");
  EXPECT_EQ(verifyText("0F0,0B0,0R0,0U\n1F0,1B0,1U\n"), "0R0 comes after 0B0");
  EXPECT_EQ(verifyText("0R0,0F0,0B0,0U\n1F0,1B0,1U\n"), "0F0 comes after 0R0");
  EXPECT_EQ(verifyText("0F0,0U,0B0\n1F0,1B0,1U\n"), "0B0 comes after 0U");
  EXPECT_EQ(verifyText(
                "0SEND_F0,0F0,0RECV_B0,0B0,0U\n1RECV_F0,1F0,1B0,1SEND_B0,1U\n"),
            "0F0 comes after 0SEND_F0");
  EXPECT_EQ(verifyText(
                "0F0,0SEND_F0,0B0,0RECV_B0,0U\n1RECV_F0,1F0,1B0,1SEND_B0,1U\n"),
            "0RECV_B0 comes after 0B0");
  EXPECT_EQ(verifyText(
                "0F0,0SEND_F0,0RECV_B0,0B0,0U\n1RECV_F0,1F0,1B0,1U,1SEND_B0\n"),
            "1SEND_B0 comes after 1U");
}

TEST(Verify, preparation) {
  EXPECT_EQ(verifyText("0P,0F0,0B0,0U\n1P,1F0,1B0,1U\n"), "");
  EXPECT_EQ(verifyText("0P,0F0,0B0,0U\n1F0,1B0,1U\n"), "");
  EXPECT_EQ(verifyText("0F0,0P,0B0,0U\n1F0,1B0,1U\n"), "0P comes after 0F0");
  EXPECT_EQ(verifyText("0P,0F0,0B0,0P,0U\n1F0,1B0,1U\n"),
            "0P is in the schedule twice");
  EXPECT_EQ(verifyText("0F0,0B0,0U\n0P,1F0,1B0,1U\n"),
            "0P is on rank 1, its stage is on rank 0");
}

TEST(Verify, stagesOfOneRankNeedNoTransfers) {
  EXPECT_EQ(verifyText("0F0,1F0,1B0,0B0,0U,1U\n"), "");
  EXPECT_EQ(verifyText("1F0,0F0,1B0,0B0,0U,1U\n"), "0F0 comes after 1F0");
}

TEST(Verify, matching) {
  std::vector<Channel> channels = neighborChannels(2, false);
  EXPECT_EQ(verifyText("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1F1,1RECV_F0,1F0\n",
                       channels),
            "channel 'activation0': 0SEND_F0 would be received by 1RECV_F1");
}

TEST(Verify, places) {
  Schedule schedule = *parseSchedule(good, neighborChannels(2, true));
  auto errors = [&] { return verifySchedule(schedule).at(0); };
  std::swap(schedule.ranks[0], schedule.ranks[1]);
  EXPECT_NE(errors().find("is on rank 0, its stage is on rank 1"),
            std::string::npos);
  std::swap(schedule.ranks[0], schedule.ranks[1]);
  schedule.ranks[0][1].channel = 1;
  EXPECT_NE(errors().find("is not at an end of its channel"),
            std::string::npos);
  schedule.ranks[0][1].channel = 9;
  EXPECT_NE(errors().find("does not exist"), std::string::npos);
  schedule.ranks[0][1] = {ActionKind::Forward, 0, 5};
  EXPECT_NE(errors().find("0F5 on rank 0 names"), std::string::npos);
  schedule.rankOfStage[0] = 7;
  EXPECT_NE(errors().find("rank 7, which does not exist"), std::string::npos);
  schedule = *parseSchedule("0F0,1F0\n", neighborChannels(2, false));
  schedule.ranks[0].push_back({ActionKind::Send, 0, 0, 0});
  EXPECT_NE(errors().find("moves a value inside rank 0"), std::string::npos);
  schedule = *gpipeSchedule({2, 2});
  schedule.channels = {{0, 3}};
  EXPECT_NE(errors().find("does not connect two stages"), std::string::npos);
  schedule.stages = 0;
  EXPECT_NE(errors().find("no stages"), std::string::npos);
}

TEST(Verify, channelOfAMissingPhase) {
  EXPECT_NE(verifyText("0F0\n1F0\n")
                .find("joins phases that the schedule does "
                      "not run"),
            std::string::npos);
}

TEST(Verify, deadlockWithoutTransfers) {
  std::vector<Channel> channels = {
      {0, 1, Phase::Forward, Phase::Forward, Phase::Forward, "a", 1},
      {1, 0, Phase::Forward, Phase::Forward, Phase::Forward, "b", 1}};
  EXPECT_EQ(verifyText("0F0\n1F0\n", channels),
            "deadlock: rank 0 waits in 0F0 for rank 1 to run 1F0; rank 1 waits "
            "in 1F0 for rank 0 to run 0F0\n  rank 0 --0F0--> rank 1 --1F0--> "
            "rank 0\n  rank 0 | [0F0]\n  rank 1 | "
            "[1F0]");
}

TEST(Verify, bufferedCapacities) {
  // Two sends before the first receive: one place is not enough.
  std::vector<Channel> channels = neighborChannels(2, true);
  Schedule schedule =
      *parseSchedule("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0U\n"
                     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1U\n",
                     channels);
  EXPECT_EQ(verifySchedule(schedule).size(), 1u);
  EXPECT_TRUE(verifySchedule(schedule, {SendRule::Kind::Buffered, {1}, nullptr})
                  .empty());
  EXPECT_TRUE(
      verifySchedule(schedule, {SendRule::Kind::Buffered, {1, 0}, nullptr})
          .empty());
  EXPECT_TRUE(
      verifySchedule(schedule, {SendRule::Kind::Buffered, {0, 1}, nullptr})
          .empty());
  EXPECT_NE(
      verifySchedule(schedule, {SendRule::Kind::Buffered, {1, 1, 1}, nullptr})
          .at(0)
          .find("capacities"),
      std::string::npos);
}

TEST(Verify, waitsAtAFinishedRank) {
  Schedule schedule = *parseSchedule("0F0,0SEND_F0\n1RECV_F0,1F0\n",
                                     neighborChannels(2, false));
  schedule.ranks[1].clear();
  // Completeness is checked first, so ask for the bare run.
  EXPECT_EQ(minimalCapacity(schedule), 1);
  schedule = *parseSchedule("0F0,0SEND_F0\n1RECV_F0,1F0\n",
                            neighborChannels(2, false));
  schedule.ranks[0].clear();
  EXPECT_EQ(minimalCapacity(schedule), -1);
}

TEST(Verify, largeSchedulesAreFast) {
  auto start = std::chrono::steady_clock::now();
  Schedule schedule = *insertTransfers(
      *oneForwardOneBackwardSchedule({64, 512}), neighborChannels(64, true));
  std::chrono::duration<double> inserted =
      std::chrono::steady_clock::now() - start;
  start = std::chrono::steady_clock::now();
  EXPECT_TRUE(verifySchedule(schedule).empty());
  std::chrono::duration<double> verified =
      std::chrono::steady_clock::now() - start;
  EXPECT_LT(verified.count(), 1.0);
  EXPECT_LT(inserted.count(), 10.0);
  RecordProperty("insert_seconds", std::to_string(inserted.count()));
  RecordProperty("verify_seconds", std::to_string(verified.count()));
}

} // namespace
