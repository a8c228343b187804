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
#include <deque>
#include <map>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

/// Runs a training schedule action by action on tokens. True if every action
/// found what it needed, no more and no less than the work of a step was done,
/// and no rank was left waiting.
/// A channel holds `capacity` values on the way; 0 is a rendezvous.
bool runsCorrectly(const Schedule &schedule, int capacity) {
  using Token = std::tuple<char, int, int>; // Phase, stage, micro-batch.
  std::set<Token> done;
  std::set<std::pair<int, int>> sent, received, recomputed;
  std::set<int> updated;
  std::vector<size_t> at(schedule.ranks.size(), 0);
  std::map<int, std::deque<int>> onTheWay; // Channel: micro-batches.
  size_t crossing = 0;
  for (const Channel &channel : schedule.channels)
    crossing +=
        schedule.rankOfStage[channel.from] != schedule.rankOfStage[channel.to];

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
        bool local = schedule.rankOfStage[channel.from] ==
                     schedule.rankOfStage[channel.to];
        Token made{"FIW"[int(channel.fromPhase)], channel.from, i};
        if (channel.to == s && reads == phase &&
            !(local ? done.count(made) : received.count({int(c), i})))
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
      if (schedule.rankOfStage[action.stage] != static_cast<int>(rank))
        return false;
      if (action.kind == ActionKind::Update) {
        for (int i = 0; i < schedule.microbatches; ++i)
          if (!done.count({'W', action.stage, i}))
            return false;
        if (!updated.insert(action.stage).second)
          return false;
      } else if (action.kind == ActionKind::Send) {
        const Channel &channel = schedule.channels[action.channel];
        size_t other = schedule.rankOfStage[channel.to];
        char made = "FIW"[int(channel.fromPhase)];
        if (channel.from != action.stage || other == rank ||
            !done.count({made, action.stage, action.microbatch}) ||
            updated.count(action.stage) ||
            sent.count({action.channel, action.microbatch}))
          return false;
        std::deque<int> &queue = onTheWay[action.channel];
        if (capacity > 0) {
          if (queue.size() >= size_t(capacity))
            continue;
          queue.push_back(action.microbatch);
        } else {
          // Both ends move, or neither.
          if (at[other] == schedule.ranks[other].size())
            continue;
          const Action &receive = schedule.ranks[other][at[other]];
          if (receive.kind != ActionKind::Receive ||
              receive.channel != action.channel)
            continue;
          if (receive.microbatch != action.microbatch ||
              receive.stage != channel.to)
            return false;
          received.insert({action.channel, action.microbatch});
          ++at[other];
        }
        sent.insert({action.channel, action.microbatch});
      } else if (action.kind == ActionKind::Receive) {
        const Channel &channel = schedule.channels[action.channel];
        if (channel.to != action.stage)
          return false;
        std::deque<int> &queue = onTheWay[action.channel];
        if (queue.empty())
          continue;
        if (queue.front() != action.microbatch)
          return false;
        queue.pop_front();
        received.insert({action.channel, action.microbatch});
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
         sent.size() == crossing * schedule.microbatches &&
         received.size() == sent.size();
}

/// A verified schedule of a random kind and shape, for sends that wait for
/// their receives.
Schedule randomSchedule(std::mt19937 &random) {
  constexpr const char *oneStage[] = {"gpipe", "1f1b", "eager-1f1b", "zb-h1",
                                      "zb-h2"};
  constexpr const char *twoStages[] = {"zb-v", "v-half", "v-min",
                                       "interleaved"};
  int p = 2 + random() % 3, m = 1 + random() % 4;
  bool folded = random() % 4 == 0;
  int stages = folded ? 2 * p : p;
  Schedule schedule =
      *makeSchedule(folded ? twoStages[random() % 4] : oneStage[random() % 5],
                    {stages, m, p});
  insertRecompute(schedule, static_cast<CheckpointMode>(random() % 3));
  std::vector<Channel> channels = neighborChannels(stages, true);
  if (stages > 2 && random() % 2)
    channels.push_back({0, stages - 1, Phase::Forward, Phase::Forward,
                        Phase::Forward, "skip", 1});
  return *insertTransfers(schedule, channels);
}

void mutate(Schedule &schedule, std::mt19937 &random) {
  int m = schedule.microbatches;
  std::vector<Action> &rank = schedule.ranks[random() % schedule.ranks.size()];
  if (rank.empty())
    return;
  size_t i = random() % rank.size(), j = random() % rank.size();
  switch (random() % 7) {
  case 0: // Dropped.
    rank.erase(rank.begin() + i);
    break;
  case 1: { // Doubled.
    Action copy = rank[i];
    rank.insert(rank.begin() + j, copy);
    break;
  }
  case 2: // Swapped.
    std::swap(rank[i], rank[j]);
    break;
  case 3:
    if (i + 1 < rank.size())
      std::swap(rank[i], rank[i + 1]);
    break;
  case 4: // Retargeted.
    if (rank[i].microbatch >= 0)
      rank[i].microbatch = random() % m;
    break;
  case 5:
    rank[i].stage = random() % schedule.stages;
    break;
  case 6:
    if (rank[i].isTransfer())
      rank[i].channel = random() % schedule.channels.size();
    break;
  }
}

TEST(Mutation, verifierAgreesWithTheOracle) {
  int mutants = 0, survivors = 0;
  for (unsigned seed = 0; seed < 12000; ++seed) {
    std::mt19937 random(seed);
    Schedule schedule = randomSchedule(random);
    int capacity = random() % 3;
    SendRule rule{SendRule::Kind::Buffered, {capacity}, nullptr};
    ASSERT_TRUE(runsCorrectly(schedule, capacity)) << toString(schedule);
    ASSERT_TRUE(verifySchedule(schedule, rule).empty());
    for (int changes = 1 + random() % 2; changes; --changes)
      mutate(schedule, random);
    ++mutants;
    std::vector<std::string> faults = verifySchedule(schedule, rule);
    bool runs = runsCorrectly(schedule, capacity);
    survivors += runs;
    ASSERT_EQ(faults.empty(), runs)
        << "seed " << seed << "\n"
        << toString(schedule) << (faults.empty() ? "" : faults.front());
  }
  RecordProperty("mutants", mutants);
  RecordProperty("survivors", survivors);
  EXPECT_GT(survivors, 100);
}

/// The same schedule on channels of less and less room: it must be found to
/// hang exactly where it does.
TEST(Mutation, shrunkChannels) {
  int hanging = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    Schedule schedule = randomSchedule(random);
    // Receives as late as possible: room is needed.
    for (std::vector<Action> &rank : schedule.ranks)
      for (int pass = 0; pass < 3; ++pass)
        for (size_t i = 0; i + 1 < rank.size(); ++i)
          if (rank[i].kind == ActionKind::Receive &&
              rank[i + 1].stage == rank[i].stage &&
              rank[i + 1].microbatch != rank[i].microbatch &&
              rank[i + 1].kind != ActionKind::Receive &&
              rank[i + 1].kind != ActionKind::Update)
            std::swap(rank[i], rank[i + 1]);
    for (int capacity : {3, 2, 1, 0}) {
      SendRule rule{SendRule::Kind::Buffered, {capacity}, nullptr};
      bool runs = runsCorrectly(schedule, capacity);
      ASSERT_EQ(verifySchedule(schedule, rule).empty(), runs)
          << "seed " << seed << " capacity " << capacity << "\n"
          << toString(schedule);
      hanging += !runs;
    }
  }
  EXPECT_GT(hanging, 100);
}

} // namespace
