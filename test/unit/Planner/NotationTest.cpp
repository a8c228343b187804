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

TEST(PyTorchNotation, errorsNameTheFieldOfTheFile) {
  // The third field of the second line, whatever its neighbours become.
  for (const char *line : {"(0F0;1B0)OVERLAP_F_B,(0F1;1B1)OVERLAP_F_B,X,0F3",
                           "0UNSHARD,(0F1;1B1)OVERLAP_F_B,X", ",,X",
                           "0BW1,0REDUCE_GRAD,X", "\"0F0\", 0F1 ,X"}) {
    Result<ImportedSchedule> read =
        importPyTorchSchedule(std::string("0F0\n") + line + "\n0F5\n");
    ASSERT_FALSE(bool(read));
    EXPECT_EQ(read.error().find("line 2, field 3: 'X': expected"), 0u)
        << read.error();
  }
  // Both actions of a pair are in its field.
  for (const char *pair : {"(X;1B0)OVERLAP_F_B", "(0F0;X)OVERLAP_F_B"}) {
    Result<ImportedSchedule> read =
        importPyTorchSchedule(std::string("(0F0;1B0)OVERLAP_F_B,") + pair);
    ASSERT_FALSE(bool(read));
    EXPECT_EQ(read.error().find("line 1, field 2: 'X'"), 0u) << read.error();
  }
}

/// Two ranks of PyTorch's golden file dualpipev_4rank_10mb.csv.
TEST(PyTorchNotation, overlappedPairs) {
  const char *first =
      "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,"
      "(0F7;7B3)OVERLAP_F_B,(7F4;0B0)OVERLAP_F_B,(0F8;7B4)OVERLAP_F_B,"
      "(7F5;0B1)OVERLAP_F_B,(0F9;7B5)OVERLAP_F_B,(7F6;0B2)OVERLAP_F_B,7B6,"
      "(7F7;0B3)OVERLAP_F_B,7B7,(7F8;0B4)OVERLAP_F_B,7B8,(7F9;0B5)OVERLAP_F_B,"
      "7B9,0I6,0W6,0I7,0W7,0I8,0W8,0I9,0W9\n";
  const char *last =
      "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4B0,(4F4;3B0)OVERLAP_F_B,"
      "(3F5;4B1)OVERLAP_F_B,(4F5;3B1)OVERLAP_F_B,(3F6;4B2)OVERLAP_F_B,"
      "(4F6;3B2)OVERLAP_F_B,(3F7;4B3)OVERLAP_F_B,(4F7;3B3)OVERLAP_F_B,"
      "(3F8;4B4)OVERLAP_F_B,(4F8;3B4)OVERLAP_F_B,(3F9;4B5)OVERLAP_F_B,"
      "(4F9;3B5)OVERLAP_F_B,4B6,3B6,4B7,3B7,4I8,3I8,4I9,3I9,4W8,3W8,4W9,3W9\n";
  Schedule ours = *dualPipeVSchedule({8, 10, 4});
  for (auto [text, rank] : {std::pair{first, 0}, {last, 3}}) {
    Result<ImportedSchedule> read = importPyTorchSchedule(text);
    ASSERT_TRUE(bool(read)) << read.error();
    std::vector<Action> expected = ours.ranks[rank],
                        actions = read->schedule.ranks[0];
    std::erase_if(expected, [](const Action &action) {
      return action.kind == ActionKind::Update;
    });
    std::erase_if(actions, [](const Action &action) {
      return action.kind == ActionKind::Update;
    });
    EXPECT_EQ(actions, expected);
  }
}

TEST(PyTorchNotation, emptyFieldsAndOldNames) {
  // The begin of both ranks of zb1p_2rank_2stagep_compute.csv.
  Result<ImportedSchedule> read = importPyTorchSchedule(
      "0F0,2F0,,2B0,2W0,0BW0\n,1F0,3F0,3B0,1B0,3W0,1W0\n");
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(toString(read->schedule),
            "0F0,2F0,2I0,2W0,0B0,0U,2U\n1F0,3F0,3I0,1I0,3W0,1W0,1U,3U\n");
  EXPECT_EQ(read->notes,
            (std::vector<std::string>{"1 actions BW are read as B",
                                      "3 actions B that have a W are read as I",
                                      "4 updates are added at the end"}));
}

TEST(PyTorchNotation, sharding) {
  Result<ImportedSchedule> read = importPyTorchSchedule(
      "0UNSHARD,1UNSHARD,0F0,1F0,1B0,1REDUCE_GRAD,1RESHARD,0B0,0REDUCE_GRAD\n");
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(toString(read->schedule), "0F0,1F0,1B0,0B0,0U,1U\n");
  EXPECT_EQ(read->notes.front(),
            "5 actions that shard parameters or gradients are skipped");
  EXPECT_NE(importPyTorchSchedule("0UNSHARDED\n").error().find("line 1, field"),
            std::string::npos);
}

TEST(PyTorchNotation, errors) {
  for (const char *text :
       {"0F0\n(1F0;1B0\n", "0F0\n(1F0)OVERLAP_F_B\n",
        "0F0\n(1F0;1B0)OVERLAP_X\n", "0F0\n(1F0;1B0;1B1)OVERLAP_F_B\n"})
    EXPECT_EQ(importPyTorchSchedule(text).error().find("line 2, field 1: '("),
              0u)
        << text;
}

TEST(PyTorchNotation, roundTrip) {
  for (const char *name :
       {"gpipe", "1f1b", "zb-h1", "zb-v", "v-min", "interleaved"}) {
    Result<Schedule> schedule = makeSchedule(name, {8, 6, 4});
    if (!schedule)
      schedule = makeSchedule(name, {4, 6});
    schedule =
        insertTransfers(*schedule, neighborChannels(schedule->stages, true));
    Result<std::string> text = exportPyTorchSchedule(*schedule);
    ASSERT_TRUE(bool(text)) << text.error();
    EXPECT_EQ(text->find('U'), std::string::npos);
    ImportedSchedule read = *importPyTorchSchedule(*text, schedule->channels);
    EXPECT_EQ(toString(read.schedule), toString(*schedule)) << name;
  }
  Schedule schedule = *parseSchedule("0F0,0R0,0B0,0U\n");
  EXPECT_EQ(exportPyTorchSchedule(schedule).error(),
            "0R0: PyTorch does not schedule recomputation; use the checkpoint "
            "mode 'never'");
  std::vector<Channel> channels = neighborChannels(3, false);
  channels.push_back(
      {0, 2, Phase::Forward, Phase::Forward, Phase::Forward, "skip", 4});
  EXPECT_EQ(exportPyTorchSchedule(
                *insertTransfers(*inferenceSchedule({3, 1}), channels))
                .error(),
            "0SEND_F0: PyTorch has one value per stage and direction, but the "
            "stage has several channels");
}

} // namespace
