//===- SimulatorTest.cpp - Times against published tables -----------------===//
#include "pp/Planner/Simulator.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "gtest/gtest.h"
#include <random>

using namespace pp::planner;

namespace {

SimulationInput unitTimes() {
  SimulationInput input;
  input.stages = {{1, 1, 1, 1, 0}};
  return input;
}

Schedule withChannels(Schedule schedule) {
  schedule.channels = neighborChannels(schedule.stages, schedule.isTraining());
  return schedule;
}

/// No schedule of F and B, one stage per rank and in any order, ends earlier:
/// the most over stages of what comes before its first F, its own work, and
/// what comes after its last B.
double boundOfWholeBackwards(const std::vector<StageTimes> &stages,
                             int microbatches, double transfer) {
  double bound = 0, before = 0, after = 0;
  for (const StageTimes &stage : stages) {
    double backward = stage.backwardInput + stage.backwardWeight;
    bound = std::max(bound, before + microbatches * (stage.forward + backward) +
                                after);
    before += stage.forward + transfer;
    after += backward + transfer;
  }
  return bound;
}

TEST(Simulator, goldenTable) {
  struct Row {
    int p, m;
    double makespan, bubble;
  };
  for (const Row &row :
       {Row{4, 8, 33, 9}, Row{4, 12, 45, 9}, Row{8, 16, 69, 21}})
    for (const char *name : {"gpipe", "1f1b"}) {
      Schedule schedule = withChannels(*makeSchedule(name, {row.p, row.m}));
      Simulation result = *simulate(schedule, unitTimes());
      EXPECT_DOUBLE_EQ(result.makespan, row.makespan);
      EXPECT_DOUBLE_EQ(result.bubble(), row.bubble);
      EXPECT_DOUBLE_EQ(result.span, row.makespan);
      EXPECT_DOUBLE_EQ(result.utilization(), 3.0 * row.m / row.makespan);
      EXPECT_DOUBLE_EQ(
          boundOfWholeBackwards(std::vector<StageTimes>(row.p, {1, 1, 1, 1, 0}),
                                row.m, 0),
          row.makespan);
      // With transfers in the lists that block nobody: the same.
      Schedule explicitOnes = *insertTransfers(
          *makeSchedule(name, {row.p, row.m}), schedule.channels);
      EXPECT_DOUBLE_EQ(simulate(explicitOnes, unitTimes())->makespan,
                       row.makespan);
    }
}

TEST(Simulator, inferenceFlowShop) {
  // Unlimited queues: the sum of stage times, plus the rest at the slowest.
  Schedule schedule = withChannels(*inferenceSchedule({3, 10}));
  SimulationInput input;
  input.stages = {{1}, {3}, {2}};
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan, 6 + 9 * 3);
}

TEST(Simulator, stepsFollowEachOther) {
  // Only the slowest stage counts once the pipeline is full.
  Schedule inference = withChannels(*inferenceSchedule({3, 10}));
  SimulationInput input;
  input.stages = {{1}, {3}, {2}};
  EXPECT_DOUBLE_EQ(*stepPeriod(inference, input), 10 * 3);
  // The rank that begins a step ends it, too: nothing can overlap.
  for (const char *name : {"gpipe", "1f1b"}) {
    Schedule schedule = withChannels(*makeSchedule(name, {4, 8}));
    EXPECT_DOUBLE_EQ(*stepPeriod(schedule, unitTimes()), 33);
  }
  // While the slow rank still has weight gradients to do, the other begins the
  // next step: no more than the work of the slow one is left.
  input.stages = {{1, 1, 1, 1, 0}, {3, 3, 3, 3, 0}};
  Schedule schedule = withChannels(*makeSchedule("zb-h1", {2, 4}));
  EXPECT_GT(simulate(schedule, input)->makespan, 4 * 9);
  EXPECT_DOUBLE_EQ(*stepPeriod(schedule, input), 4 * 9);
}

TEST(Simulator, stepsShareSlots) {
  // A channel has one slot. The sender of the next step waits for the last
  // value of this one, as it does within a step.
  Schedule schedule =
      *insertTransfers(*inferenceSchedule({2, 3}), neighborChannels(2, false));
  SlotAssignment slots = assignSlots(schedule);
  ASSERT_EQ(slots.channels.front().receiveCount, 1);
  SimulationInput input;
  input.stages = {{1}, {3}};
  input.transfers = {0.5};
  input.releases = {0.25};
  input.sends = {SendRule::Kind::Slots, {}, &slots};
  EXPECT_DOUBLE_EQ(*stepPeriod(schedule, input), 3 * (3 + 0.25 + 0.5));
}

