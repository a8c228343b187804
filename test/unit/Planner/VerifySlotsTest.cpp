//===- VerifySlotsTest.cpp - No buffer is used twice ----------------------===//
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Verify.h"
#include "gtest/gtest.h"
#include <random>

using namespace pp::planner;

namespace {

constexpr const char *oneStageNames[] = {"inference",  "gpipe", "1f1b",
                                         "eager-1f1b", "zb-h1", "zb-h2"};

Schedule make(const char *name, int p, int m, CheckpointMode mode,
              Phase lastReader) {
  Schedule schedule = *makeSchedule(name, {p, m});
  if (schedule.isTraining())
    insertRecompute(schedule, mode);
  return *insertTransfers(
      schedule, neighborChannels(p, schedule.isTraining(), lastReader));
}

TEST(VerifySlots, assignmentsAreRight) {
  for (const char *name : oneStageNames)
    for (int p = 1; p <= 5; ++p)
      for (int m = 1; m <= 9; ++m)
        for (CheckpointMode mode :
             {CheckpointMode::Never, CheckpointMode::ExceptLast,
              CheckpointMode::Always})
          for (Phase last : {Phase::Forward, Phase::BackwardWeight})
            for (int slack : {0, 2}) {
              Schedule schedule = make(name, p, m, mode, last);
              std::vector<std::string> faults =
                  verifySlots(schedule, assignSlots(schedule, {slack}));
              EXPECT_TRUE(faults.empty()) << name << ": " << faults.front();
            }
  for (const char *name : {"zb-v", "v-half", "v-min", "interleaved"}) {
    Schedule schedule = *insertTransfers(*makeSchedule(name, {8, 9, 4}),
                                         neighborChannels(8, true));
    EXPECT_TRUE(verifySlots(schedule, assignSlots(schedule)).empty()) << name;
  }
}

/// Slots of two micro-batches made one: found if and only if both live at once,
/// which is tried here position by position.
TEST(VerifySlots, mergedSlotsAreFound) {
  std::mt19937 random(9);
  int found = 0;
  for (int test = 0; test < 3000; ++test) {
    int p = 1 + random() % 4, m = 2 + random() % 6;
    Schedule schedule = make(oneStageNames[1 + random() % 5], p, m,
                             CheckpointMode::Never, Phase::BackwardWeight);
    SlotAssignment slots = assignSlots(schedule);
    int stage = random() % p, a = random() % m, b = random() % m;
    StageSlots &changed = slots.stages[stage];
    changed.forward[a] = changed.backward[a] = changed.forward[b];
    bool overlap = false;
    std::vector<int> alive(slots.stages[stage].count, 0);
    for (const Action &action : schedule.ranks[stage]) {
      if (action.performs(Phase::Forward))
        overlap |= ++alive[changed.forward[action.microbatch]] > 1;
      if (action.performs(Phase::BackwardWeight))
        --alive[changed.forward[action.microbatch]];
    }
    EXPECT_EQ(!verifySlots(schedule, slots).empty(), overlap)
        << toString(schedule) << stage << a << b;
    found += overlap;
  }
  EXPECT_GT(found, 500);
}

TEST(VerifySlots, errors) {
  Schedule schedule =
      make("gpipe", 2, 2, CheckpointMode::Never, Phase::BackwardWeight);
  SlotAssignment slots = assignSlots(schedule);
  slots.stages[0].forward = slots.stages[0].backward = {0, 0};
  EXPECT_EQ(verifySlots(schedule, slots).front(),
            "0F1 writes the residual slot 0, which still holds micro-batch 0\n"
            "  rank 0 | 0F0 0SEND_F0 [0F1] 0SEND_F1 0RECV_B0 0B0 0RECV_B1 ...");
  slots = assignSlots(schedule);
  slots.stages[1].backward = {1, 0};
  EXPECT_EQ(verifySlots(schedule, slots).size(), 2u);
  EXPECT_NE(
      verifySlots(schedule, slots)
          .front()
          .find("1B0 reads the residual slot 1, which holds micro-batch 1"),
      std::string::npos);
  slots = assignSlots(schedule);
  slots.channels[0].receive = {0, 0};
  EXPECT_NE(verifySlots(schedule, slots)
                .front()
                .find("1RECV_F1 writes the receive slot 0, which still holds"),
            std::string::npos);
  slots.channels[0].receive = {0, 7};
  EXPECT_NE(verifySlots(schedule, slots)
                .front()
                .find("1RECV_F1 has the receive slot 7, which does not exist"),
            std::string::npos);
  slots = assignSlots(schedule);
  slots.channels[0].release = ActionKind::Forward;
  EXPECT_NE(verifySlots(schedule, slots)
                .front()
                .find("1B0 reads the receive slot 0, which holds nothing"),
            std::string::npos);
  slots.stages.pop_back();
  EXPECT_EQ(verifySlots(schedule, slots).size(), 1u);
}

/// 1F1B as it is often written: the sends of neighbours meet.
TEST(Verify, drawsTheCircle) {
  Schedule schedule =
      *parseSchedule("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0U\n"
                     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1U\n",
                     neighborChannels(2, true));
  std::string fault = verifySchedule(schedule).front();
  EXPECT_NE(
      fault.find("\n  rank 0 --0SEND_F1--> rank 1 --1SEND_B0--> rank 0\n"),
      std::string::npos)
      << fault;
}

} // namespace
