//===- AsynchronousSimulatorTest.cpp - Steady states and memory -----------===//
#include "pp/Planner/AsynchronousSimulator.h"
#include "gtest/gtest.h"
#include <random>

using namespace pp::planner;

namespace {

constexpr double tolerance = 1e-9;

AsynchronousSimulation timed(const Result<AsynchronousSchedule> &schedule,
                             const AsynchronousInput &input) {
  EXPECT_TRUE(bool(schedule));
  Result<AsynchronousSimulation> simulation =
      simulateAsynchronous(*schedule, input);
  EXPECT_TRUE(bool(simulation)) << (simulation ? "" : simulation.error());
  return simulation ? *simulation : AsynchronousSimulation();
}

/// F = 1, B = 2.
StageTimes load(double factor = 1) { return {factor, factor, factor, 0, 0}; }

TEST(AsynchronousSimulator, firstSteps) {
  // Two stages, F = 1 and B = 2 (I + W), 1 second between them.
  //   rank 0  F0 F1 . . . B0 B0 ...
  //   rank 1  .  .  F0 B0 B0 F1
  AsynchronousSimulation simulation =
      timed(pipeDreamSchedule({1, 1}, 12), {{load()}, {1}});
  const auto &first = simulation.ranks[0], &second = simulation.ranks[1];
  EXPECT_DOUBLE_EQ(first[0].end, 1);
  EXPECT_DOUBLE_EQ(first[1].end, 2);
  EXPECT_DOUBLE_EQ(second[0].start, 2);
  EXPECT_DOUBLE_EQ(second[1].end, 5);
  EXPECT_EQ(first[2].action.kind, ActionKind::Backward);
  EXPECT_DOUBLE_EQ(first[2].start, 6);
  EXPECT_DOUBLE_EQ(first[2].end, 8);
}

TEST(AsynchronousSimulator, replicasShareALoad) {
  // Equal loads: stages 1 and 2 have one rank and set the pace.
  AsynchronousSimulation equal =
      timed(pipeDreamSchedule({2, 1, 1}, 240), {{load()}});
  EXPECT_NEAR(equal.throughput, 1 / 3., tolerance);
  EXPECT_NEAR(equal.utilization[2], 1, tolerance);
  EXPECT_NEAR(equal.utilization[3], 1, tolerance);
  EXPECT_NEAR(equal.utilization[0], .5, tolerance);
  EXPECT_NEAR(equal.utilization[1], .5, tolerance);
  // Without replicas a stage with three times the load sets the pace.
  AsynchronousSimulation slow =
      timed(pipeDreamSchedule({1, 1, 1}, 240), {{load(3), load(), load()}});
  EXPECT_NEAR(slow.throughput, 1 / 9., tolerance);
}

TEST(AsynchronousSimulator, replicasThatMeetSendInBursts) {
  // The rate of the slow stage is 2 / 9. But its replicas meet in every update,
  // so their forwards come in pairs, and stage 1, whose order is fixed, waits
  // for the second with the backward of the first.
  AsynchronousSimulation shared =
      timed(pipeDreamSchedule({2, 1, 1}, 240), {{load(3), load(), load()}});
  EXPECT_NEAR(shared.throughput, 1 / 6., tolerance);
  // With a faster rest the bursts cost less.
  double before = shared.throughput;
  for (double rest : {.5, .25, .01}) {
    AsynchronousSimulation faster = timed(pipeDreamSchedule({2, 1, 1}, 240),
                                          {{load(3), load(rest), load(rest)}});
    EXPECT_GT(faster.throughput, before);
    EXPECT_LE(faster.throughput, 2 / 9. + tolerance);
    before = faster.throughput;
  }
}

TEST(AsynchronousSimulator, noStageIsFasterThanItsRate) {
  std::mt19937 random(5);
  for (int test = 0; test < 200; ++test) {
    std::vector<int> replicas(1 + random() % 4);
    std::vector<StageTimes> stages;
    for (int &count : replicas) {
      count = 1 + random() % 3;
      stages.push_back({1. + random() % 9, 1. + random() % 9, 1. + random() % 9,
                        0, double(random() % 3)});
    }
    AsynchronousInput input{stages, {double(random() % 4)}};
    AsynchronousSimulation simulation =
        timed(pipeDreamSchedule(replicas, 240), input);
    for (size_t s = 0; s < replicas.size(); ++s) {
      const StageTimes &times = stages[s];
      double work = times.forward + times.backwardInput + times.backwardWeight +
                    times.update;
      EXPECT_LE(simulation.throughput, replicas[s] / work + .01);
    }
  }
}

TEST(AsynchronousSimulator, noBubbleWithoutAFlush) {
  for (int stages : {1, 2, 4, 8}) {
    for (const auto &schedule : {doubleBufferedSchedule(stages, stages, 12),
                                 pipeMareSchedule(stages, 4, 40, 0),
                                 pipeMareSchedule(stages, 4, 40, 8)}) {
      AsynchronousSimulation simulation = timed(schedule, {{load()}});
      EXPECT_NEAR(simulation.throughput, 1 / 3., tolerance);
      for (double share : simulation.utilization)
        EXPECT_NEAR(share, 1, tolerance);
    }
    // A flush after each update costs (stages - 1) round trips.
    AsynchronousSimulation flushed =
        timed(pipeMareSchedule(stages, 4, 40, 40), {{load()}});
    EXPECT_NEAR(flushed.throughput, 4 / (3. * (4 + stages - 1)), tolerance);
  }
}

TEST(AsynchronousSimulator, updatesTakeTheirTime) {
  StageTimes stage = load();
  stage.update = 3;
  AsynchronousSimulation simulation =
      timed(doubleBufferedSchedule(2, 6, 20), {{stage}});
  // 6 micro-batches of 3 seconds, then an update.
  EXPECT_NEAR(simulation.throughput, 6 / 21., tolerance);
}

TEST(AsynchronousSimulator, memory) {
  // Versions 3, 2, 1, and as many micro-batches.
  EXPECT_EQ(asynchronousPeakBytes(*pipeDreamSchedule({1, 1, 1}, 9), {100}, {1}),
            (std::vector<int64_t>{303, 202, 101}));
  // B.7: versions 2, 2, 1; a replica of stage 0 has two micro-batches.
  EXPECT_EQ(asynchronousPeakBytes(*pipeDreamSchedule({2, 1, 1}, 12),
                                  {100, 200, 300}, {1, 2, 3}),
            (std::vector<int64_t>{202, 202, 404, 303}));
  // 2BW: two versions everywhere, PipeMare one.
  EXPECT_EQ(asynchronousPeakBytes(*doubleBufferedSchedule(3, 3, 6), {100}, {1}),
            (std::vector<int64_t>{203, 202, 201}));
  EXPECT_EQ(asynchronousPeakBytes(*pipeMareSchedule(3, 3, 6, 0), {100}, {1}),
            (std::vector<int64_t>{103, 102, 101}));
}

TEST(AsynchronousSimulator, errors) {
  auto error = [](const AsynchronousSchedule &schedule,
                  const AsynchronousInput &input) {
    Result<AsynchronousSimulation> result =
        simulateAsynchronous(schedule, input);
    return result ? std::string() : result.error();
  };
  AsynchronousSchedule schedule = *pipeDreamSchedule({1, 1, 1}, 12);
  EXPECT_EQ(error(schedule, {{load(), load()}}),
            "there are times for 2 stages, not 3");
  EXPECT_EQ(error(schedule, {{load()}, {1, 2, 3}}),
            "there are times for 3 borders of stages, not 2");
  EXPECT_EQ(error(schedule, {{StageTimes()}}), "the stages take no time");
  EXPECT_NE(error(*pipeDreamSchedule({1, 1, 1}, 4), {{load()}})
                .find("too few for a steady state"),
            std::string::npos);
  std::swap(schedule.ranks[0][0], schedule.ranks[0][1]);
  schedule.ranks[0].pop_back();
  EXPECT_NE(error(schedule, {{load()}}), "");
}

} // namespace
