//===- RollingTest.cpp - Schedules without a flush, as one list -----------===//
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Waves.h"
#include "gtest/gtest.h"
#include <numeric>
#include <random>

using namespace pp::planner;

namespace {

struct Shape {
  std::string_view name;
  int stages, microbatches, clockDistance = 0;
};

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (int stages = 1; stages <= 9; ++stages) {
    result.push_back({"pipedream", stages, 1});
    result.push_back({"pipedream-vertical-sync", stages, 1});
    for (int m : {stages, stages + 1, 2 * stages})
      result.push_back({"pipedream-2bw", stages, m});
    for (int m : {1, 2, 3, stages, stages + 2}) {
      result.push_back({"pipemare", stages, m});
      for (int distance : {0, 1, 4})
        result.push_back({"wsp", stages, m, distance});
    }
  }
  return result;
}

std::string nameOf(const Shape &shape) {
  return std::string(shape.name) + " p=" + std::to_string(shape.stages) +
         " m=" + std::to_string(shape.microbatches) +
         " D=" + std::to_string(shape.clockDistance);
}

Schedule make(const Shape &shape, bool prepares = false,
              bool recomputes = false) {
  Schedule schedule =
      *makeRollingSchedule(shape.name, {shape.stages, shape.microbatches,
                                        /*ranks=*/0, shape.clockDistance});
  if (recomputes && shape.name != "pipemare")
    insertRecompute(schedule, CheckpointMode::Always);
  insertPreparation(schedule, std::vector<bool>(shape.stages, prepares));
  auto sent =
      insertRollingTransfers(schedule, neighborChannels(shape.stages, true));
  EXPECT_TRUE(sent) << nameOf(shape);
  return *sent;
}

std::string join(const std::vector<std::string> &faults) {
  std::string text;
  for (const std::string &fault : faults)
    text += fault + "\n";
  return text;
}

AsynchronousSchedule reference(const Shape &shape, int steps) {
  if (shape.name == "pipedream")
    return *pipeDreamSchedule(std::vector<int>(shape.stages, 1), steps);
  if (shape.name == "pipedream-vertical-sync")
    return *pipeDreamSchedule(std::vector<int>(shape.stages, 1), steps,
                              /*verticalSync=*/true);
  if (shape.name == "pipedream-2bw")
    return *doubleBufferedSchedule(shape.stages, shape.microbatches, steps);
  return *pipeMareSchedule(shape.stages, shape.microbatches, steps, 0);
}

} // namespace

// What the program runs is what the generators of whole runs say, action by
// action and version by version.
TEST(Rolling, unrollsToTheWholeRun) {
  for (const Shape &shape : shapes())
    for (int steps : {1, 2, 7, 24}) {
      // Of a virtual worker there is no generator of whole runs.
      if (shape.name == "wsp")
        continue;
      Schedule schedule = make(shape);
      AsynchronousSchedule expected = reference(shape, steps);
      EXPECT_EQ(
          unrollVersions(schedule, *weightRuleOf(shape.name), steps).ranks,
          expected.ranks)
          << nameOf(shape) << ", " << steps << " steps";
    }
}

TEST(Rolling, isProven) {
  for (const Shape &shape : shapes())
    for (int variant = 0; variant < 4; ++variant) {
      Schedule schedule = make(shape, variant % 2, variant / 2);
      EXPECT_EQ(join(verifyRolling(schedule, *weightRuleOf(shape.name))), "")
          << nameOf(shape);
      SlotAssignment slots = assignRollingSlots(schedule);
      EXPECT_EQ(join(verifyRollingSlots(schedule, slots)), "") << nameOf(shape);
    }
}

TEST(Rolling, keepsAsMuchAsThePapersSay) {
  for (const Shape &shape : shapes()) {
    Schedule schedule = make(shape);
    SlotAssignment slots = assignRollingSlots(schedule);
    for (int stage = 0; stage < shape.stages; ++stage) {
      int ahead = shape.stages - 1 - stage;
      int versions = shape.name == "pipedream"                 ? ahead + 1
                     : shape.name == "pipedream-2bw"           ? 2
                     : shape.name == "pipedream-vertical-sync" ? shape.stages
                     : shape.name == "wsp" ? shape.microbatches
                                           : 1;
      if (shape.name == "wsp")
        ahead = std::min(ahead, shape.microbatches - 1);
      EXPECT_EQ(schedule.versions[stage], versions) << nameOf(shape);
      EXPECT_EQ(slots.stages[stage].count, ahead + 1) << nameOf(shape);
    }
  }
}

