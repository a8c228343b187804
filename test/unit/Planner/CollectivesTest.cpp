//===- CollectivesTest.cpp - What ranks add up together -------------------===//
#include "pp/Planner/Schedule/Collectives.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Simulator.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace pp::planner;

namespace {

std::string first(const std::vector<std::string> &faults) {
  return faults.empty() ? "" : faults.front();
}

Action reduce(int stage, int group) {
  Action action{ActionKind::ReduceGradients, stage};
  action.group = group;
  return action;
}
Action allReduce(int stage, int group) {
  Action action{ActionKind::AllReduce, stage};
  action.group = group;
  return action;
}

TEST(Collectives, places) {
  Schedule schedule =
      *insertCollectives(*roundRobinSchedule({2, 1, 2}, 2),
                         {{10, 20, 30}, {{"embedding", {0, 2}, 7}}, true});
  ASSERT_EQ(schedule.groups.size(), 4u);
  EXPECT_EQ(
      schedule.groups[0],
      (RankGroup{
          "gradients of part 2", RankGroup::Kind::Gradients, {3, 4}, 30}));
  EXPECT_EQ(
      schedule.groups[1],
      (RankGroup{
          "gradients of part 0", RankGroup::Kind::Gradients, {0, 1}, 10}));
  EXPECT_EQ(schedule.groups[2],
            (RankGroup{
                "embedding", RankGroup::Kind::TiedGradients, {0, 1, 3, 4}, 7}));
  EXPECT_EQ(
      schedule.groups[3],
      (RankGroup{
          "norm", RankGroup::Kind::Norm, {0, 1, 2, 3, 4}, sizeof(float)}));
  std::string text = toString(schedule);
  EXPECT_EQ(text, "0F0,0B0,0REDUCE_GRAD,0ALLREDUCE#2,0ALLREDUCE#3,0U\n"
                  "1F1,1B1,1REDUCE_GRAD,1ALLREDUCE#2,1ALLREDUCE#3,1U\n"
                  "2F0,2F1,2B0,2B1,2ALLREDUCE#3,2U\n"
                  "3F0,3B0,3REDUCE_GRAD,3ALLREDUCE#2,3ALLREDUCE#3,3U\n"
                  "4F1,4B1,4REDUCE_GRAD,4ALLREDUCE#2,4ALLREDUCE#3,4U\n");
  Result<Schedule> read = parseSchedule(text, {}, schedule.groups);
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->ranks, schedule.ranks);
  EXPECT_EQ(toString(*read), text);
  // Nothing to add up.
  EXPECT_TRUE(
      insertCollectives(*gpipeSchedule({3, 2}), {{10}})->groups.empty());
}

TEST(Collectives, notationErrors) {
  auto error = [](const char *text, std::vector<RankGroup> groups) {
    Result<Schedule> read = parseSchedule(text, {}, std::move(groups));
    return read ? std::string() : read.error();
  };
  RankGroup group{"g", RankGroup::Kind::Gradients, {0, 1}, 1};
  EXPECT_EQ(error("0REDUCE_GRAD", {}),
            "line 1, field 1: '0REDUCE_GRAD': no replicas of the stage add up "
            "their gradients");
  EXPECT_EQ(error("0F0,0ALLREDUCE#1", {group}),
            "line 1, field 2: '0ALLREDUCE#1': there is no such group of ranks");
  EXPECT_NE(error("0ALLREDUCE", {group}), "");
  EXPECT_NE(error("0ALLREDUCE#", {group}), "");
  EXPECT_NE(error("0REDUCE_GRAD1", {group}), "");
  EXPECT_EQ(error("0REDUCE_GRAD\n1REDUCE_GRAD\n", {group}), "");
}

TEST(Collectives, pytorchNotation) {
  Schedule schedule = *insertCollectives(
      *insertTransfers(*replicatePipeline(*zeroBubbleH1Schedule({3, 4}), 2),
                       {}),
      {{10}});
  Result<std::string> text = exportPyTorchSchedule(schedule);
  ASSERT_TRUE(bool(text)) << text.error();
  EXPECT_NE(text->find("0REDUCE_GRAD"), std::string::npos);
  Result<ImportedSchedule> read =
      importPyTorchSchedule(*text, {}, schedule.groups);
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->schedule.ranks, schedule.ranks);
  // Without groups they are skipped, as before.
  Result<ImportedSchedule> plain = importPyTorchSchedule(*text);
  ASSERT_TRUE(bool(plain));
  EXPECT_EQ(plain->notes.front().find("6 actions that shard"), 0u);
  Schedule norm = *insertCollectives(*gpipeSchedule({2, 2}), {{}, {}, true});
  EXPECT_NE(exportPyTorchSchedule(norm).error().find("0ALLREDUCE#0"),
            std::string::npos);
}

