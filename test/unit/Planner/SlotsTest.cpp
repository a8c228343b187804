//===- SlotsTest.cpp - Buffers from lifetimes -----------------------------===//
#include "pp/Planner/Schedule/Slots.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Verify.h"
#include "pp/Planner/Simulator.h"
#include "gtest/gtest.h"
#include <map>

using namespace pp::planner;

namespace {

Schedule withTransfers(Schedule schedule,
                       Phase lastReader = Phase::BackwardWeight) {
  return *insertTransfers(
      schedule,
      neighborChannels(schedule.stages, schedule.isTraining(), lastReader));
}

/// No slot may be taken while another micro-batch lives in it.
void expectDisjoint(const Schedule &schedule, const SlotAssignment &slots) {
  for (const std::vector<Action> &rank : schedule.ranks) {
    std::map<std::pair<int, int>, int> residual, received;
    for (const Action &action : rank) {
      int s = action.stage, i = action.microbatch;
      bool recomputed = false;
      for (const Action &other : rank)
        recomputed |= other == Action{ActionKind::Recompute, s, i};
      if (action.kind == ActionKind::Forward ||
          action.kind == ActionKind::Recompute) {
        int slot = action.kind == ActionKind::Forward
                       ? slots.stages[s].forward[i]
                       : slots.stages[s].backward[i];
        ASSERT_LT(slot, slots.stages[s].count);
        EXPECT_EQ(residual.count({s, slot}), 0u) << toString(schedule);
        // Lost at once if F runs again, or if nothing runs backward.
        if (action.kind == ActionKind::Recompute ||
            (!recomputed && schedule.isTraining()))
          residual[{s, slot}] = i;
      }
      if (action.performs(Phase::BackwardWeight)) {
        EXPECT_EQ((residual[{s, slots.stages[s].backward[i]}]), i);
        residual.erase({s, slots.stages[s].backward[i]});
      }
      if (action.kind == ActionKind::Receive) {
        const ChannelSlots &channel = slots.channels[action.channel];
        ASSERT_LT(channel.receive[i], channel.receiveCount);
        EXPECT_EQ(received.count({action.channel, channel.receive[i]}), 0u);
        received[{action.channel, channel.receive[i]}] = i;
      }
      for (size_t c = 0; c < schedule.channels.size(); ++c)
        if (schedule.channels[c].to == s &&
            slots.channels[c].release == action.kind)
          received.erase({int(c), slots.channels[c].receive[i]});
    }
    EXPECT_TRUE(received.empty());
  }
}

TEST(Slots, residualsOfSchedules) {
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 10; ++m) {
      SlotAssignment gpipe = assignSlots(withTransfers(*gpipeSchedule({p, m})));
      SlotAssignment other =
          assignSlots(withTransfers(*oneForwardOneBackwardSchedule({p, m})));
      SlotAssignment inference =
          assignSlots(withTransfers(*inferenceSchedule({p, m})));
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(gpipe.stages[r].count, m);
        EXPECT_EQ(other.stages[r].count, std::min(m, p - r));
        EXPECT_EQ(inference.stages[r].count, 1);
      }
    }
}

TEST(Slots, everySlotIsFreeWhenTaken) {
  for (const char *name : {"gpipe", "1f1b", "inference"})
    for (CheckpointMode mode : {CheckpointMode::Never, CheckpointMode::Always,
                                CheckpointMode::ExceptLast})
      for (Phase reader : {Phase::Forward, Phase::BackwardWeight})
        for (int p = 1; p <= 4; ++p)
          for (int m = 1; m <= 7; ++m) {
            Schedule schedule = *makeSchedule(name, {p, m});
            if (schedule.isTraining())
              insertRecompute(schedule, mode);
            schedule = withTransfers(schedule, reader);
            expectDisjoint(schedule, assignSlots(schedule));
          }
}

TEST(Slots, recomputeNeedsOneSlot) {
  Schedule schedule = *gpipeSchedule({2, 8});
  Schedule always = schedule;
  insertRecompute(always, CheckpointMode::Always);
  SlotAssignment slots = assignSlots(withTransfers(always));
  EXPECT_EQ(slots.stages[0].count, 1);
  // Inputs are needed again, so they are kept instead.
  EXPECT_EQ(slots.channels[0].receiveCount, 8);
  insertRecompute(schedule, CheckpointMode::ExceptLast);
  EXPECT_EQ(assignSlots(withTransfers(schedule)).stages[0].count, 2);
}

