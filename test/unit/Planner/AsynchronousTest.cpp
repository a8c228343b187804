//===- AsynchronousTest.cpp - Weight versions against closed formulas -----===//
#include "pp/Planner/Schedule/Asynchronous.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

std::string faults(const AsynchronousSchedule &schedule) {
  std::vector<std::string> errors = verifyVersions(schedule);
  return errors.empty() ? "" : errors.front();
}

std::string text(const std::vector<VersionedAction> &list) {
  std::string result;
  for (const VersionedAction &action : list)
    result += std::string(result.empty() ? "" : " ") +
              (action.kind == ActionKind::Forward    ? "F"
               : action.kind == ActionKind::Backward ? "B"
                                                     : "U") +
              std::to_string(action.microbatch) + "/" +
              std::to_string(action.version);
  return result;
}

TEST(PipeDream, straightPipeline) {
  AsynchronousSchedule schedule = *pipeDreamSchedule({1, 1, 1}, 4);
  EXPECT_EQ(faults(schedule), "");
  EXPECT_EQ(text(schedule.ranks[0]),
            "F0/0 F1/0 F2/0 B0/0 U0/1 F3/1 B1/0 U1/2 B2/0 U2/3 B3/1 U3/4");
  EXPECT_EQ(text(schedule.ranks[2]),
            "F0/0 B0/0 U0/1 F1/1 B1/1 U1/2 F2/2 B2/2 U2/3 F3/3 B3/3 U3/4");
  EXPECT_EQ(keptVersions(schedule), (std::vector<int>{3, 2, 1}));
}

TEST(PipeDream, versionsOfReplicas) {
  EXPECT_EQ(pipeDreamVersions({2, 1, 1}, 0), 2);
  EXPECT_EQ(pipeDreamVersions({2, 1, 1}, 1), 2);
  EXPECT_EQ(pipeDreamVersions({2, 1, 1}, 2), 1);
  std::mt19937 random(11);
  for (int test = 0; test < 400; ++test) {
    std::vector<int> replicas(1 + random() % 5);
    int common = 1;
    for (int &count : replicas) {
      count = 1 + random() % 4;
      common = std::lcm(common, count);
    }
    int ranks = std::accumulate(replicas.begin(), replicas.end(), 0);
    // Enough for every replica to reach its steady state.
    int minibatches = common * (ranks + 2);
    AsynchronousSchedule schedule = *pipeDreamSchedule(replicas, minibatches);
    ASSERT_EQ(faults(schedule), "");
    std::vector<int> kept = keptVersions(schedule);
    int before = 0;
    for (size_t stage = 0; stage < replicas.size(); ++stage) {
      int formula =
          static_cast<int>(std::ceil(double(ranks - before) / replicas[stage]));
      EXPECT_EQ(pipeDreamVersions(replicas, static_cast<int>(stage)), formula);
      for (int rank : schedule.ranksOfStage[stage])
        EXPECT_EQ(kept[rank], formula);
      before += replicas[stage];
    }
  }
}

TEST(PipeDream, verticalSync) {
  for (int stages = 1; stages <= 6; ++stages) {
    int minibatches = 3 * stages;
    AsynchronousSchedule schedule =
        *pipeDreamSchedule(std::vector<int>(stages, 1), minibatches, true);
    EXPECT_EQ(faults(schedule), "");
    // All stages read one version per mini-batch, and so keep as many.
    for (int count : keptVersions(schedule))
      EXPECT_EQ(count, stages);
    // Without it the first stage is as old, later ones are not.
    AsynchronousSchedule stashed =
        *pipeDreamSchedule(std::vector<int>(stages, 1), minibatches);
    stashed.rule = WeightRule::VerticalSync;
    EXPECT_EQ(faults(stashed).empty(), stages == 1);
  }
}

TEST(PipeDream, errors) {
  EXPECT_EQ(pipeDreamSchedule({2, 3}, 4).error(),
            "the 3 replicas of stage 1 cannot share 4 mini-batches equally");
  EXPECT_EQ(pipeDreamSchedule({1, 0}, 4).error(), "stage 1 has 0 replicas");
  EXPECT_EQ(pipeDreamSchedule({1, 2}, 4, true).error(),
            "vertical sync needs one replica per stage, but stage 1 has 2");
  EXPECT_FALSE(pipeDreamSchedule({}, 4));
}