TEST(Collectives, ringTime) {
  Cluster cluster = Cluster::cpuCores(4);
  cluster.defaultLink = {100, .5};
  cluster.groups.clear();
  cluster.groupOf.clear();
  // 6 messages of 200 bytes at 100 bytes per second.
  EXPECT_DOUBLE_EQ(ringAllReduceTime(cluster, {0, 1, 2, 3}, 800), 6 * 2.5);
  EXPECT_EQ(ringAllReduceTime(cluster, {2}, 800), 0);
  EXPECT_EQ(ringAllReduceTime(cluster, {0, 1}, 0), 0);
  // The slowest link of the ring counts, also that back to the first.
  cluster.links[{3, 0}] = {50, .5};
  EXPECT_DOUBLE_EQ(ringAllReduceTime(cluster, {0, 1, 2, 3}, 800), 6 * 4.5);
  EXPECT_DOUBLE_EQ(ringAllReduceTime(cluster, {0, 1, 2}, 600), 4 * 2.5);
}

TEST(Collectives, allMembersMeet) {
  // Replicas with times 1 and 3: the fast one waits.
  Schedule schedule =
      *insertCollectives(*roundRobinSchedule({2}, 2), {{10}, {}, true});
  SimulationInput input{{{1, 1, 1, 0, .5}, {3, 3, 3, 0, .5}}, {}};
  input.collectives = {2, .25};
  Simulation simulation = *simulate(schedule, input);
  const std::vector<TimedAction> &fast = simulation.ranks[0];
  EXPECT_EQ(toString(fast[2].action, {}), "0REDUCE_GRAD");
  EXPECT_DOUBLE_EQ(fast[2].start, 3);
  EXPECT_DOUBLE_EQ(fast[2].end, 11);
  EXPECT_DOUBLE_EQ(fast[3].end, 11.25);
  EXPECT_DOUBLE_EQ(fast[4].end, 11.75);
  EXPECT_DOUBLE_EQ(simulation.makespan, 11.75);
  // Not work.
  EXPECT_DOUBLE_EQ(simulation.summary[0].busy, 3.5);
  input.collectives = {1, 2, 3};
  EXPECT_EQ(simulate(schedule, input).error(),
            "there are times for 3 groups, not 2");
}

TEST(Collectives, sharedLinksAgree) {
  // Links that carry one channel each delay nothing.
  Schedule schedule = *roundRobinSchedule({2, 1, 2}, 6);
  schedule = *insertCollectives(
      *insertTransfers(schedule,
                       replicateChannels(schedule, neighborChannels(3, true))),
      {{10}, {{"tied", {0, 2}, 5}}, true});
  SimulationInput input{{{1, 2, 1, 0, .5}}, {.25}};
  input.collectives = {1, 2, 3, .5};
  Simulation alone = *simulate(schedule, input);
  for (size_t c = 0; c < schedule.channels.size(); ++c)
    input.linkOfChannel.push_back(static_cast<int>(c));
  Simulation shared = *simulate(schedule, input);
  EXPECT_EQ(alone.makespan, shared.makespan);
  for (size_t rank = 0; rank < alone.ranks.size(); ++rank) {
    ASSERT_EQ(alone.ranks[rank].size(), shared.ranks[rank].size());
    for (size_t i = 0; i < alone.ranks[rank].size(); ++i) {
      EXPECT_EQ(alone.ranks[rank][i].action, shared.ranks[rank][i].action);
      EXPECT_EQ(alone.ranks[rank][i].end, shared.ranks[rank][i].end);
    }
  }
}