TEST(Rolling, refusesShapes) {
  auto error = [](std::string_view name, PipelineShape shape) {
    auto made = makeRollingSchedule(name, shape);
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(
      error("pipedream", {2, 4}),
      "pipedream updates the weights after each micro-batch, so a step "
      "has one, but there are 4; pipedream-2bw has an update per several");
  EXPECT_EQ(error("pipedream-2bw", {4, 3}),
            "pipedream-2bw keeps two weight versions, which are enough only "
            "for at least as many micro-batches per update as stages, but "
            "there are 3 micro-batches and 4 stages");
  EXPECT_EQ(error("pipedream", {4, 1, 2}),
            "pipedream needs a rank for each stage, but there are 2 ranks and "
            "4 stages");
  EXPECT_EQ(error("1f1b", {4, 4}),
            "'1f1b' is no schedule without a flush; known are pipedream, "
            "pipedream-vertical-sync, pipedream-2bw, pipemare and wsp");
  EXPECT_EQ(error("wsp", {2, 4, 0, -1}),
            "a clock distance of -1 waves of 4 micro-batches makes no "
            "schedule: all waves that may be in flight have 1024 "
            "micro-batches at most");
  EXPECT_NE(error("wsp", {2, 512, 0, 2}), "");
}

// The definition, action by action.
TEST(Rolling, sharesWaves) {
  auto list = [](PipelineShape shape, size_t rank) {
    std::string text;
    auto made = makeRollingSchedule("wsp", shape);
    for (const Action &action : made->ranks[rank])
      text += toString(action, {}) + ":" + std::to_string(action.lag) + ":" +
              std::to_string(action.version) + " ";
    return text;
  };
  // The first stage reads what it has pulled at once.
  EXPECT_EQ(list({2, 2, 0, 0}, 0),
            "0F0:0:-1 0B1:1:0 0U:1:2 0PUSH:1:2 0PULL:1:2 0F1:0:0 0B0:0:-1 "
            "0U:0:1 ");
  EXPECT_EQ(list({2, 2, 0, 0}, 1),
            "1F0:0:-1 1B0:0:-1 1PULL:1:2 1U:0:1 1F1:0:0 1B1:0:0 1U:0:2 "
            "1PUSH:0:2 ");
  EXPECT_EQ(list({1, 1, 0, 4}, 0), "0F0:0:0 0B0:0:0 0U:0:1 0PUSH:0:1 "
                                   "0PULL:4:5 ");
}

// Whatever stages its ranks have, a worker keeps the same versions.
TEST(Rolling, ranksOfWorkersMayHaveSeveralStages) {
  for (const std::vector<int> &counts :
       {std::vector<int>{3}, {2, 1}, {1, 2, 1}, {2, 2}, {4, 1, 1}})
    for (int m : {1, 2, 4})
      for (int distance : {0, 1, 3})
        for (bool prepares : {false, true}) {
          int stages = std::accumulate(counts.begin(), counts.end(), 0);
          Schedule schedule =
              *makeWaveSchedule({stages, m, 0, distance}, counts);
          if (prepares)
            insertRecompute(schedule, CheckpointMode::Always);
          insertPreparation(schedule, std::vector<bool>(stages, prepares));
          auto sent =
              insertRollingTransfers(schedule, neighborChannels(stages, true));
          ASSERT_TRUE(sent);
          EXPECT_EQ(join(verifyRolling(*sent, WeightRule::Waves)), "");
          EXPECT_EQ(join(verifyRollingSlots(*sent, assignRollingSlots(*sent))),
                    "");
        }
  EXPECT_EQ(makeWaveSchedule({3, 2}, {2, 2}).error(),
            "the ranks of a virtual worker have 4 stages, but there are 3");
  EXPECT_EQ(makeWaveSchedule({3, 2}, {3, 0}).error(),
            "a rank of a virtual worker cannot have 0 stages");
}

// A worker may run as far ahead as the clock distance says: a pull that comes
// too early is no fault of the versions, but holds it up.
TEST(Rolling, keepsTheClockDistance) {
  for (int distance : {0, 1, 4}) {
    Schedule right = make({"wsp", 3, 3, distance});
    ASSERT_EQ(join(verifyRolling(right, WeightRule::Waves)), "");
    for (int claimed : {-1, distance - 1, distance + 1}) {
      Schedule wrong = right;
      wrong.clockDistance = claimed;
      EXPECT_NE(join(verifyRolling(wrong, WeightRule::Waves)), "") << claimed;
    }
    Schedule wrong = right;
    wrong.clockDistance.reset();
    EXPECT_NE(join(verifyRolling(wrong, WeightRule::Waves)), "");
  }
}

TEST(Rolling, refusesAnotherNumberOfVersions) {
  Schedule schedule = make({"pipedream", 3, 1});
  schedule.versions[0] = 2;
  EXPECT_EQ(join(verifyRolling(schedule, WeightRule::Stashing)),
            "0B0 of step 1 uses version 0 of the weights in slot 1 of 2, which "
            "holds version 1\n");
  schedule.versions[0] = 4;
  EXPECT_EQ(join(verifyRolling(schedule, WeightRule::Stashing)),
            "stage 0 keeps 4 weight versions, but needs 3\n");
}

// One change of a version, a lag, a micro-batch, a stage, a kind, the order or
// a count: none is right by accident.
TEST(Rolling, refusesDamage) {
  std::mt19937 random(7);
  auto below = [&](size_t n) {
    return static_cast<size_t>(random() % static_cast<unsigned>(n));
  };
  std::vector<Shape> all = shapes();
  int refused = 0;
  while (refused < 3000) {
    const Shape &shape = all[below(all.size())];
    Schedule right = make(shape, below(2) == 0, below(2) == 0), wrong = right;
    auto &list = wrong.ranks[below(wrong.ranks.size())];
    size_t at = below(list.size());
    Action &action = list[at];
    int change = below(2) ? 1 : -1;
    switch (below(6)) {
    case 0:
      if (action.isTransfer())
        continue;
      action.version += change;
      break;
    case 1:
      // To run R early takes memory only.
      if (action.kind == ActionKind::Recompute)
        continue;
      action.lag += change;
      break;
    case 2:
      // That a stage has its P is for pp-verify-schedule to know, and a
      // micro-batch need not have an R.
      if (action.kind == ActionKind::Prepare ||
          action.kind == ActionKind::Recompute)
        continue;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 3:
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), list[at]);
      // A second P of the same weights changes nothing.
      if (list[at].kind == ActionKind::Prepare)
        continue;
      break;
    case 4:
      if (action.isPerStep())
        continue;
      action.microbatch += change;
      break;
    case 5:
      wrong.versions[static_cast<size_t>(action.stage)] += change;
      break;
    }
    ASSERT_NE(join(verifyRolling(wrong, *weightRuleOf(shape.name))), "")
        << nameOf(shape) << "\n"
        << toString(right) << "became\n"
        << toString(wrong);
    ++refused;
  }
}