TEST(DoubleBuffered, twoVersionsByFormula) {
  for (int stages = 1; stages <= 6; ++stages)
    for (int m = stages; m <= stages + 3; ++m)
      for (int updates = 1; updates <= 5; ++updates) {
        AsynchronousSchedule schedule =
            *doubleBufferedSchedule(stages, m, updates);
        EXPECT_EQ(faults(schedule), "") << stages << m << updates;
        for (int count : keptVersions(schedule))
          EXPECT_LE(count, 2);
        for (const std::vector<VersionedAction> &list : schedule.ranks)
          for (const VersionedAction &action : list)
            if (action.kind != ActionKind::Update) {
              // Counted from 1, as in the paper.
              int k = action.microbatch + 1;
              EXPECT_EQ(action.version,
                        std::max(int(std::floor((k - 1.) / m)) - 1, 0));
            }
      }
  EXPECT_EQ(doubleBufferedSchedule(4, 3, 2).error(),
            "two weight versions are enough only for at least as many "
            "micro-batches per update as stages, but there are 3 micro-batches "
            "and 4 stages");
}

TEST(PipeMare, schedules) {
  for (int stages = 1; stages <= 5; ++stages)
    for (int m = 1; m <= 6; ++m)
      for (int flushed = 0; flushed <= 4; ++flushed) {
        AsynchronousSchedule schedule =
            *pipeMareSchedule(stages, m, 4, flushed);
        EXPECT_EQ(faults(schedule), "");
        for (int count : keptVersions(schedule))
          EXPECT_EQ(count, 1);
        // Flushed updates see one version in both passes.
        std::vector<int> read(schedule.microbatches, -1);
        for (const VersionedAction &action : schedule.ranks[0])
          if (action.kind == ActionKind::Forward)
            read[action.microbatch] = action.version;
          else if (action.kind == ActionKind::Backward &&
                   action.microbatch < flushed * m)
            EXPECT_EQ(read[action.microbatch], action.version);
      }
  EXPECT_FALSE(pipeMareSchedule(2, 2, 2, 3));
}

TEST(PipeMare, delays) {
  EXPECT_DOUBLE_EQ(pipeMareForwardDelay(0, 4, 2), 3.5);
  EXPECT_DOUBLE_EQ(pipeMareForwardDelay(3, 4, 2), .5);
  EXPECT_DOUBLE_EQ(pipeMareLearningRate(.1, 4, 0, 10), .025);
  EXPECT_DOUBLE_EQ(pipeMareLearningRate(.1, 4, 5, 10), .05);
  EXPECT_DOUBLE_EQ(pipeMareLearningRate(.1, 4, 10, 10), .1);
  EXPECT_DOUBLE_EQ(pipeMareLearningRate(.1, .5, 0, 10), .1);
}

/// w(t+1) = w(t) - rate * curvature * w(t - delay): dies out just below the
/// limit and grows just above.
TEST(PipeMare, stabilityLimit) {
  for (int delay = 0; delay <= 20; ++delay)
    for (double curvature : {.5, 3.}) {
      auto size = [&](double part) {
        double rate = part * largestStableLearningRate(curvature, delay);
        std::vector<double> w(delay + 1, 1);
        double most = 0;
        int steps = 4000 * (delay + 1);
        for (int t = 0; t < steps; ++t) {
          double next = w.back() - rate * curvature * w[w.size() - 1 - delay];
          w.push_back(next);
          if (t >= steps - 10 * (delay + 1))
            most = std::max(most, std::abs(next));
        }
        return most;
      };
      EXPECT_LT(size(.99), .1) << delay;
      EXPECT_GT(size(1.01), 10) << delay;
    }
  for (auto [delay, limit] : {std::pair{0, 2.},
                              {1, 1.},
                              {2, .618},
                              {5, .285},
                              {10, .149},
                              {20, .077}})
    EXPECT_NEAR(largestStableLearningRate(1, delay), limit, 6e-4);
}

/// With steady changes the correction gives back the weights that the forward
/// pass had.
TEST(PipeMare, discrepancyCorrection) {
  DiscrepancyCorrection correction(4, 0, std::exp(-2));
  double weight = 0;
  for (int t = 0; t < 200; ++t) {
    weight += .25;
    correction.update(.25);
  }
  EXPECT_NEAR(correction.apply(weight), weight - 4 * .25, 1e-9);
  DiscrepancyCorrection none(2, 2, std::exp(-2));
  none.update(5);
  EXPECT_DOUBLE_EQ(none.apply(1), 1);
}

