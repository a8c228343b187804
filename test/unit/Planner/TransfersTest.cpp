//===- TransfersTest.cpp - Programs that complete under rendezvous --------===//
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Verify.h"
#include "gtest/gtest.h"
#include <random>

using namespace pp::planner;

namespace {

std::string join(const std::vector<std::string> &errors) {
  std::string text;
  for (const std::string &error : errors)
    text += error + "\n";
  return text;
}

void expectProven(const Schedule &schedule) {
  EXPECT_EQ(join(verifySchedule(schedule)), "") << toString(schedule);
  EXPECT_EQ(minimalCapacity(schedule), 0);
  SlotAssignment slots = assignSlots(schedule);
  SendRule rule{SendRule::Kind::Slots, {}, &slots};
  EXPECT_EQ(join(verifySchedule(schedule, rule)), "") << toString(schedule);
}

/// Sends directly after, receives directly before: what deadlocks.
Schedule naive(const Schedule &schedule, std::vector<Channel> channels) {
  Schedule result = schedule;
  result.channels = channels;
  for (auto &rank : result.ranks) {
    std::vector<Action> actions;
    for (Action action : rank) {
      for (size_t c = 0; c < channels.size(); ++c)
        if (channels[c].to == action.stage &&
            action.performs(channels[c].toPhase))
          actions.push_back(
              {ActionKind::Receive, action.stage, action.microbatch, int(c)});
      actions.push_back(action);
      for (size_t c = 0; c < channels.size(); ++c)
        if (channels[c].from == action.stage &&
            action.performs(channels[c].fromPhase))
          actions.push_back(
              {ActionKind::Send, action.stage, action.microbatch, int(c)});
    }
    rank = actions;
  }
  return result;
}

TEST(Transfers, plainPipelines) {
  for (const char *name : {"inference", "gpipe", "1f1b"})
    for (CheckpointMode mode : {CheckpointMode::Never, CheckpointMode::Always,
                                CheckpointMode::ExceptLast})
      for (int stages = 1; stages <= 6; ++stages)
        for (int microbatches = 1; microbatches <= 9; ++microbatches) {
          Schedule schedule = *makeSchedule(name, {stages, microbatches});
          bool training = schedule.isTraining();
          if (training)
            insertRecompute(schedule, mode);
          Result<Schedule> result =
              insertTransfers(schedule, neighborChannels(stages, training));
          ASSERT_TRUE(bool(result)) << result.error();
          expectProven(*result);
        }
}

TEST(Transfers, oneForwardOneBackwardNeedsReordering) {
  std::vector<Channel> channels = neighborChannels(2, true);
  Schedule schedule = *oneForwardOneBackwardSchedule({2, 2});
  Schedule bad = naive(schedule, channels);
  EXPECT_EQ(toString(bad), "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,"
                           "0B1,0U\n"
                           "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,"
                           "1SEND_B1,1U\n");
  std::vector<std::string> errors = verifySchedule(bad);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0],
            "deadlock: rank 0 waits in 0SEND_F1 for rank 1 to reach 1RECV_F1; "
            "rank 1 waits in 1SEND_B0 for rank 0 to reach 0RECV_B0\n"
            "  rank 0 --0SEND_F1--> rank 1 --1SEND_B0--> rank 0\n"
            "  rank 0 | 0F0 0SEND_F0 0F1 [0SEND_F1] 0RECV_B0\n"
            "  rank 1 | 1RECV_F0 1F0 1B0 [1SEND_B0] 1RECV_F1");
  EXPECT_EQ(minimalCapacity(bad), 1);
  // The receive of rank 1 moves before its send; nothing else does.
  EXPECT_EQ(toString(*insertTransfers(schedule, channels)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0U\n"
            "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1,1U\n");
}

TEST(Transfers, receivesFollowRecompute) {
  Schedule schedule = *gpipeSchedule({2, 1});
  insertRecompute(schedule, CheckpointMode::Always);
  EXPECT_EQ(toString(*insertTransfers(schedule, neighborChannels(2, true))),
            "0F0,0SEND_F0,0R0,0RECV_B0,0B0,0U\n"
            "1RECV_F0,1F0,1R0,1B0,1SEND_B0,1U\n");
}

TEST(Transfers, portalsSkipStages) {
  for (const char *name : {"gpipe", "1f1b"})
    for (int stages = 3; stages <= 6; ++stages)
      for (int microbatches : {1, 2, 3, 5, 8, 13}) {
        std::vector<Channel> channels = neighborChannels(stages, true);
        // A U-Net: stage i feeds stage p-1-i, gradients come back.
        for (int i = 0; i < stages / 2; ++i) {
          int j = stages - 1 - i;
          if (j <= i + 1)
            continue;
          channels.push_back({i, j, Phase::Forward, Phase::Forward,
                              Phase::BackwardWeight, "skip", 8});
          channels.push_back({j, i, Phase::BackwardInput, Phase::BackwardInput,
                              Phase::BackwardWeight, "skip_gradient", 8});
        }
        Result<Schedule> result = insertTransfers(
            *makeSchedule(name, {stages, microbatches}), channels);
        ASSERT_TRUE(bool(result)) << result.error();
        expectProven(*result);
      }
}

