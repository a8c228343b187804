//===- GradientsTest.cpp - Every gradient counts once ---------------------===//
#include "pp/Planner/Schedule/Gradients.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Verify.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <functional>
#include <random>

using namespace pp::planner;

namespace {

std::string text(const std::vector<std::string> &faults) {
  std::string result;
  for (const std::string &fault : faults)
    result += fault + "\n";
  return result;
}

/// Parts 0 (two replicas), 1, 2; parts 0 and 2 share an embedding.
const std::vector<TiedParameter> tied = {{"embedding", {0, 2}, 64}};
const std::vector<int64_t> samples = {3, 3, 2, 2};

Schedule good() {
  return *insertCollectives(*roundRobinSchedule({2, 1, 1}, 4),
                            {{100}, tied, true});
}

std::vector<std::vector<GradientScale>> rightScales(const Schedule &schedule) {
  return std::vector<std::vector<GradientScale>>(schedule.stages,
                                                 gradientScales(samples));
}

Action &find(Schedule &schedule, ActionKind kind, int stage, int microbatch) {
  for (std::vector<Action> &rank : schedule.ranks)
    for (Action &action : rank)
      if (action.kind == kind && action.stage == stage &&
          action.microbatch == microbatch)
        return action;
  ADD_FAILURE() << "no such action";
  return schedule.ranks[0][0];
}

void erase(Schedule &schedule, const Action &action) {
  for (std::vector<Action> &rank : schedule.ranks)
    std::erase(rank, Action(action));
}

TEST(Gradients, good) {
  Schedule schedule = good();
  EXPECT_EQ(text(verifyGradients(schedule, {samples, {}, tied})), "");
  EXPECT_EQ(
      text(verifyGradients(schedule, {samples, rightScales(schedule), tied})),
      "");
  // 10 samples in 4: torch's tensor_split.
  std::vector<GradientScale> scales = gradientScales(samples);
  EXPECT_EQ(scales[0].numerator, 3);
  EXPECT_EQ(scales[0].denominator, 10);
  EXPECT_EQ(scales[2].numerator, 1);
  EXPECT_EQ(scales[2].denominator, 5);
  // Split backwards too.
  EXPECT_EQ(text(verifyGradients(*zeroBubbleH1Schedule({3, 4}), {samples})),
            "");
}

TEST(Gradients, dropped) {
  Schedule schedule = good();
  erase(schedule, Action(find(schedule, ActionKind::Backward, 1, 3)));
  std::string faults = text(verifyGradients(schedule, {samples, {}, tied}));
  EXPECT_NE(faults.find("stage 0 (replica 0 of part 0) updates part 0 without "
                        "the gradient of micro-batch 3\n"),
            std::string::npos)
      << faults;
  EXPECT_NE(faults.find("stage 3 updates 'embedding' without the gradient of "
                        "micro-batch 3 from part 0"),
            std::string::npos)
      << faults;
  EXPECT_EQ(faults.find("part 1"), std::string::npos) << faults;
}

TEST(Gradients, doubled) {
  Schedule schedule = good();
  std::vector<Action> &rank = schedule.ranks[2];
  rank.insert(rank.begin(), Action{ActionKind::Backward, 2, 1});
  EXPECT_EQ(text(verifyGradients(schedule, {samples, {}, tied})),
            "stage 2 updates part 1 with the gradient of micro-batch 1 counted "
            "2 times\n");
}

TEST(Gradients, onAnotherReplica) {
  Schedule schedule = good();
  Action moved = find(schedule, ActionKind::Backward, 1, 3);
  erase(schedule, moved);
  moved.stage = 0;
  schedule.ranks[0].insert(schedule.ranks[0].begin(), moved);
  // The sum is the same, but replica 0 does not have the residuals.
  EXPECT_EQ(text(verifyGradients(schedule, {samples, {}, tied})),
            "0B3: micro-batch 3 does not belong to stage 0 (replica 0 of part "
            "0)\n");
}

TEST(Gradients, wrongScale) {
  Schedule schedule = good();
  // A mean of means.
  std::vector<std::vector<GradientScale>> scales(
      schedule.stages, std::vector<GradientScale>(4, GradientScale{1, 4}));
  std::vector<std::string> faults =
      verifyGradients(schedule, {samples, scales, tied});
  EXPECT_EQ(faults.size(), 3u * 4);
  EXPECT_EQ(faults.front(),
            "0B0: stage 0 (replica 0 of part 0) scales the gradient of "
            "micro-batch 0 by 1/4, but it has 3/10 of the samples");
  // Equal values in other terms are right, and 0 samples count 0.
  scales = rightScales(schedule);
  scales[2][0] = {6, 20};
  EXPECT_EQ(text(verifyGradients(schedule, {samples, scales, tied})), "");
  scales[2][0] = {7, 20};
  EXPECT_EQ(verifyGradients(schedule, {samples, scales, tied}).size(), 1u);
  EXPECT_EQ(text(verifyGradients(schedule, {{5, 0, 5, 0}, {}, tied})), "");
}

TEST(Gradients, collectives) {
  // Not added up over replicas.
  Schedule schedule = *roundRobinSchedule({2, 1, 1}, 4);
  EXPECT_EQ(verifyGradients(schedule, {samples}).size(), 4u);
  // Added up twice: every micro-batch counts twice.
  schedule = good();
  Action reduce = schedule.ranks[0][schedule.ranks[0].size() - 4];
  ASSERT_EQ(reduce.kind, ActionKind::ReduceGradients);
  for (int rank : {0, 1}) {
    reduce.stage = rank;
    std::vector<Action> &list = schedule.ranks[rank];
    list.insert(list.end() - 3, reduce);
  }
  std::string faults = text(verifyGradients(schedule, {samples, {}, tied}));
  EXPECT_NE(faults.find("micro-batch 0 counted 2 times"), std::string::npos)
      << faults;
  // A tied parameter that nobody exchanges.
  schedule =
      *insertCollectives(*roundRobinSchedule({2, 1, 1}, 4), {{100}, {}, true});
  faults = text(verifyGradients(schedule, {samples, {}, tied}));
  EXPECT_NE(faults.find("stage 3 updates 'embedding' without the gradient of "
                        "micro-batch 0 from part 0"),
            std::string::npos)
      << faults;
  // W after the sum.
  schedule = good();
  Action late = find(schedule, ActionKind::Backward, 0, 2);
  erase(schedule, late);
  schedule.ranks[0].insert(schedule.ranks[0].end() - 1, late);
  EXPECT_NE(text(verifyGradients(schedule, {samples, {}, tied})), "");
  EXPECT_NE(text(verifySchedule(schedule)).find("0B2 comes after"),
            std::string::npos);
  // A group over two parts.
  schedule = good();
  schedule.groups[0].stages = {0, 1, 2};
  EXPECT_NE(text(verifyGradients(schedule, {samples, {}, tied}))
                .find("different parts"),
            std::string::npos);
  // One rank stays away.
  schedule = good();
  std::erase_if(schedule.ranks[1], [](const Action &action) {
    return action.kind == ActionKind::ReduceGradients;
  });
  EXPECT_NE(text(verifyGradients(schedule, {samples, {}, tied}))
                .find("rank 0 waits in 0REDUCE_GRAD"),
            std::string::npos);
}

TEST(Gradients, tiedOnOneRankNeedsNoExchange) {
  // V placement: stages 0 and 3 are on rank 0.
  Schedule schedule = *makeSchedule("zb-v", {4, 4, 2});
  std::vector<TiedParameter> shared = {{"embedding", {0, 3}, 64}};
  Schedule complete = *insertCollectives(schedule, {{100}, shared, false});
  EXPECT_TRUE(complete.groups.empty());
  EXPECT_EQ(text(verifyGradients(complete, {samples, {}, shared})), "");
}

/// Whatever one mutation does to the sums is found, and nothing else is: the
/// oracle adds up numbers, distinct powers of 3 per (part, micro-batch).
TEST(Gradients, mutations) {
  std::mt19937 random(17);
  int rejected = 0, accepted = 0;
  for (int test = 0; test < 2000; ++test) {
    std::vector<int> replicas(1 + random() % 3);
    int most = 1;
    for (int &count : replicas)
      most = std::max(most, count = 1 + static_cast<int>(random() % 3));
    int m = most + static_cast<int>(random() % 3);
    Schedule schedule =
        *insertCollectives(*roundRobinSchedule(replicas, m), {});
    // One change.
    size_t r = random() % schedule.ranks.size();
    std::vector<Action> &list = schedule.ranks[r];
    size_t a = random() % list.size(), b = random() % list.size();
    switch (random() % 4) {
    case 0:
      list.erase(list.begin() + a);
      break;
    case 1:
      list.insert(list.begin() + b, Action(list[a]));
      break;
    case 2:
      std::swap(list[a], list[b]);
      break;
    default:
      if (list[a].microbatch >= 0)
        list[a].microbatch = random() % m;
    }
    // The oracle: what every stage has at its U.
    std::vector<std::vector<int>> sums(schedule.stages, std::vector<int>(m, 0));
    std::vector<size_t> at(schedule.ranks.size(), 0);
    bool right = true;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < at.size(); ++rank) {
        if (at[rank] == schedule.ranks[rank].size())
          continue;
        const Action &action = schedule.ranks[rank][at[rank]];
        if (action.isCollective()) {
          const std::vector<int> &members =
              schedule.groups[action.group].stages;
          bool all = true;
          for (int stage : members)
            all &= at[stage] < schedule.ranks[stage].size() &&
                   schedule.ranks[stage][at[stage]].group == action.group;
          if (!all)
            continue;
          std::vector<int> sum(m, 0);
          for (int stage : members)
            for (int i = 0; i < m; ++i)
              sum[i] += sums[stage][i];
          for (int stage : members) {
            sums[stage] = sum;
            ++at[stage];
          }
        } else {
          if (action.kind == ActionKind::Backward) {
            ++sums[action.stage][action.microbatch];
            Replica replica = schedule.replicas[action.stage];
            right &= action.microbatch % replica.count == replica.number;
          }
          if (action.kind == ActionKind::Update)
            right &= sums[action.stage] == std::vector<int>(m, 1);
          ++at[rank];
        }
        moved = true;
      }
    }
    for (size_t rank = 0; rank < at.size(); ++rank)
      right &= at[rank] == schedule.ranks[rank].size();
    std::vector<std::string> faults =
        verifyGradients(schedule, {std::vector<int64_t>(m, 1)});
    ASSERT_EQ(faults.empty(), right) << text(faults) << toString(schedule);
    ++(right ? accepted : rejected);
  }
  EXPECT_GT(rejected, 300);
  EXPECT_GT(accepted, 300);
}

TEST(Gradients, inputs) {
  Schedule schedule = good();
  EXPECT_EQ(text(verifyGradients(schedule, {{1, 2}})),
            "there are samples for 2 micro-batches, not 4\n");
  EXPECT_EQ(text(verifyGradients(schedule, {{0, 0, 0, 0}})),
            "the mini-batch has no samples\n");
  EXPECT_EQ(text(verifyGradients(schedule, {{1, -1, 1, 1}})),
            "a micro-batch has -1 samples\n");
  EXPECT_EQ(text(verifyGradients(schedule, {samples, {{{1, 2}}}})),
            "there are not scales for each stage and micro-batch\n");
  EXPECT_NE(text(verifyGradients(schedule, {samples, {}, {{"x", {0, 7}, 1}}})),
            "");
}

} // namespace
