//===- ReplicasTest.cpp - Data parallelism in schedules -------------------===//
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/MemoryCurve.h"
#include "pp/Planner/Schedule/Collectives.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Gradients.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Simulator.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

std::string first(const std::vector<std::string> &faults) {
  return faults.empty() ? "" : faults.front();
}

/// With transfers and collectives.
Schedule completed(const Result<Schedule> &schedule, int parts) {
  EXPECT_TRUE(bool(schedule)) << (schedule ? "" : schedule.error());
  Result<Schedule> sent = insertTransfers(
      *schedule, replicateChannels(*schedule, neighborChannels(parts, true)));
  EXPECT_TRUE(bool(sent)) << (sent ? "" : sent.error());
  Result<Schedule> result =
      insertCollectives(*sent, {{1 << 20}, {}, /*globalNorm=*/true});
  EXPECT_TRUE(bool(result)) << (result ? "" : result.error());
  return *result;
}

/// Independent of the planner's code: parts instead of stages and channels, and
/// sets instead of tables. Values arrive as soon as they are made.
bool runsCorrectly(const Schedule &schedule, const std::vector<int> &replicas) {
  using Token = std::tuple<char, int, int>; // F or B, part, micro-batch.
  int parts = static_cast<int>(replicas.size());
  std::set<Token> done;
  std::vector<int> partOf, numberOf;
  for (int part = 0; part < parts; ++part)
    for (int q = 0; q < replicas[part]; ++q) {
      partOf.push_back(part);
      numberOf.push_back(q);
    }
  std::vector<size_t> at(schedule.ranks.size(), 0);
  size_t updates = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < at.size(); ++rank)
      for (; at[rank] < schedule.ranks[rank].size(); ++at[rank], moved = true) {
        const Action &action = schedule.ranks[rank][at[rank]];
        int part = partOf[action.stage], i = action.microbatch;
        if (action.kind == ActionKind::Update) {
          for (int j = numberOf[action.stage]; j < schedule.microbatches;
               j += replicas[part])
            if (!done.count({'B', part, j}))
              return false;
          ++updates;
          continue;
        }
        if (i % replicas[part] != numberOf[action.stage])
          return false;
        if (action.kind == ActionKind::Forward) {
          if (part > 0 && !done.count({'F', part - 1, i}))
            break;
          if (!done.insert({'F', part, i}).second)
            return false;
        } else if (action.kind == ActionKind::Backward) {
          if (!done.count({'F', part, i}))
            return false;
          if (part + 1 < parts && !done.count({'B', part + 1, i}))
            break;
          if (!done.insert({'B', part, i}).second)
            return false;
        } else {
          return false;
        }
      }
  }
  return done.size() == 2 * size_t(parts) * schedule.microbatches &&
         updates == schedule.ranks.size();
}

TEST(Replicas, roundRobinLists) {
  // [2, 1, 1]: warm-ups floor(3 / 2) = 1, 1 and 0.
  Schedule schedule = *roundRobinSchedule({2, 1, 1}, 4);
  EXPECT_EQ(toString(schedule), "0F0,0F2,0B0,0B2,0U\n"
                                "1F1,1F3,1B1,1B3,1U\n"
                                "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2B3,2U\n"
                                "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3U\n");
  EXPECT_EQ(schedule.parts(), 3);
  EXPECT_EQ(schedule.describe(1), "stage 1 (replica 1 of part 0)");
  EXPECT_EQ(schedule.describe(3), "stage 3");
  // Without replicas it is 1F1B.
  EXPECT_EQ(roundRobinSchedule({1, 1, 1, 1}, 7)->ranks,
            oneForwardOneBackwardSchedule({4, 7})->ranks);
}