/// Ranks 0 and 1 share stages 0, 2 and 1, 3; parts 2 and 3 are tied.
Schedule interleavedTied(bool naive) {
  Schedule schedule = *insertTransfers(*interleavedSchedule({4, 4, 2}),
                                       neighborChannels(4, true));
  if (!naive)
    return *insertCollectives(schedule, {{}, {{"embedding", {2, 3}, 8}}, true});
  // Directly after the last B, before its SEND.
  schedule.groups = {{"embedding", RankGroup::Kind::TiedGradients, {2, 3}, 8}};
  for (int stage : {2, 3}) {
    std::vector<Action> &rank = schedule.ranks[stage - 2];
    size_t last = 0;
    for (size_t i = 0; i < rank.size(); ++i)
      if (rank[i].stage == stage && rank[i].performs(Phase::BackwardWeight))
        last = i;
    rank.insert(rank.begin() + last + 1, allReduce(stage, 0));
  }
  return schedule;
}

TEST(Collectives, waitForWorkThatOthersNeed) {
  std::string fault = first(verifySchedule(interleavedTied(true)));
  EXPECT_EQ(fault.find("deadlock:"), 0u) << fault;
  EXPECT_NE(fault.find("3ALLREDUCE#0 for rank 0 to reach 2ALLREDUCE#0"),
            std::string::npos)
      << fault;
  EXPECT_NE(fault.find("--3ALLREDUCE#0--> rank 0"), std::string::npos) << fault;
  Schedule schedule = interleavedTied(false);
  EXPECT_EQ(first(verifySchedule(schedule)), "") << toString(schedule);
  // Not only at the end: rank 0 still has work for stage 0 behind it.
  const std::vector<Action> &rank = schedule.ranks[0];
  auto at = std::find(rank.begin(), rank.end(), allReduce(2, 0));
  ASSERT_NE(at, rank.end());
  EXPECT_TRUE(std::any_of(at, rank.end(), [](const Action &action) {
    return action.kind == ActionKind::Backward;
  })) << toString(schedule);
}

TEST(Collectives, everyScheduleAndTie) {
  std::mt19937 random(23);
  for (std::string_view name : scheduleNames())
    for (int test = 0; test < 12 && name != "inference"; ++test) {
      bool one = placementOf(name) == Placement::OnePerRank;
      int replicas = 1 + static_cast<int>(random() % 3);
      Schedule schedule = *replicatePipeline(
          *makeSchedule(
              name, {4, 4 + static_cast<int>(random() % 3) * 2, one ? 4 : 2}),
          replicas);
      std::vector<Channel> channels = neighborChannels(4, true);
      if (random() % 2)
        channels.push_back({0, 3, Phase::Forward, Phase::Forward,
                            Phase::BackwardWeight, "skip", 4});
      schedule =
          *insertTransfers(schedule, replicateChannels(schedule, channels));
      CollectiveOptions options{{16}, {}, random() % 2 == 0};
      for (int tie = 0; tie < static_cast<int>(random() % 4); ++tie) {
        int a = static_cast<int>(random() % 3);
        int b = a + 1 + static_cast<int>(random() % (3 - a));
        options.tied.push_back({"tied" + std::to_string(tie), {a, b}, 8});
      }
      Result<Schedule> result = insertCollectives(schedule, options);
      ASSERT_TRUE(bool(result)) << name << ": " << result.error();
      ASSERT_EQ(first(verifySchedule(*result)), "") << name << "\n"
                                                    << toString(*result);
      Result<Schedule> read =
          parseSchedule(toString(*result), result->channels, result->groups);
      ASSERT_TRUE(bool(read)) << read.error();
      EXPECT_EQ(read->ranks, result->ranks);
    }
}

/// Independent of the planner's code: sends wait for their receives, and ranks
/// of a group for each other. Computations need nothing: the order is taken to
/// be right.
bool completes(const Schedule &schedule) {
  std::vector<size_t> at(schedule.ranks.size(), 0);
  auto head = [&](size_t rank) -> const Action * {
    return at[rank] < schedule.ranks[rank].size()
               ? &schedule.ranks[rank][at[rank]]
               : nullptr;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < at.size(); ++rank) {
      const Action *action = head(rank);
      if (!action || action->kind == ActionKind::Receive)
        continue;
      if (action->kind == ActionKind::Send) {
        int stage = schedule.channels[action->channel].to;
        size_t other = schedule.rankOfStage[stage];
        const Action *receive = head(other);
        if (!receive || receive->kind != ActionKind::Receive ||
            receive->channel != action->channel)
          continue;
        ++at[other];
      } else if (action->isCollective()) {
        std::vector<size_t> members;
        for (int stage : schedule.groups[action->group].stages)
          members.push_back(schedule.rankOfStage[stage]);
        std::sort(members.begin(), members.end());
        members.erase(std::unique(members.begin(), members.end()),
                      members.end());
        int group = action->group;
        if (!std::all_of(members.begin(), members.end(), [&](size_t member) {
              return head(member) && head(member)->group == group;
            }))
          continue;
        for (size_t member : members)
          at[member] += member != rank;
      }
      ++at[rank];
      moved = true;
    }
  }
  for (size_t rank = 0; rank < at.size(); ++rank)
    if (head(rank))
      return false;
  return true;
}

