//===- SimulationReportTest.cpp - Memory, links, stragglers, traces -------===//
#include "pp/Planner/ChromeTrace.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Search.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "gtest/gtest.h"
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

using namespace pp::planner;

namespace {

SimulationInput unitTimes() {
  SimulationInput input;
  input.stages = {{1, 1, 1, 1, 0}};
  return input;
}

Schedule withChannels(Schedule schedule, int64_t bytes = 0) {
  schedule.channels = neighborChannels(schedule.stages, schedule.isTraining(),
                                       Phase::BackwardWeight, bytes);
  return schedule;
}

/// Sends that wait, also during the transfer: as if it were part of the stage
/// before. Identical jobs lose nothing else by waiting, so that the formula of
/// the flow shop holds with the longer times.
TEST(FlowShop, boundedQueues) {
  std::mt19937 random(3);
  for (int test = 0; test < 300; ++test) {
    int p = 1 + random() % 5, m = 1 + random() % 12;
    SimulationInput input;
    double sum = 0, slowest = 0;
    for (int stage = 0; stage < p; ++stage) {
      input.stages.push_back({1. + random() % 9});
      sum += input.stages.back().forward;
      slowest = std::max(slowest, input.stages.back().forward);
    }
    Schedule schedule = withChannels(*inferenceSchedule({p, m}));
    EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan,
                     sum + (m - 1) * slowest);
    Schedule sending =
        *insertTransfers(*inferenceSchedule({p, m}), schedule.channels);
    // One value on the way, or a rendezvous: no later without transfer times.
    for (int capacity : {0, 1, 2}) {
      input.sends = {SendRule::Kind::Buffered, {capacity}, nullptr};
      EXPECT_DOUBLE_EQ(simulate(sending, input)->makespan,
                       sum + (m - 1) * slowest);
    }
  }
}

TEST(FlowShop, transfersThatBlock) {
  for (int p = 1; p <= 5; ++p)
    for (int m = 1; m <= 10; ++m) {
      Schedule sending = *insertTransfers(*inferenceSchedule({p, m}),
                                          neighborChannels(p, false));
      SimulationInput input;
      input.stages = {{3}};
      input.transfers = {2};
      input.sends = {SendRule::Kind::Rendezvous, {}, nullptr};
      input.sendOccupiesRank = true;
      // A rank in the middle receives, computes and sends: 2 + 3 + 2.
      double cycle = p == 1 ? 3 : p == 2 ? 5 : 7;
      EXPECT_DOUBLE_EQ(simulate(sending, input)->makespan,
                       3 * p + 2 * (p - 1) + (m - 1) * cycle)
          << p << " " << m;
    }
}

void expectEqual(const Simulation &a, const Simulation &b) {
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  EXPECT_EQ(a.makespan, b.makespan);
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    ASSERT_EQ(a.ranks[rank].size(), b.ranks[rank].size());
    for (size_t i = 0; i < a.ranks[rank].size(); ++i) {
      EXPECT_EQ(a.ranks[rank][i].start, b.ranks[rank][i].start);
      EXPECT_EQ(a.ranks[rank][i].end, b.ranks[rank][i].end);
    }
  }
}

TEST(SharedLinks, ownLinksChangeNothing) {
  std::mt19937 random(5);
  for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "inference"})
    for (int test = 0; test < 40; ++test) {
      int p = 1 + random() % 5, m = 1 + random() % 8;
      Schedule schedule = withChannels(*makeSchedule(name, {p, m}));
      SimulationInput input;
      for (int stage = 0; stage < p; ++stage)
        input.stages.push_back({double(random() % 5), double(random() % 5),
                                double(random() % 5), 0, 1});
      for (size_t c = 0; c < schedule.channels.size(); ++c)
        input.transfers.push_back(random() % 4);
      input.sendOccupiesRank = random() % 2;
      Schedule sending =
          *insertTransfers(*makeSchedule(name, {p, m}), schedule.channels);
      for (const Schedule &either : {schedule, sending}) {
        // A link that one channel uses alone, where no value catches up with
        // the one before: the same as none. -1: always the same.
        SimulationInput own = input, alone = input;
        own.linkOfChannel.assign(schedule.channels.size(), -1);
        for (size_t c = 0; c < schedule.channels.size(); ++c) {
          alone.linkOfChannel.push_back(static_cast<int>(c));
          alone.transfers[c] = 0;
        }
        SimulationInput silent = alone;
        silent.linkOfChannel.clear();
        expectEqual(*simulate(either, own), *simulate(either, input));
        expectEqual(*simulate(either, alone), *simulate(either, silent));
      }
    }
}