TEST(Replicas, roundRobinIsRightForAllShapes) {
  std::mt19937 random(3);
  for (int test = 0; test < 300; ++test) {
    std::vector<int> replicas(1 + random() % 5);
    int most = 1;
    for (int &count : replicas)
      most = std::max(most, count = 1 + static_cast<int>(random() % 4));
    int microbatches = most + static_cast<int>(random() % 12);
    Result<Schedule> plain = roundRobinSchedule(replicas, microbatches);
    ASSERT_TRUE(bool(plain));
    ASSERT_TRUE(runsCorrectly(*plain, replicas)) << toString(*plain);
    Schedule schedule = completed(plain, static_cast<int>(replicas.size()));
    ASSERT_EQ(first(verifySchedule(schedule)), "") << toString(schedule);
    SlotAssignment slots = assignSlots(schedule);
    ASSERT_EQ(first(verifySlots(schedule, slots)), "");
    ASSERT_EQ(
        first(verifySchedule(schedule, {SendRule::Kind::Slots, {}, &slots})),
        "");
    std::vector<int64_t> samples(microbatches);
    for (int64_t &count : samples)
      count = 1 + random() % 5;
    ASSERT_EQ(first(verifyGradients(schedule, {samples})), "");
    ASSERT_EQ(minimalCapacity(schedule), 0);
    // Each value is sent once, or twice if both ends cross ranks.
    size_t sends = 0;
    for (const auto &rank : schedule.ranks)
      for (const Action &action : rank)
        sends += action.kind == ActionKind::Send;
    EXPECT_EQ(sends, 2 * (replicas.size() - 1) * microbatches);
  }
}

TEST(Replicas, dealtSchedulesAreRightForAllShapes) {
  std::mt19937 random(4);
  for (int test = 0; test < 200; ++test) {
    std::vector<int> replicas(1 + random() % 4);
    int most = 1;
    for (int &count : replicas)
      most = std::max(most, count = 1 + static_cast<int>(random() % 4));
    int microbatches = most + static_cast<int>(random() % 9);
    for (std::string_view name : {"1f1b", "gpipe", "inference"}) {
      bool trains = name != "inference";
      Schedule schedule = *dealtSchedule(name, replicas, microbatches);
      if (trains)
        insertDealtReductions(schedule);
      std::vector<Channel> listed =
          neighborChannels(static_cast<int>(replicas.size()), trains);
      schedule =
          *insertTransfers(schedule, replicateChannels(schedule, listed));
      ASSERT_EQ(first(verifySchedule(schedule)), "") << name;
      std::vector<int> copied = findCopiedChannels(schedule, listed);
      ASSERT_EQ(copied.size(), schedule.channels.size());
      for (size_t c = 0; c < copied.size(); ++c) {
        EXPECT_EQ(schedule.replicaOf(schedule.channels[c].from).part,
                  listed[copied[c]].from);
        EXPECT_EQ(schedule.replicaOf(schedule.channels[c].to).part,
                  listed[copied[c]].to);
      }
      if (!trains)
        continue;
      EXPECT_EQ(first(verifyGradients(schedule,
                                      {std::vector<int64_t>(microbatches, 1)})),
                "");
      // A replica that forgets to add up.
      for (std::vector<Action> &rank : schedule.ranks)
        if (std::erase_if(rank, [](const Action &action) {
              return action.isCollective();
            })) {
          EXPECT_NE(first(verifySchedule(schedule)), "") << name;
          break;
        }
    }
  }
  EXPECT_EQ(dealtSchedule("zb-h1", {2, 1}, 4).error(),
            "schedule 'zb-h1' needs the same number of replicas of all stages; "
            "with others there are 1f1b and gpipe");
  EXPECT_FALSE(bool(dealtSchedule("gpipe", {5, 1}, 4)));
}