TEST(Collectives, deadlocksAgainstAnInterpreter) {
  std::mt19937 random(31);
  int good = 0, bad = 0;
  for (int test = 0; test < 1500; ++test) {
    bool loop = random() % 2;
    Schedule one = loop ? *interleavedSchedule({4, 4, 2})
                        : *oneForwardOneBackwardSchedule({4, 4});
    int replicas = 1 + static_cast<int>(random() % 2);
    Schedule schedule = *replicatePipeline(one, replicas);
    schedule = *insertTransfers(
        schedule, replicateChannels(schedule, neighborChannels(4, true)));
    schedule = *insertCollectives(
        schedule,
        {{}, {{"a", {0, 3}, 1}, {"b", {1, 2}, 1}, {"c", {2, 3}, 1}}, false});
    // Collectives anywhere between the last W of the rank's stages and U.
    for (std::vector<Action> &rank : schedule.ranks) {
      if (random() % 2)
        continue;
      std::vector<Action> found, rest;
      for (const Action &action : rank)
        (action.isCollective() ? found : rest).push_back(action);
      std::shuffle(found.begin(), found.end(), random);
      size_t last = 0, updates = 0;
      for (const Action &action : found) {
        const std::vector<int> &members = schedule.groups[action.group].stages;
        last = 0;
        updates = rest.size();
        for (size_t i = 0; i < rest.size(); ++i) {
          if (rest[i].performs(Phase::BackwardWeight) &&
              std::count(members.begin(), members.end(), rest[i].stage))
            last = i + 1;
          if (rest[i].kind == ActionKind::Update)
            updates = std::min(updates, i);
        }
        size_t place =
            last + random() % std::min<size_t>(updates - last + 1, 3);
        rest.insert(rest.begin() + place, action);
      }
      rank = std::move(rest);
    }
    bool right = completes(schedule);
    ASSERT_EQ(first(verifySchedule(schedule)).empty(), right)
        << first(verifySchedule(schedule)) << "\n"
        << toString(schedule);
    ++(right ? good : bad);
  }
  EXPECT_GT(good, 200);
  EXPECT_GT(bad, 200);
}

TEST(Collectives, faults) {
  Schedule good = *insertCollectives(*roundRobinSchedule({2, 2}, 2),
                                     {{1}, {{"t", {0, 1}, 1}}, true});
  // 0F0 0B0 0REDUCE_GRAD 0ALLREDUCE#2 0ALLREDUCE#3 0U
  ASSERT_EQ(first(verifySchedule(good)), "");
  Schedule crossed = good;
  std::swap(crossed.ranks[1][2], crossed.ranks[1][3]);
  EXPECT_EQ(first(verifySchedule(crossed)),
            "rank 0 runs 0REDUCE_GRAD before 0ALLREDUCE#2, but rank 1 runs "
            "1ALLREDUCE#2 before 1REDUCE_GRAD (groups 'gradients of part 0' "
            "and 't')");
  Schedule early = good;
  std::swap(early.ranks[0][1], early.ranks[0][2]);
  EXPECT_EQ(first(verifySchedule(early)), "0B0 comes after 0REDUCE_GRAD");
  Schedule late = good;
  std::swap(late.ranks[0][4], late.ranks[0][5]);
  EXPECT_EQ(first(verifySchedule(late)), "0ALLREDUCE#3 comes after 0U");
  Schedule norm = good;
  for (std::vector<Action> &rank : norm.ranks)
    std::swap(rank[3], rank[4]);
  EXPECT_EQ(first(verifySchedule(norm)),
            "0ALLREDUCE#2 comes after 0ALLREDUCE#3");
  Schedule missing = good;
  missing.ranks[1].erase(missing.ranks[1].begin() + 2);
  EXPECT_EQ(first(verifySchedule(missing)),
            "1REDUCE_GRAD is missing on rank 1, which is in group 'gradients "
            "of part 0'");
  Schedule twice = good;
  twice.ranks[1].insert(twice.ranks[1].begin() + 2, twice.ranks[1][2]);
  EXPECT_EQ(first(verifySchedule(twice)), "1REDUCE_GRAD is on rank 1 twice");
  Schedule foreign = good;
  foreign.ranks[0].insert(foreign.ranks[0].begin() + 2, reduce(0, 0));
  EXPECT_EQ(first(verifySchedule(foreign)),
            "0REDUCE_GRAD: stage 0 (replica 0 of part 0) is not in group "
            "'gradients of part 1'");
  Schedule kind = good;
  kind.ranks[0][2].group = 2;
  EXPECT_EQ(first(verifySchedule(kind)),
            "0REDUCE_GRAD is not the collective of group 't'");
  kind.ranks[0][2].group = 9;
  EXPECT_NE(first(verifySchedule(kind)).find("does not exist"),
            std::string::npos);
  Schedule shape = good;
  shape.groups[0].stages = {3, 2};
  EXPECT_NE(first(verifySchedule(shape)).find("ascending"), std::string::npos);
}