TEST(Simulator, transfersTakeTime) {
  Schedule schedule = withChannels(*inferenceSchedule({2, 1}));
  SimulationInput input = unitTimes();
  input.transfers = {0.5};
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan, 2.5);
  Schedule explicitOnes =
      *insertTransfers(*inferenceSchedule({2, 2}), neighborChannels(2, false));
  EXPECT_DOUBLE_EQ(simulate(explicitOnes, input)->makespan, 3.5);
  input.sendOccupiesRank = true;
  Simulation result = *simulate(explicitOnes, input);
  EXPECT_DOUBLE_EQ(result.ranks[0][1].end, 1.5);
  EXPECT_DOUBLE_EQ(result.makespan, 4);
  // Rendezvous: stage 0 waits for the slow stage 1.
  input.sendOccupiesRank = false;
  input.stages = {{1}, {5}};
  input.sends = {};
  result = *simulate(explicitOnes, input);
  EXPECT_DOUBLE_EQ(result.ranks[0].back().start, 6.5);
}

TEST(Simulator, overheadsTakeTimeOfBothEnds) {
  // 0:  F F │S│F F│S│       a value arrives no later: 2 + 1.5
  // 1:          ....│F│     and who waits has lost nothing
  Schedule schedule =
      *insertTransfers(*inferenceSchedule({2, 2}), neighborChannels(2, false));
  SimulationInput input;
  input.stages = {{2}, {1}};
  input.transfers = {1.5};
  input.overheads = {0.5};
  Simulation result = *simulate(schedule, input);
  EXPECT_DOUBLE_EQ(result.ranks[0][1].end, 2.5);   // SEND_F0
  EXPECT_DOUBLE_EQ(result.ranks[0].back().end, 5); // SEND_F1
  EXPECT_DOUBLE_EQ(result.ranks[1][0].end, 3.5);   // RECV_F0
  EXPECT_DOUBLE_EQ(result.ranks[1].back().end, 7); // 4.5 + 1.5 + 1
  // The value of micro-batch 1 is there before the slow stage asks for it.
  input.stages = {{2}, {10}};
  result = *simulate(schedule, input);
  EXPECT_DOUBLE_EQ(result.makespan, 3.5 + 10 + 0.5 + 10);
  // Nothing is sent faster than its sender can.
  input.transfers = {0.1};
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->ranks[1][0].end, 2.5);
  input.overheads = {1, 2, 3};
  EXPECT_NE(simulate(schedule, input).error().find("3 channels, not 1"),
            std::string::npos);
  input.overheads = {0.5};
  input.linkOfChannel = {0};
  EXPECT_EQ(simulate(schedule, input).error(),
            "channels that share a link can have no overheads or occupancies");
}

TEST(Simulator, aWayCarriesOneValueAtATime) {
  // 0:  F F F            with a latency of 0.5
  // way: 0000111122222
  Schedule schedule =
      *insertTransfers(*inferenceSchedule({2, 3}), neighborChannels(2, false));
  SimulationInput input;
  input.stages = {{1}, {0.1}};
  input.transfers = {2.5};
  input.occupancies = {2};
  auto arrivals = [&] {
    std::vector<double> ends;
    Simulation result = *simulate(schedule, input);
    for (const TimedAction &timed : result.ranks[1])
      if (timed.action.kind == ActionKind::Receive)
        ends.push_back(timed.end);
    return ends;
  };
  EXPECT_EQ(arrivals(), (std::vector<double>{3.5, 5.5, 7.5}));
  // Another value is made only where the last one has left.
  SlotAssignment slots = assignSlots(schedule, {.receiveSlack = 1});
  ASSERT_EQ(slots.channels[0].sendCount, 1);
  input.sends = {SendRule::Kind::Slots, {}, &slots};
  EXPECT_EQ(arrivals(), (std::vector<double>{3.5, 6.5, 9.5}));
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan, 9.6);
  input.occupancies = {1, 2, 3};
  EXPECT_NE(simulate(schedule, input).error().find("3 channels, not 1"),
            std::string::npos);
}

TEST(Simulator, waysOfOppositeDirectionsAreTwo) {
  // The gradient of micro-batch 0 goes while the value of 1 comes.
  Schedule schedule = *insertTransfers(*makeSchedule("1f1b", {2, 2}),
                                       neighborChannels(2, true));
  schedule = sendEarly(schedule);
  SimulationInput input = unitTimes();
  input.transfers = {10};
  double free = simulate(schedule, input)->makespan;
  input.occupancies = {10};
  // The second value comes 9 later, and 2 of them its gradient would have
  // waited for the first one's.
  EXPECT_DOUBLE_EQ(simulate(schedule, input)->makespan, free + 7);
}