TEST(SharedLinks, firstComeFirstServed) {
  // Stage 0 sends to 1 and to 2 at once; on one link, one after the other.
  Schedule schedule = *parseSchedule("0F0,0F1\n1F0,1F1\n2F0,2F1\n");
  schedule.channels = {
      {0, 1, Phase::Forward, Phase::Forward, Phase::Forward, "a", 1},
      {0, 2, Phase::Forward, Phase::Forward, Phase::Forward, "b", 1}};
  SimulationInput input;
  input.stages = {{1}};
  input.transfers = {2};
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan, 5);
  input.linkOfChannel = {0, 0};
  Simulation shared = *simulate(schedule, input);
  EXPECT_DOUBLE_EQ(shared.ranks[1][0].start, 3); // 1 + 2
  EXPECT_DOUBLE_EQ(shared.ranks[2][0].start, 5); // then b
  EXPECT_DOUBLE_EQ(shared.ranks[1][1].start, 7); // then the next a
  EXPECT_DOUBLE_EQ(shared.makespan, 10);
  input.linkOfChannel = {3, 5};
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan, 6);
  input.linkOfChannel = {0};
  EXPECT_EQ(simulate(schedule, input).error(),
            "there are links for 1 channels, not 2");
  input.linkOfChannel = {0, 0};
  input.sends = {};
  EXPECT_EQ(simulate(schedule, input).error(),
            "channels can share a link only if sends wait for nobody");
}

TEST(Straggler, scalesOneRank) {
  Schedule schedule = withChannels(*oneForwardOneBackwardSchedule({4, 8}));
  double healthy = simulate(schedule, unitTimes())->makespan;
  SimulationInput slow = scaleRank(schedule, unitTimes(), 3, 1.5);
  EXPECT_DOUBLE_EQ(slow.stages[3].backwardWeight, 1.5);
  EXPECT_DOUBLE_EQ(slow.stages[2].backwardWeight, 1);
  // The last rank is the bottleneck: 8 micro-batches of 4.5 behind 3 forwards
  // and before 3 backwards.
  EXPECT_DOUBLE_EQ(simulate(schedule, slow)->makespan, 3 + 8 * 4.5 + 6);
  EXPECT_DOUBLE_EQ(healthy, 33);
}

TEST(Bubbles, bothDefinitions) {
  Schedule schedule = withChannels(*zeroBubbleVSchedule({8, 12, 4}));
  SimulationInput input;
  input.stages = {{.5, .5, .5, 0, 0}};
  Simulation result = *simulate(schedule, input);
  EXPECT_DOUBLE_EQ(result.bubble(), 0);
  EXPECT_DOUBLE_EQ(result.makespanBubble(), 1.5); // (p - 1) F / 2
}

TEST(MemoryCurve, countsResiduals) {
  for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
    Schedule schedule = withChannels(*makeSchedule(name, {4, 9}));
    SimulationInput input = unitTimes();
    // Some time between, so that nothing ends as another begins.
    input.transfers = {.1};
    std::vector<MemoryCurve> curves =
        memoryCurves(schedule, *simulate(schedule, input), {{10}, {}});
    std::vector<int64_t> peaks = peakBytes(schedule, {10}, {});
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(curves[rank].peak, peaks[rank]) << name << rank;
      EXPECT_EQ(curves[rank].steps.back().bytes, 0);
      for (size_t i = 1; i < curves[rank].steps.size(); ++i)
        EXPECT_LT(curves[rank].steps[i - 1].time, curves[rank].steps[i].time);
    }
  }
}