TEST(Collectives, threeInACircle) {
  // No two ranks cross, but all three wait.
  Schedule schedule = *gpipeSchedule({3, 1});
  schedule.groups = {{"a", RankGroup::Kind::TiedGradients, {0, 1}, 1},
                     {"b", RankGroup::Kind::TiedGradients, {1, 2}, 1},
                     {"c", RankGroup::Kind::TiedGradients, {0, 2}, 1}};
  int orders[3][2] = {{0, 2}, {1, 0}, {2, 1}};
  for (int rank = 0; rank < 3; ++rank)
    for (int group : {orders[rank][0], orders[rank][1]})
      schedule.ranks[rank].insert(schedule.ranks[rank].end() - 1,
                                  allReduce(rank, group));
  std::string fault = first(verifySchedule(schedule));
  EXPECT_EQ(fault.find("deadlock: rank 0 waits in 0ALLREDUCE#0 for rank 1 to "
                       "reach 1ALLREDUCE#0; rank 1 waits in 1ALLREDUCE#1"),
            0u)
      << fault;
  EXPECT_NE(fault.find("--0ALLREDUCE#0--> rank 1 --1ALLREDUCE#1--> rank 2 "
                       "--2ALLREDUCE#2--> rank 0"),
            std::string::npos)
      << fault;
}

TEST(Collectives, inputs) {
  auto error = [](const Schedule &schedule, const CollectiveOptions &options) {
    Result<Schedule> result = insertCollectives(schedule, options);
    return result ? std::string() : result.error();
  };
  EXPECT_EQ(error(*inferenceSchedule({2, 2}), {}),
            "a schedule for inference has no gradients to add up");
  Schedule schedule = *roundRobinSchedule({2, 1}, 2);
  EXPECT_EQ(error(schedule, {{1, 2, 3}}),
            "there are bytes of gradients for 3 parts, not 2");
  for (const std::vector<int> &parts :
       {std::vector<int>{0}, {1, 0}, {0, 2}, {-1, 0}, {1, 1}})
    EXPECT_EQ(error(schedule, {{}, {{"t", parts, 1}}}),
              "the tied parameter 't' does not list two or more parts in "
              "ascending order");
  EXPECT_EQ(error(*insertCollectives(schedule, {}), {}),
            "the schedule has collectives already");
  std::swap(schedule.ranks[0][0], schedule.ranks[0][1]);
  schedule.channels = replicateChannels(schedule, neighborChannels(2, true));
  EXPECT_EQ(error(schedule, {}).find("deadlock:"), 0u);
}

TEST(Collectives, thousandRanks) {
  Schedule schedule = *insertCollectives(
      *replicatePipeline(*oneForwardOneBackwardSchedule({16, 32}), 64),
      {{1 << 20}, {}, true});
  EXPECT_EQ(first(verifySchedule(schedule)), "");
  EXPECT_EQ(schedule.groups.size(), 17u);
  EXPECT_TRUE(bool(simulate(schedule, {{{1, 1, 1, 0, 0}}, {}})));
}

} // namespace