TEST(Simulator, slotsHoldTheSenderBack) {
  Schedule schedule =
      *insertTransfers(*inferenceSchedule({2, 4}), neighborChannels(2, false));
  SimulationInput input;
  input.stages = {{1}, {3}};
  SlotAssignment one = assignSlots(schedule), two = assignSlots(schedule, {1});
  input.sends = {SendRule::Kind::Slots, {}, &one};
  Simulation slow = *simulate(schedule, input);
  input.sends.slots = &two;
  Simulation fast = *simulate(schedule, input);
  EXPECT_DOUBLE_EQ(slow.makespan, fast.makespan);
  EXPECT_GT(slow.ranks[0].back().end, fast.ranks[0].back().end);
}

TEST(Simulator, lowerBoundHolds) {
  std::mt19937 random(1);
  for (int test = 0; test < 500; ++test) {
    int p = 1 + random() % 6, m = 1 + random() % 10;
    SimulationInput input;
    for (int s = 0; s < p; ++s) {
      StageTimes times;
      times.forward = 1 + random() % 10;
      times.backwardInput = 1 + random() % 10;
      times.backwardWeight = 1 + random() % 10;
      input.stages.push_back(times);
    }
    double transfer = random() % 3;
    input.transfers = {transfer};
    for (const char *name : {"gpipe", "1f1b"}) {
      Schedule schedule = withChannels(*makeSchedule(name, {p, m}));
      double makespan = simulate(schedule, input)->makespan + 1e-9;
      EXPECT_GE(makespan, boundOfWholeBackwards(input.stages, m, transfer));
      EXPECT_GE(makespan, makespanLowerBound(schedule, input));
      EXPECT_EQ(lowerBounds(schedule, input).makespan,
                makespanLowerBound(schedule, input));
    }
  }
}

TEST(Simulator, transferTimesOfACluster) {
  Cluster cluster = Cluster::cpuCores(2);
  cluster.links[{1, 0}] = {1e6, 1e-3};
  Schedule schedule = *gpipeSchedule({2, 1});
  schedule.channels = neighborChannels(2, true, Phase::Forward, 8000);
  std::vector<double> times = transferTimes(schedule, cluster);
  EXPECT_DOUBLE_EQ(times[0], 2e-6 + 1e-6);
  EXPECT_DOUBLE_EQ(times[1], 1e-3 + 8e-3);
}

TEST(Simulator, errors) {
  Schedule schedule = withChannels(*gpipeSchedule({2, 1}));
  SimulationInput input;
  input.stages = {{1}, {1}, {1}};
  EXPECT_NE(simulate(schedule, input).error().find("3 stages, not 2"),
            std::string::npos);
  input = unitTimes();
  input.transfers = {1, 1, 1};
  EXPECT_NE(simulate(schedule, input).error().find("3 channels, not 2"),
            std::string::npos);
  Schedule wrong =
      *parseSchedule("0B0,0F0\n1F0,1B0\n", neighborChannels(2, true));
  EXPECT_EQ(simulate(wrong, unitTimes()).error().find("deadlock"), 0u);
}

TEST(Simulator, preparationIsOncePerStep) {
  for (int microbatches : {1, 4}) {
    Schedule schedule = *gpipeSchedule({1, microbatches});
    SimulationInput input;
    input.stages = {{1, 1, 1, 0, 2, 5}};
    EXPECT_EQ(simulate(schedule, input)->makespan, 3 * microbatches + 2);
    insertPreparation(schedule, {true});
    insertPreparation(schedule, {true});
    EXPECT_EQ(simulate(schedule, input)->makespan, 3 * microbatches + 2 + 5);
  }
}

TEST(Simulator, timeline) {
  Schedule schedule = *oneForwardOneBackwardSchedule({3, 4});
  schedule = withChannels(schedule);
  EXPECT_EQ(renderTimeline(*simulate(schedule, unitTimes())),
            "rank 0 |012....aa3bb.cc.dd|\n"
            "rank 1 |.01..aa2bb3cc.dd..|\n"
            "rank 2 |..0aa1bb2cc3dd....|\n");
}

TEST(Simulator, timelineIsLimited) {
  Schedule schedule = withChannels(*gpipeSchedule({2, 100}));
  std::string text = renderTimeline(*simulate(schedule, unitTimes()), 60);
  EXPECT_EQ(text.find('\n'), std::string("rank 0 ||").size() + 60);
}

} // namespace