TEST(Transfers, randomOrdersAndChannels) {
  // Any order of the actions that can run at all must get transfers.
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    int stages = 2 + random() % 4, microbatches = 1 + random() % 5;
    Schedule schedule;
    schedule.stages = stages;
    schedule.microbatches = microbatches;
    int ranks = 1 + random() % stages;
    for (int s = 0; s < stages; ++s)
      schedule.rankOfStage.push_back(s % ranks);
    schedule.ranks.resize(ranks);
    std::vector<Channel> channels;
    for (int from = 0; from < stages; ++from)
      for (int to = from + 1; to < stages; ++to)
        if (to == from + 1 || random() % 3 == 0)
          for (int copies = 1 + random() % 2; copies; --copies) {
            channels.push_back({from, to, Phase::Forward, Phase::Forward,
                                Phase::Forward, "value", 1});
            channels.push_back({to, from, Phase::BackwardInput,
                                Phase::BackwardInput, Phase::BackwardWeight,
                                "gradient", 1});
          }
    // Pick any action whose needs are met, until all have run.
    bool split = random() % 2;
    std::vector<Action> todo;
    for (int s = 0; s < stages; ++s)
      for (int i = 0; i < microbatches; ++i) {
        todo.push_back({ActionKind::Forward, s, i});
        if (split) {
          todo.push_back({ActionKind::BackwardInput, s, i});
          todo.push_back({ActionKind::BackwardWeight, s, i});
        } else {
          todo.push_back({ActionKind::Backward, s, i});
        }
      }
    auto pending = [&](int stage, int i, Phase phase) {
      for (const Action &action : todo)
        if (action.stage == stage && action.microbatch == i &&
            action.performs(phase))
          return true;
      return false;
    };
    while (!todo.empty()) {
      size_t pick = random() % todo.size();
      Action action = todo[pick];
      bool ready = true;
      for (const Channel &channel : channels)
        if (channel.to == action.stage && action.performs(channel.toPhase))
          ready &= !pending(channel.from, action.microbatch, channel.fromPhase);
      if (!action.performs(Phase::Forward))
        ready &= !pending(action.stage, action.microbatch, Phase::Forward);
      if (action.kind == ActionKind::BackwardWeight)
        ready &=
            !pending(action.stage, action.microbatch, Phase::BackwardInput);
      if (!ready)
        continue;
      schedule.ranks[schedule.rankOfStage[action.stage]].push_back(action);
      todo.erase(todo.begin() + pick);
    }
    for (int s = 0; s < stages; ++s)
      schedule.ranks[schedule.rankOfStage[s]].push_back(
          {ActionKind::Update, s});
    Result<Schedule> result = insertTransfers(schedule, channels);
    ASSERT_TRUE(bool(result)) << result.error() << seed;
    expectProven(*result);
    // Taking the transfers out gives back the schedule.
    for (size_t r = 0; r < schedule.ranks.size(); ++r) {
      std::vector<Action> compute;
      for (const Action &action : result->ranks[r])
        if (!action.isTransfer())
          compute.push_back(action);
      EXPECT_EQ(compute, schedule.ranks[r]);
    }
  }
}

TEST(Transfers, sendEarly) {
  Schedule schedule = *insertTransfers(*makeSchedule("1f1b", {2, 3}),
                                       neighborChannels(2, true));
  Schedule early = sendEarly(schedule);
  auto textOf = [](const Schedule &of, size_t rank) {
    std::string text;
    for (const Action &action : of.ranks[rank])
      text += toString(action, of.channels) + " ";
    return text;
  };
  EXPECT_EQ(textOf(schedule, 1),
            "1RECV_F0 1F0 1B0 1RECV_F1 1SEND_B0 1F1 1B1 1RECV_F2 1SEND_B1 "
            "1F2 1B2 1SEND_B2 1U ");
  EXPECT_EQ(textOf(early, 1),
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 "
            "1F2 1B2 1SEND_B2 1U ");
  EXPECT_EQ(textOf(early, 0), textOf(schedule, 0));
  // Two neighbours stand in sends to each other, if these wait.
  EXPECT_NE(join(verifySchedule(early)), "");
  EXPECT_EQ(
      join(verifySchedule(early, {SendRule::Kind::Unbounded, {}, nullptr})),
      "");
}

TEST(Transfers, errors) {
  Schedule schedule = *gpipeSchedule({2, 2});
  std::vector<Channel> channels = neighborChannels(2, true);
  Schedule done = *insertTransfers(schedule, channels);
  EXPECT_NE(insertTransfers(done, channels).error().find("already"),
            std::string::npos);
  EXPECT_NE(insertTransfers(schedule, {{0, 5}}).error().find("stage 5"),
            std::string::npos);
  // Backward before forward on rank 0.
  Schedule wrong = *parseSchedule("0B0,0F0\n1F0,1B0\n");
  std::string error = insertTransfers(wrong, channels).error();
  EXPECT_NE(error.find("rank 0 waits in 0B0 for rank 1 to run 1I0; rank 1 "
                       "waits in 1F0 for rank 0 to run 0F0"),
            std::string::npos)
      << error;
}

} // namespace