/// Wrong versions, orders and places against rules written down here again.
TEST(Versions, mutationsAreFound) {
  int accepted = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    int stages = 1 + random() % 4;
    AsynchronousSchedule schedule =
        random() % 2
            ? *pipeDreamSchedule(std::vector<int>(stages, 1), stages + 3)
            : *doubleBufferedSchedule(stages, stages + random() % 2, 3);
    AsynchronousSchedule good = schedule;
    std::vector<VersionedAction> &list =
        schedule.ranks[random() % schedule.ranks.size()];
    size_t i = random() % list.size();
    switch (random() % 4) {
    case 0:
      list[i].version += random() % 2 ? 1 : -1;
      break;
    case 1:
      list.erase(list.begin() + i);
      break;
    case 2:
      list.insert(list.begin() + random() % list.size(),
                  VersionedAction(list[i]));
      break;
    case 3:
      if (i + 1 < list.size())
        std::swap(list[i], list[i + 1]);
      break;
    }
    // The oracle: per rank the newest version, and what F read.
    bool right = true;
    for (const std::vector<VersionedAction> &rank : schedule.ranks) {
      int newest = 0, sinceUpdate = 0;
      std::vector<int> gradients;
      std::vector<int> read(schedule.microbatches, -1);
      std::set<std::pair<bool, int>> seen;
      std::vector<int> missing;
      for (const VersionedAction &action : rank) {
        int k = action.microbatch;
        if (action.kind == ActionKind::Update) {
          right &= action.version == newest + 1 &&
                   sinceUpdate == schedule.microbatchesPerUpdate &&
                   !gradients.empty() && gradients.back() == k;
          newest = action.version;
          sinceUpdate = 0;
          continue;
        }
        bool forward = action.kind == ActionKind::Forward;
        right &= seen.insert({forward, k}).second;
        int rule = schedule.rule == WeightRule::DoubleBuffered
                       ? std::max(k / schedule.microbatchesPerUpdate - 1, 0)
                   : forward ? newest
                             : read[k];
        right &= action.version == rule && rule <= newest && rule >= 0;
        if (forward) {
          read[k] = action.version;
          continue;
        }
        right &= seen.count({true, k}) == 1 &&
                 (gradients.empty() || gradients.back() < k);
        gradients.push_back(k);
        ++sinceUpdate;
      }
      right &=
          sinceUpdate == 0 && seen.size() == 2 * size_t(schedule.microbatches);
    }
    std::string fault = faults(schedule);
    // What only the other ranks or the number of versions can rule out.
    bool further = fault.find("waits forever") != std::string::npos ||
                   fault.find("versions, not two") != std::string::npos;
    EXPECT_EQ(fault.empty() || further, right) << seed << " " << fault;
    accepted += fault.empty() && schedule.ranks != good.ranks;
  }
  EXPECT_GT(accepted, 10);
}

TEST(Waves, formulas) {
  WaveRule rule{3, 0};
  EXPECT_EQ(rule.stalenessBound(), 6);
  // The eleventh, counted from 1, may miss the fifth to the tenth.
  EXPECT_EQ(rule.requiredClock(10), 1);
  EXPECT_EQ(rule.requiredClock(11), 2);
  for (int local = 0; local <= 5; ++local)
    for (int distance = 0; distance <= 4; ++distance) {
      WaveRule any{local, distance};
      int most = 0;
      for (int i = 0; i < 200; ++i)
        most = std::max(most, i - any.requiredClock(i) * any.waveSize());
      EXPECT_EQ(most, any.stalenessBound());
    }
}

TEST(Waves, randomWorkersKeepTheBound) {
  std::mt19937 random(13);
  for (int test = 0; test < 200; ++test) {
    WaveRule rule{int(random() % 4), int(random() % 4)};
    std::vector<double> seconds;
    for (int workers = 1 + random() % 4; workers; --workers)
      seconds.push_back(1 + random() % 10);
    int minibatches = 40;
    std::vector<WaveStart> starts =
        *simulateWaves(rule, seconds, 1 + random() % 4, minibatches);
    ASSERT_EQ(starts.size(), seconds.size() * minibatches);
    EXPECT_TRUE(verifyWaves(rule, starts).empty());
    for (size_t i = 1; i < starts.size(); ++i)
      EXPECT_LE(starts[i - 1].time, starts[i].time);
    // A clock that is behind what was demanded is found.
    for (WaveStart &start : starts)
      if (rule.requiredClock(start.minibatch) > 0) {
        start.globalClock = rule.requiredClock(start.minibatch) - 1;
        EXPECT_FALSE(verifyWaves(rule, starts).empty());
        break;
      }
  }
  EXPECT_FALSE(simulateWaves({1, 1}, {}, 1, 4));
  EXPECT_FALSE(simulateWaves({1, 1}, {0}, 1, 4));
}

} // namespace