TEST(Slots, releaseIsAnActionThatEveryMicrobatchHas) {
  auto release = [](Schedule schedule, Phase reader) {
    return assignSlots(withTransfers(schedule, reader)).channels[0].release;
  };
  Schedule schedule = *gpipeSchedule({2, 3});
  EXPECT_EQ(release(*inferenceSchedule({2, 3}), Phase::Forward),
            ActionKind::Forward);
  EXPECT_EQ(release(schedule, Phase::Forward), ActionKind::Forward);
  EXPECT_EQ(release(schedule, Phase::BackwardWeight), ActionKind::Backward);
  Schedule always = schedule;
  insertRecompute(always, CheckpointMode::Always);
  EXPECT_EQ(release(always, Phase::Forward), ActionKind::Recompute);
  insertRecompute(schedule, CheckpointMode::ExceptLast);
  EXPECT_EQ(release(schedule, Phase::Forward), ActionKind::Backward);
  Schedule split = *parseSchedule("0F0,0I0,0W0,0U\n1F0,1I0,1W0,1U\n");
  EXPECT_EQ(release(split, Phase::BackwardInput), ActionKind::BackwardInput);
  EXPECT_EQ(release(split, Phase::BackwardWeight), ActionKind::BackwardWeight);
}

TEST(Slots, valuesStayOnTheirRank) {
  // Stages 2 and 3 of four are on the last rank: nothing is sent between them,
  // but F of 3 may come later than F of 2.
  Schedule schedule = withTransfers(*zeroBubbleVSchedule({4, 4, 2}));
  SlotAssignment slots = assignSlots(schedule);
  for (size_t c = 0; c < schedule.channels.size(); ++c) {
    const Channel &channel = schedule.channels[c];
    const ChannelSlots &assigned = slots.channels[c];
    EXPECT_EQ(assigned.receive.size(), 4u);
    if (schedule.crossesRanks(channel)) {
      EXPECT_EQ(assigned.send.size(), 4u);
      continue;
    }
    EXPECT_EQ(assigned.sendCount, 0);
    EXPECT_TRUE(assigned.send.empty());
    // From the action that makes the value to the one that releases it.
    const std::vector<Action> &rank =
        schedule.ranks[schedule.rankOfStage[channel.from]];
    std::map<int, int> holds;
    for (const Action &action : rank) {
      if (action.stage == channel.from && action.performs(channel.fromPhase))
        EXPECT_TRUE(holds
                        .try_emplace(assigned.receive[action.microbatch],
                                     action.microbatch)
                        .second);
      if (action.stage == channel.to && action.kind == assigned.release) {
        EXPECT_EQ(holds.at(assigned.receive[action.microbatch]),
                  action.microbatch);
        holds.erase(assigned.receive[action.microbatch]);
      }
    }
    EXPECT_TRUE(holds.empty());
  }
}

TEST(Slots, slackLetsTheSenderGoAhead) {
  Schedule schedule = withTransfers(*gpipeSchedule({2, 8}), Phase::Forward);
  EXPECT_EQ(assignSlots(schedule).channels[0].receiveCount, 1);
  SlotAssignment slots = assignSlots(schedule, {1});
  EXPECT_EQ(slots.channels[0].receiveCount, 2);
  EXPECT_EQ(slots.channels[0].receive,
            (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1}));
  SendRule rule{SendRule::Kind::Slots, {}, &slots};
  EXPECT_TRUE(verifySchedule(schedule, rule).empty());
}

TEST(Slots, oneMoreWhereASenderWouldWait) {
  auto makespan = [](const Schedule &schedule, const SlotAssignment &slots) {
    SimulationInput input;
    input.stages = {{1, 1, 1, 1}};
    input.sends = {SendRule::Kind::Slots, {}, &slots};
    return simulate(schedule, input)->makespan;
  };
  // ZB-H2 goes one micro-batch further ahead than its receiver.
  Schedule ahead = withTransfers(*zeroBubbleH2Schedule({2, 8}), Phase::Forward);
  SlotAssignment least = assignSlots(ahead), chosen = chooseSlots(ahead);
  EXPECT_EQ(least.channels[0].receiveCount, 1);
  EXPECT_EQ(chosen.channels[0].receiveCount, 2);
  EXPECT_LT(makespan(ahead, chosen), makespan(ahead, least));
  SendRule rule{SendRule::Kind::Slots, {}, &chosen};
  EXPECT_TRUE(verifySchedule(ahead, rule).empty());
  EXPECT_TRUE(verifySlots(ahead, chosen).empty());
  // The others pass values on as they go.
  for (const char *name : {"gpipe", "1f1b", "zb-h1"}) {
    Schedule schedule =
        withTransfers(*makeSchedule(name, {2, 8}), Phase::Forward);
    EXPECT_EQ(chooseSlots(schedule).channels[0].receiveCount,
              assignSlots(schedule).channels[0].receiveCount)
        << name;
  }
}

TEST(Slots, tooFewSlotsDeadlock) {
  // Both activations live until B, but there is one slot.
  Schedule schedule = withTransfers(*gpipeSchedule({2, 2}));
  SlotAssignment slots = assignSlots(schedule);
  ASSERT_EQ(slots.channels[0].receiveCount, 2);
  slots.channels[0].receiveCount = 1;
  slots.channels[0].receive = {0, 0};
  SendRule rule{SendRule::Kind::Slots, {}, &slots};
  std::vector<std::string> errors = verifySchedule(schedule, rule);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("to release the slot of micro-batch 0"),
            std::string::npos)
      << errors[0];
}

} // namespace
