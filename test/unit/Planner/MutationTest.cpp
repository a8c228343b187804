//===- MutationTest.cpp - The verifier against an independent oracle ------===//
//
// Good schedules are damaged; whatever the verifier accepts must run correctly
// in an interpreter that shares no code with it, under rendezvous sends, and
// whatever runs correctly must be accepted.
//
//===----------------------------------------------------------------------===//
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Verify.h"
#include "gtest/gtest.h"
#include <map>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

/// Runs a training schedule action by action on tokens. True if every action
/// found what it needed, no more and no less than the work of a step was done,
/// and no rank was left waiting.
bool runsCorrectly(const Schedule &schedule) {
  using Token = std::tuple<char, int, int>; // Phase, stage, micro-batch.
  std::set<Token> done;
  std::set<std::pair<int, int>> sent, received, recomputed;
  std::set<int> updated;
  std::vector<size_t> at(schedule.ranks.size(), 0);

  auto compute = [&](const Action &action) {
    int s = action.stage, i = action.microbatch;
    if (updated.count(s))
      return false;
    std::string phases;
    switch (action.kind) {
    case ActionKind::Forward:
      phases = "F";
      break;
    case ActionKind::BackwardInput:
      phases = "I";
      break;
    case ActionKind::BackwardWeight:
      phases = "W";
      break;
    case ActionKind::Backward:
      phases = "IW";
      break;
    case ActionKind::Recompute:
      return done.count({'F', s, i}) && !done.count({'I', s, i}) &&
             recomputed.insert({s, i}).second;
    default:
      return false;
    }
    for (char phase : phases) {
      if (phase != 'F' && !done.count({'F', s, i}))
        return false;
      if (phase == 'W' && !done.count({'I', s, i}))
        return false;
      for (size_t c = 0; c < schedule.channels.size(); ++c) {
        const Channel &channel = schedule.channels[c];
        char reads = "FIW"[int(channel.toPhase)];
        if (channel.to == s && reads == phase && !received.count({int(c), i}))
          return false;
      }
      if (!done.insert({phase, s, i}).second)
        return false;
    }
    return true;
  };

  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      if (at[rank] == schedule.ranks[rank].size())
        continue;
      const Action &action = schedule.ranks[rank][at[rank]];
      if (action.kind == ActionKind::Update) {
        for (int i = 0; i < schedule.microbatches; ++i)
          if (!done.count({'W', action.stage, i}))
            return false;
        if (!updated.insert(action.stage).second)
          return false;
      } else if (action.kind == ActionKind::Send) {
        // Both ends move, or neither.
        const Channel &channel = schedule.channels[action.channel];
        char made = "FIW"[int(channel.fromPhase)];
        if (!done.count({made, action.stage, action.microbatch}) ||
            updated.count(action.stage))
          return false;
        size_t other = schedule.rankOfStage[channel.to];
        if (at[other] == schedule.ranks[other].size())
          continue;
        const Action &receive = schedule.ranks[other][at[other]];
        if (receive.kind != ActionKind::Receive ||
            receive.channel != action.channel)
          continue;
        if (receive.microbatch != action.microbatch)
          return false;
        if (!sent.insert({action.channel, action.microbatch}).second)
          return false;
        received.insert({action.channel, action.microbatch});
        ++at[other];
      } else if (action.kind == ActionKind::Receive) {
        continue;
      } else if (!compute(action)) {
        return false;
      }
      ++at[rank];
      moved = true;
    }
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    if (at[rank] != schedule.ranks[rank].size())
      return false;
  size_t cells = size_t(schedule.stages) * schedule.microbatches;
  return done.size() == 3 * cells &&
         updated.size() == size_t(schedule.stages) &&
         sent.size() == schedule.channels.size() * schedule.microbatches;
}

TEST(Mutation, verifierAgreesWithTheOracle) {
  int mutants = 0, survivors = 0;
  for (unsigned seed = 0; seed < 12000; ++seed) {
    std::mt19937 random(seed);
    int p = 2 + random() % 3, m = 1 + random() % 4;
    Schedule schedule = *makeSchedule(random() % 2 ? "gpipe" : "1f1b", {p, m});
    insertRecompute(schedule, static_cast<CheckpointMode>(random() % 3));
    std::vector<Channel> channels = neighborChannels(p, true);
    if (p > 2 && random() % 2)
      channels.push_back({0, p - 1, Phase::Forward, Phase::Forward,
                          Phase::Forward, "skip", 1});
    schedule = *insertTransfers(schedule, channels);
    ASSERT_TRUE(runsCorrectly(schedule)) << toString(schedule);
    ASSERT_TRUE(verifySchedule(schedule).empty());
    std::vector<Action> &rank = schedule.ranks[random() % p];
    for (int changes = 1 + random() % 2; changes && !rank.empty(); --changes) {
      size_t i = random() % rank.size(), j = random() % rank.size();
      switch (random() % 5) {
      case 0:
        rank.erase(rank.begin() + i);
        break;
      case 1: {
        Action copy = rank[i];
        rank.insert(rank.begin() + j, copy);
        break;
      }
      case 2:
        std::swap(rank[i], rank[j]);
        break;
      case 3:
        if (i + 1 < rank.size())
          std::swap(rank[i], rank[i + 1]);
        break;
      case 4:
        if (rank[i].microbatch >= 0)
          rank[i].microbatch = random() % m;
        break;
      }
    }
    ++mutants;
    bool accepted = verifySchedule(schedule).empty();
    bool runs = runsCorrectly(schedule);
    survivors += runs;
    ASSERT_EQ(accepted, runs)
        << "seed " << seed << "\n"
        << toString(schedule)
        << (accepted ? "" : verifySchedule(schedule).front());
  }
  RecordProperty("mutants", mutants);
  RecordProperty("survivors", survivors);
  EXPECT_GT(survivors, 100);
}

} // namespace