TEST(Replicas, aroundAPipeline) {
  for (std::string_view name : scheduleNames()) {
    if (name == "inference")
      continue;
    bool isV = placementOf(name) == Placement::V;
    bool loops = placementOf(name) == Placement::Loop;
    Schedule one = *makeSchedule(name, {4, 8, isV || loops ? 2 : 4});
    Schedule two = *replicatePipeline(one, 3);
    EXPECT_EQ(two.stages, 12);
    EXPECT_EQ(two.microbatches, 24);
    Schedule schedule = completed(two, 4);
    ASSERT_EQ(first(verifySchedule(schedule)), "") << name;
    EXPECT_EQ(first(verifyGradients(schedule, {std::vector<int64_t>(24, 1)})),
              "");
    // Copies are as fast and keep as much as the original.
    one.channels = neighborChannels(4, true);
    two.channels = replicateChannels(two, one.channels);
    SimulationInput input{{{1, 1, 1, 0, 0}}, {.25}};
    EXPECT_EQ(simulate(two, input)->makespan, simulate(one, input)->makespan)
        << name;
    std::vector<int64_t> ones = peakBytes(one, {2}, {1}),
                         twos = peakBytes(two, {2}, {1});
    for (size_t rank = 0; rank < twos.size(); ++rank)
      EXPECT_EQ(twos[rank], ones[rank / 3]) << name;
    EXPECT_LE(lowerBounds(two, input).makespan, simulate(two, input)->makespan);
  }
}

TEST(Replicas, ofACompletePipeline) {
  for (std::string_view name : scheduleNames()) {
    if (name == "inference")
      continue;
    bool isV = placementOf(name) == Placement::V;
    bool loops = placementOf(name) == Placement::Loop;
    Schedule one = *makeSchedule(name, {4, 8, isV || loops ? 2 : 4});
    Schedule reduced = *insertGradientReductions(one);
    Schedule sent = *insertTransfers(reduced, neighborChannels(4, true));
    ASSERT_EQ(first(verifySchedule(sent)), "") << name;
    for (int replicas : {1, 2, 5}) {
      Schedule all = *replicatePipeline(sent, replicas);
      ASSERT_EQ(first(verifySchedule(all)), "") << name;
      SlotAssignment slots = assignSlots(all);
      ASSERT_EQ(first(verifySlots(all, slots)), "") << name;
      EXPECT_EQ(first(verifySchedule(all, {SendRule::Kind::Slots, {}, &slots})),
                "");
      EXPECT_EQ(first(verifyGradients(
                    all, {std::vector<int64_t>(8 * size_t(replicas), 1)})),
                "");
      ASSERT_EQ(all.groups.size(), 4u);
      EXPECT_EQ(all.groups[2].stages.size(), size_t(replicas));
      EXPECT_EQ(all.groups[2].stages.back(), 3 * replicas - 1);
    }
    // A copy that forgets to add up, and one that adds up too early.
    auto isReduction = [](const Action &action) {
      return action.isCollective();
    };
    Schedule faulty = *replicatePipeline(sent, 2);
    std::vector<Action> &list = faulty.ranks[1];
    auto at = std::find_if(list.begin(), list.end(), isReduction);
    Action reduction = *at;
    list.erase(at);
    EXPECT_NE(first(verifySchedule(faulty)), "") << name;
    list.insert(list.begin(), reduction);
    EXPECT_NE(first(verifySchedule(faulty)), "") << name;
  }
}

TEST(Replicas, reductionsComeAfterTheLastW) {
  Schedule one = *insertGradientReductions(*zeroBubbleH1Schedule({2, 2}));
  EXPECT_EQ(toString(one), "0F0,0F1,0I0,0W0,0I1,0W1,0REDUCE_GRAD,0U\n"
                           "1F0,1I0,1F1,1I1,1W0,1W1,1REDUCE_GRAD,1U\n");
  EXPECT_EQ(insertGradientReductions(one).error(),
            "the schedule has collectives already");
  EXPECT_EQ(insertGradientReductions(*inferenceSchedule({2, 2})).error(),
            "a schedule for inference has no gradients to add up");
}

