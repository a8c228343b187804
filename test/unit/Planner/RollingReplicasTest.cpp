//===- RollingReplicasTest.cpp - PipeDream with replicas of stages --------===//
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "gtest/gtest.h"
#include <numeric>
#include <random>

using namespace pp::planner;

namespace {

struct Shape {
  std::vector<int> replicas;
  int microbatches;
};

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (std::vector<int> replicas : std::vector<std::vector<int>>{{1},
                                                                 {2},
                                                                 {2, 1},
                                                                 {1, 2},
                                                                 {3, 1},
                                                                 {2, 2},
                                                                 {2, 3},
                                                                 {3, 2, 1},
                                                                 {1, 3, 2},
                                                                 {4, 1, 1, 2},
                                                                 {1, 2, 1, 2},
                                                                 {2, 4, 1},
                                                                 {1, 1, 1, 1},
                                                                 {6, 4}}) {
    int step = 1;
    for (int count : replicas)
      step = std::lcm(step, count);
    for (int factor : {1, 2, 3})
      result.push_back({replicas, step * factor});
  }
  return result;
}

std::string nameOf(const Shape &shape) {
  std::string name = "m=" + std::to_string(shape.microbatches) + " of";
  for (int count : shape.replicas)
    name += " " + std::to_string(count);
  return name;
}

Schedule make(const Shape &shape, bool prepares = false,
              bool recomputes = false) {
  Schedule schedule =
      *makeRollingReplicas("pipedream", shape.replicas, shape.microbatches);
  if (recomputes)
    insertRecompute(schedule, CheckpointMode::Always);
  insertPreparation(schedule, std::vector<bool>(schedule.stages, prepares));
  insertDealtReductions(schedule);
  auto sent = insertRollingTransfers(
      schedule,
      replicateChannels(
          schedule, neighborChannels(static_cast<int>(shape.replicas.size()),
                                     /*training=*/true)));
  EXPECT_TRUE(sent) << nameOf(shape);
  return *sent;
}

std::string join(const std::vector<std::string> &faults) {
  std::string text;
  for (const std::string &fault : faults)
    text += fault + "\n";
  return text;
}

} // namespace

TEST(RollingReplicas, UnrollToTheWholeRun) {
  for (const Shape &shape : shapes())
    for (int steps : {1, 2, 7, 24})
      EXPECT_EQ(
          unrollVersions(make(shape), WeightRule::Stashing, steps).ranks,
          pipeDreamSchedule(shape.replicas, steps * shape.microbatches)->ranks)
          << nameOf(shape) << ", " << steps << " steps";
}

TEST(RollingReplicas, AreProven) {
  for (const Shape &shape : shapes())
    for (int variant = 0; variant < 4; ++variant) {
      Schedule schedule = make(shape, variant % 2, variant / 2);
      EXPECT_EQ(join(verifyRolling(schedule, WeightRule::Stashing)), "")
          << nameOf(shape);
      SlotAssignment slots = assignRollingSlots(schedule);
      EXPECT_EQ(join(verifyRollingSlots(schedule, slots)), "") << nameOf(shape);
    }
}

// One replica of each stage is what makeRollingSchedule makes.
TEST(RollingReplicas, OfOneAreNone) {
  for (int stages = 1; stages < 6; ++stages) {
    Schedule dealt =
        *makeRollingReplicas("pipedream", std::vector<int>(stages, 1), 1);
    Schedule plain = *makeRollingSchedule("pipedream", {stages, 1});
    EXPECT_EQ(dealt.ranks, plain.ranks);
    EXPECT_EQ(dealt.versions, plain.versions);
  }
}

// ceil((N - n_0 - ... - n_(s-1)) / n_s) versions, and as many micro-batches.
TEST(RollingReplicas, KeepAsMuchAsThePaperSays) {
  for (const Shape &shape : shapes()) {
    Schedule schedule = make(shape);
    SlotAssignment slots = assignRollingSlots(schedule);
    for (int stage = 0; stage < schedule.stages; ++stage) {
      int kept =
          pipeDreamVersions(shape.replicas, schedule.replicaOf(stage).part);
      EXPECT_EQ(schedule.versions[stage], kept) << nameOf(shape);
      EXPECT_EQ(slots.stages[stage].count, kept) << nameOf(shape);
    }
  }
}

TEST(RollingReplicas, RefuseShapes) {
  auto error = [](std::string_view name, const std::vector<int> &replicas,
                  int microbatches) {
    auto made = makeRollingReplicas(name, replicas, microbatches);
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(error("pipedream", {2, 1}, 3),
            "the 2 replicas of part 0 cannot share 3 micro-batches equally; "
            "without a flush, they have to");
  EXPECT_EQ(error("pipemare", {2, 1}, 2),
            "'pipemare' has no replicas of stages; without a flush, pipedream "
            "has them");
  EXPECT_EQ(error("pipedream", {2, 0}, 2),
            "part 1 cannot have 0 replicas; expected 1 to 65536");
}

// Whatever is damaged in the lists is found.
TEST(RollingReplicas, NoDamageIsProven) {
  std::mt19937 random(7);
  int damaged = 0;
  std::vector<Shape> all = shapes();
  while (damaged < 1000) {
    const Shape &shape = all[random() % all.size()];
    Schedule schedule = make(shape);
    Schedule before = schedule;
    std::vector<Action> &list =
        schedule.ranks[random() % schedule.ranks.size()];
    size_t at = random() % list.size();
    Action &action = list[at];
    switch (random() % 5) {
    case 0:
      if (action.isTransfer())
        continue;
      action.version += random() % 2 ? 1 : -1;
      // Versions up to 0 are one, and what is prepared of them.
      if (list.front().lag == 0 && shape.replicas.size() == 1 &&
          pipeDreamVersions(shape.replicas, 0) == 1)
        continue;
      break;
    case 1:
      action.lag += 1;
      break;
    case 2:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 3: {
      size_t other = random() % list.size();
      if (list[other] == action)
        continue;
      // Transfers that are next to each other may have another order.
      if (action.isTransfer() || list[other].isTransfer())
        continue;
      std::swap(action, list[other]);
      break;
    }
    default: {
      int stage = static_cast<int>(random() % schedule.stages);
      schedule.versions[stage] += random() % 2 ? 1 : -1;
    }
    }
    ++damaged;
    EXPECT_NE(join(verifyRolling(schedule, WeightRule::Stashing)), "")
        << nameOf(shape) << "\n"
        << toString(before) << "\n"
        << toString(schedule);
  }
}