TEST(MemoryCurve, followsEveryKind) {
  Schedule schedule =
      *parseSchedule("0F0,0SEND_F0,0RECV_B0,0I0,0W0,0U\n"
                     "1RECV_F0,1F0,1R0,1B0,1SEND_B0,1U\n",
                     neighborChannels(2, true, Phase::Forward, 1000));
  SimulationInput input = unitTimes();
  input.transfers = {1};
  std::vector<MemoryCurve> curves =
      memoryCurves(schedule, *simulate(schedule, input), {{1, 10}, {2, 20}});
  auto text = [](const MemoryCurve &curve) {
    std::string result;
    for (const MemoryStep &step : curve.steps)
      result += std::to_string(static_cast<int>(step.time)) + ":" +
                std::to_string(step.bytes) + " ";
    return result;
  };
  // F from 0; the gradient arrives at 7; I until 8; W until 9.
  EXPECT_EQ(text(curves[0]), "0:1 7:1003 8:1002 9:0 ");
  // The activation from 2 until R has read it at 4; F 2-3, R 3-4, B 4-6.
  EXPECT_EQ(text(curves[1]), "2:1010 4:30 6:0 ");
  EXPECT_EQ(curves[0].peak, 1003);
}

TEST(MemoryCurve, keepsSlotsUntilTheWeights) {
  for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
    for (CheckpointMode mode :
         {CheckpointMode::Never, CheckpointMode::ExceptLast,
          CheckpointMode::Always}) {
      Schedule computations = *makeSchedule(name, {4, 9});
      insertRecompute(computations, mode);
      Schedule schedule =
          *insertTransfers(computations, neighborChannels(4, true));
      SimulationInput input = unitTimes();
      input.transfers = {.1};
      ResidualBytes residuals;
      residuals.whole = {10};
      std::vector<MemoryCurve> curves =
          memoryCurves(schedule, *simulate(schedule, input), residuals);
      // One stage per rank: its slots are what it keeps at most.
      SlotAssignment slots = assignSlots(schedule);
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(curves[rank].peak, 10 * slots.stages[rank].count)
            << name << rank;
    }
}

TEST(ChromeTrace, hasAllActions) {
  Schedule schedule = *insertTransfers(*oneForwardOneBackwardSchedule({2, 3}),
                                       neighborChannels(2, true));
  Simulation simulation = *simulate(schedule, unitTimes());
  std::string text = toChromeTrace(
      schedule, simulation, memoryCurves(schedule, simulation, {{8}, {}}));
  EXPECT_EQ(text, toChromeTrace(schedule, simulation,
                                memoryCurves(schedule, simulation, {{8}, {}})));
  nlohmann::json trace = nlohmann::json::parse(text);
  size_t actions = 0, sends = 0, receives = 0, counters = 0;
  for (const nlohmann::json &event : trace["traceEvents"]) {
    std::string phase = event["ph"];
    actions += phase == "X";
    sends += phase == "s";
    receives += phase == "f";
    counters += phase == "C";
    if (event["name"] == "1B0") {
      EXPECT_EQ(event["ts"], 2e6);
      EXPECT_EQ(event["dur"], 2e6);
      EXPECT_EQ(event["tid"], 1);
      EXPECT_EQ(event["args"]["microbatch"], 0);
    }
  }
  EXPECT_EQ(actions, schedule.ranks[0].size() + schedule.ranks[1].size());
  EXPECT_EQ(sends, 6u);
  EXPECT_EQ(receives, 6u);
  EXPECT_GE(counters, 4u);
}

/// 64 stages and 512 micro-batches: each step far below a second. The limit is
/// generous, so that a busy machine does not fail it, and still finds a method
/// that is not linear.
TEST(Scale, largePipelines) {
  for (const char *name : {"1f1b", "zb-h1"}) {
    auto begin = std::chrono::steady_clock::now();
    Schedule schedule = *insertTransfers(*makeSchedule(name, {64, 512}),
                                         neighborChannels(64, true));
    EXPECT_TRUE(verifySchedule(schedule).empty());
    EXPECT_TRUE(bool(simulate(schedule, unitTimes())));
    std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - begin;
    EXPECT_LT(taken.count(), 20);
  }
}

} // namespace