TEST(Replicas, aSlowPartTwice) {
  // Part 0 takes 6 seconds, the others 3. Alone it sets the pace; two replicas
  // of it keep up with the others.
  SimulationInput alone{{{2, 2, 2, 0, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}},
                        {}};
  SimulationInput twice = alone;
  twice.stages.insert(twice.stages.begin(), twice.stages.front());
  Schedule one = *roundRobinSchedule({1, 1, 1}, 12);
  one.channels = neighborChannels(3, true);
  Schedule two = *roundRobinSchedule({2, 1, 1}, 12);
  two.channels = replicateChannels(two, neighborChannels(3, true));
  double before = simulate(one, alone)->makespan;
  double after = simulate(two, twice)->makespan;
  EXPECT_GE(before, 72);
  EXPECT_LT(after, 52);
  EXPECT_GE(after, lowerBounds(two, twice).makespan);
  EXPECT_EQ(lowerBounds(two, twice).makespan, 36);
}

TEST(Replicas, channelsJoinWhatHasAMicrobatchInCommon) {
  for (int a = 1; a <= 6; ++a)
    for (int b = 1; b <= 6; ++b) {
      int m = std::max(a, b) + a * b % 5;
      Schedule schedule = *roundRobinSchedule({a, b}, m);
      std::set<std::pair<int, int>> pairs, expected;
      for (const Channel &channel :
           replicateChannels(schedule, neighborChannels(2, false)))
        pairs.insert({channel.from, channel.to});
      for (int i = 0; i < m; ++i)
        expected.insert({i % a, a + i % b});
      EXPECT_EQ(pairs, expected);
    }
}

TEST(Replicas, memoryOfAReplica) {
  // A replica keeps and receives only its own micro-batches.
  Schedule schedule = completed(roundRobinSchedule({2, 1}, 4), 2);
  for (Channel &channel : schedule.channels)
    channel.bytes = 10;
  Simulation simulation = *simulate(schedule, {{{1, 1, 1, 0, 0}}, {}});
  std::vector<MemoryCurve> curves =
      memoryCurves(schedule, simulation, {{100}, {100}});
  ASSERT_EQ(curves.size(), 3u);
  // Warm-up 1: two micro-batches at most, and one gradient.
  EXPECT_LE(curves[0].peak, 2 * 100 + 100 + 10);
  for (const MemoryCurve &curve : curves)
    EXPECT_EQ(curve.steps.back().bytes, 0);
}

TEST(Replicas, faults) {
  Schedule schedule = *roundRobinSchedule({2, 1}, 4);
  Schedule moved = schedule;
  // 0F2 to the other replica.
  auto found = std::find(moved.ranks[0].begin(), moved.ranks[0].end(),
                         Action{ActionKind::Forward, 0, 2});
  moved.ranks[0].erase(found);
  moved.ranks[1].insert(moved.ranks[1].begin(), {ActionKind::Forward, 1, 2});
  EXPECT_EQ(first(verifySchedule(moved)),
            "1F2: micro-batch 2 belongs to stage 0 (replica 0 of part 0), not "
            "to stage 1 (replica 1 of part 0)");
  Schedule lost = schedule;
  lost.ranks[1].erase(lost.ranks[1].begin());
  EXPECT_EQ(first(verifySchedule(lost)), "1F1 is missing");
  Schedule twins = schedule;
  twins.replicas[1].number = 0;
  EXPECT_EQ(first(verifySchedule(twins)),
            "stage 1 is replica 0 of 2 of part 0, which has 2 stages");
  twins.replicas.pop_back();
  EXPECT_EQ(first(verifySchedule(twins)),
            "the schedule does not say of which part each stage is a replica");
  EXPECT_EQ(roundRobinSchedule({2, 3}, 2).error(),
            "replica 2 of part 1 has nothing to do: there are only 2 "
            "micro-batches");
  EXPECT_EQ(roundRobinSchedule({2, 0}, 2).error(),
            "part 1 cannot have 0 replicas; expected 1 to 65536");
  EXPECT_NE(roundRobinSchedule({}, 2).error(), "");
  EXPECT_EQ(replicatePipeline(schedule, 2).error(),
            "the schedule has replicas already");
  EXPECT_NE(replicatePipeline(schedule, 0).error(), "");
}

} // namespace
