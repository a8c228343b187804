//===- GeneratorsTest.cpp - Golden orders ---------------------------------===//
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Verify.h"
#include "gtest/gtest.h"

using namespace pp::planner;

namespace {

std::string firstLine(const std::string &text, int line = 0) {
  size_t begin = 0;
  for (; line; --line)
    begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Generators, gpipe) {
  EXPECT_EQ(toString(*gpipeSchedule({2, 3})), "0F0,0F1,0F2,0B0,0B1,0B2,0U\n"
                                              "1F0,1F1,1F2,1B0,1B1,1B2,1U\n");
}

TEST(Generators, oneForwardOneBackward) {
  std::string text = toString(*oneForwardOneBackwardSchedule({4, 8}));
  EXPECT_EQ(firstLine(text, 0),
            "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7,"
            "0U");
  EXPECT_EQ(firstLine(text, 3),
            "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7,"
            "3U");
}

TEST(Generators, fewerMicrobatchesThanStages) {
  EXPECT_EQ(toString(*oneForwardOneBackwardSchedule({3, 1})),
            "0F0,0B0,0U\n1F0,1B0,1U\n2F0,2B0,2U\n");
}

TEST(Generators, inference) {
  EXPECT_EQ(toString(*inferenceSchedule({2, 2})), "0F0,0F1\n1F0,1F1\n");
}

TEST(Generators, recompute) {
  Schedule schedule = *gpipeSchedule({1, 2});
  Schedule never = schedule;
  insertRecompute(never, CheckpointMode::Never);
  EXPECT_EQ(toString(never), toString(schedule));
  Schedule exceptLast = schedule;
  insertRecompute(exceptLast, CheckpointMode::ExceptLast);
  EXPECT_EQ(toString(exceptLast), "0F0,0F1,0R0,0B0,0B1,0U\n");
  insertRecompute(schedule, CheckpointMode::Always);
  EXPECT_EQ(toString(schedule), "0F0,0F1,0R0,0B0,0R1,0B1,0U\n");
}

TEST(Generators, checkpointModes) {
  EXPECT_EQ(pp::parseCheckpointMode("always"), CheckpointMode::Always);
  EXPECT_EQ(pp::parseCheckpointMode("except_last"), CheckpointMode::ExceptLast);
  EXPECT_EQ(pp::parseCheckpointMode("never"), CheckpointMode::Never);
  EXPECT_EQ(pp::parseCheckpointMode("sometimes"), std::nullopt);
}

TEST(Generators, errors) {
  EXPECT_NE(gpipeSchedule({0, 1}).error().find("at least 1 stage"),
            std::string::npos);
  EXPECT_NE(gpipeSchedule({1, 0}).error().find("at least 1 micro-batch"),
            std::string::npos);
  EXPECT_NE(gpipeSchedule({1 << 20, 1 << 20}).error().find("too many"),
            std::string::npos);
  EXPECT_EQ(
      makeSchedule("zigzag", {1, 1})
          .error()
          .find("there is no schedule 'zigzag'; there are inference, gpipe, "),
      0u);
}

TEST(Generators, allAreRight) {
  for (const char *name : {"inference", "gpipe", "1f1b"})
    for (int stages = 1; stages <= 6; ++stages)
      for (int microbatches = 1; microbatches <= 9; ++microbatches) {
        Schedule schedule = *makeSchedule(name, {stages, microbatches});
        schedule.channels = neighborChannels(stages, schedule.isTraining());
        EXPECT_TRUE(verifySchedule(schedule).empty())
            << name << " " << stages << " " << microbatches;
      }
}

} // namespace
