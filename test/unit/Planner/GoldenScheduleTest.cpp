//===- GoldenScheduleTest.cpp - Schedules that interleave and split -------===//
//
// Orders and numbers are those of the publications that Generators.h names,
// and those that every generator promises.
//
//===----------------------------------------------------------------------===//
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Simulator.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <map>

using namespace pp::planner;

namespace {

/// A generator with the number of chunks per rank.
struct Kind {
  std::string_view name;
  int chunks;
};

Result<Schedule> make(const Kind &kind, int ranks, int microbatches) {
  return makeSchedule(kind.name, {ranks * kind.chunks, microbatches, ranks});
}

std::string join(const std::vector<std::string> &errors) {
  std::string text;
  for (const std::string &error : errors)
    text += error + "\n";
  return text;
}

/// The most chunks that each rank keeps, from F to the end of the backward.
std::vector<int> peaks(const Schedule &schedule) {
  std::vector<int> result;
  for (const std::vector<Action> &rank : schedule.ranks) {
    int kept = 0, most = 0;
    for (const Action &action : rank) {
      kept += action.performs(Phase::Forward);
      most = std::max(most, kept);
      kept -= action.performs(Phase::BackwardWeight);
    }
    result.push_back(most);
  }
  return result;
}

/// What Generators.h says of all schedules.
void expectPromises(const Schedule &schedule) {
  std::map<int, int> next;
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank) {
      EXPECT_FALSE(action.isTransfer());
      if (action.performs(Phase::BackwardWeight)) {
        EXPECT_EQ(next[action.stage]++, action.microbatch)
            << toString(schedule);
      }
    }
}

/// Right without transfers, and with them even if sends are rendezvous.
void expectProven(const Schedule &schedule) {
  Schedule silent = schedule;
  silent.channels = neighborChannels(schedule.stages, schedule.isTraining());
  EXPECT_EQ(join(verifySchedule(silent)), "") << toString(silent);
  Result<Schedule> sending = insertTransfers(schedule, silent.channels);
  ASSERT_TRUE(bool(sending)) << sending.error();
  EXPECT_EQ(join(verifySchedule(*sending)), "") << toString(*sending);
  EXPECT_EQ(minimalCapacity(*sending), 0);
  SlotAssignment slots = assignSlots(*sending);
  SendRule rule{SendRule::Kind::Slots, {}, &slots};
  EXPECT_EQ(join(verifySchedule(*sending, rule)), "") << toString(*sending);
  for (const std::vector<Action> &rank : sending->ranks)
    for (const Action &action : rank)
      if (action.isTransfer()) {
        EXPECT_TRUE(sending->crossesRanks(sending->channels[action.channel]));
      }
}

/// What fits p ranks.
int leastMicrobatches(std::string_view name, int p) {
  return name == "dualpipev" ? 2 * p : 1;
}

/// The numbers of chunks per rank to try a schedule with.
std::vector<int> chunksOf(std::string_view name) {
  switch (*placementOf(name)) {
  case Placement::OnePerRank:
    return {1};
  case Placement::Loop:
    return {1, 2, 3};
  case Placement::V:
    return {2};
  }
  return {};
}

TEST(GoldenSchedule, allAreProven) {
  for (std::string_view name : scheduleNames())
    for (int chunks : chunksOf(name))
      for (int p = 1; p <= 8; ++p)
        for (int m = leastMicrobatches(name, p); m <= 20; ++m) {
          SCOPED_TRACE(std::string(name) + " p=" + std::to_string(p) +
                       " m=" + std::to_string(m));
          Result<Schedule> schedule = make({name, chunks}, p, m);
          ASSERT_TRUE(bool(schedule)) << schedule.error();
          expectPromises(*schedule);
          expectProven(*schedule);
        }
}

struct Golden {
  int p, m;
  double makespan, spanBubble;
  std::vector<int> peaks; // Empty: not given.
};

/// F, I and W of a whole rank take 1 each, messages nothing.
Simulation simulateUnit(Schedule schedule, int chunks) {
  schedule.channels = neighborChannels(schedule.stages, true);
  SimulationInput input;
  double time = 1.0 / chunks;
  input.stages = {{time, time, time, 0, 0}};
  return *simulate(schedule, input);
}

void expectGolden(const Kind &kind, const std::vector<Golden> &table) {
  for (const Golden &row : table) {
    Schedule schedule = *make(kind, row.p, row.m);
    Simulation result = simulateUnit(schedule, kind.chunks);
    EXPECT_DOUBLE_EQ(result.makespan, row.makespan) << kind.name << row.p;
    EXPECT_DOUBLE_EQ(result.bubble(), row.spanBubble) << kind.name << row.p;
    if (!row.peaks.empty()) {
      EXPECT_EQ(peaks(schedule), row.peaks) << kind.name;
    }
  }
}

TEST(GoldenSchedule, oneStagePerRank) {
  expectGolden({"gpipe", 1}, {{4, 8, 33, 9, {8, 8, 8, 8}},
                              {4, 12, 45, 9, {12, 12, 12, 12}},
                              {8, 16, 69, 21, {}}});
  expectGolden({"1f1b", 1}, {{4, 8, 33, 9, {4, 3, 2, 1}},
                             {4, 12, 45, 9, {4, 3, 2, 1}},
                             {8, 16, 69, 21, {}}});
}

TEST(GoldenSchedule, interleaved) {
  EXPECT_EQ(toString(*interleavedSchedule({4, 4, 2})),
            "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3,"
            "0U,2U\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3,"
            "1U,3U\n");
  expectGolden({"interleaved", 2}, {{4, 8, 28.5, 4.5, {11, 9, 7, 5}},
                                    {4, 12, 40.5, 4.5, {11, 9, 7, 5}},
                                    {8, 16, 58.5, 10.5, {}}});
  EXPECT_EQ(interleavedSchedule({5, 4, 2}).error(),
            "the schedule needs as many stages on each rank, but there are 5 "
            "stages and 2 ranks");
}

TEST(GoldenSchedule, breadthFirst) {
  EXPECT_EQ(toString(*breadthFirstSchedule({4, 2, 2})),
            "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1,0U,2U\n"
            "1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1,1U,3U\n");
  EXPECT_EQ(toString(*breadthFirstSchedule({4, 5})),
            toString(*gpipeSchedule({4, 5})));
  expectGolden({"looped-bfs", 2}, {{4, 8, 28.5, 4.5, {16, 16, 16, 16}},
                                   {4, 12, 40.5, 4.5, {24, 24, 24, 24}},
                                   {8, 16, 58.5, 10.5, {}}});
  // From the last micro-batch it takes as long.
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m) {
      Schedule schedule = *breadthFirstSchedule({2 * p, m, p});
      Schedule reversed = schedule;
      for (std::vector<Action> &rank : reversed.ranks)
        for (Action &action : rank)
          if (action.kind == ActionKind::Backward)
            action.microbatch = m - 1 - action.microbatch;
      EXPECT_DOUBLE_EQ(simulateUnit(schedule, 2).makespan,
                       simulateUnit(reversed, 2).makespan);
    }
}

struct Timing {
  int p, m;
  double forward, input, weight, transfer; // Milliseconds.
};

/// The times of Table 6 in Qi et al.
const std::vector<Timing> zeroBubbleTimes = {
    {8, 24, 18.522, 18.086, 9.337, .601},
    {8, 32, 18.513, 18.086, 9.331, .626},
    {8, 64, 18.546, 18.097, 9.321, .762},
    {16, 48, 11.347, 11.248, 8.132, .377},
    {16, 64, 11.307, 11.254, 8.101, .379},
    {16, 128, 11.325, 11.308, 8.109, .378}};

/// Their Table 5: the part of the span that a rank idles.
void expectBubbleRates(const char *name, const std::vector<double> &rates) {
  ASSERT_EQ(rates.size(), zeroBubbleTimes.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    const Timing &timing = zeroBubbleTimes[i];
    Schedule schedule = *makeSchedule(name, {timing.p, timing.m});
    schedule.channels = neighborChannels(timing.p, true);
    SimulationInput input;
    input.stages = {{timing.forward, timing.input, timing.weight, 0, 0}};
    input.transfers = {timing.transfer};
    double span = simulate(schedule, input)->span;
    double work = timing.m * (timing.forward + timing.input + timing.weight);
    EXPECT_EQ(std::round((span - work) / span * 1e4),
              std::round(rates[i] * 1e4))
        << name << " " << timing.p << " " << timing.m;
  }
}

TEST(GoldenSchedule, oneForwardOneBackwardRates) {
  expectBubbleRates("1f1b", {.2431, .1985, .1240, .2552, .2082, .1251});
}

TEST(GoldenSchedule, zeroBubbleH1) {
  std::string text = toString(*zeroBubbleH1Schedule({4, 6}));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,0I2,0W2,0I3,0W3,0I4,0W4,"
            "0I5,0W5,0U");
  EXPECT_EQ(text.substr(text.find("3F0")),
            "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,3I5,3W2,3W3,"
            "3W4,3W5,3U\n");
  expectGolden({"zb-h1", 1}, {{4, 8, 27, 3, {4, 4, 4, 4}},
                              {4, 12, 39, 3, {4, 4, 4, 4}},
                              {8, 16, 55, 7, {}}});
  expectBubbleRates("zb-h1", {.1585, .1242, .0674, .1397, .1088, .0576});
}

TEST(GoldenSchedule, zeroBubbleH2) {
  EXPECT_EQ(toString(*zeroBubbleH2Schedule({2, 4})),
            "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3,0U\n"
            "1F0,1I0,1F1,1I1,1F2,1I2,1W0,1F3,1I3,1W1,1W2,1W3,1U\n");
  // No rank idles between its first and last action.
  expectGolden({"zb-h2", 1}, {{4, 8, 27, 0, {7, 7, 7, 7}},
                              {4, 12, 39, 0, {7, 7, 7, 7}},
                              {8, 16, 55, 0, {}}});
  expectBubbleRates("zb-h2", {.1083, .0837, .0444, .0672, .0516, .0266});
}

TEST(GoldenSchedule, zeroBubbleV) {
  EXPECT_EQ(toString(*zeroBubbleVSchedule({4, 4, 2})),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,"
            "0W1,3F3,3I3,3W3,0I2,0W2,0I3,0W3,0U,3U\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,"
            "2I2,2W2,1I2,2I3,1I3,1W2,2W3,1W3,1U,2U\n");
  expectGolden({"zb-v", 2}, {{4, 8, 25.5, 0, {8, 8, 8, 8}},
                             {4, 12, 37.5, 0, {8, 8, 8, 8}},
                             {8, 16, 51.5, 0, {}}});
  EXPECT_EQ(zeroBubbleVSchedule({4, 4}).error(),
            "the schedule needs two stages per rank, but there are 4 stages "
            "and 4 ranks");
  EXPECT_EQ(zeroBubbleVSchedule({5, 4, 2}).error(),
            "the schedule needs two stages per rank, but there are 5 stages "
            "and 2 ranks");
}

TEST(GoldenSchedule, eagerOneForwardOneBackward) {
  EXPECT_EQ(toString(*eagerOneForwardOneBackwardSchedule({3, 6})),
            "0F0,0F1,0F2,0F3,0F4,0B0,0F5,0B1,0B2,0B3,0B4,0B5,0U\n"
            "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1B4,1B5,1U\n"
            "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4,2F5,2B5,2U\n");
  expectGolden({"eager-1f1b", 1}, {{4, 8, 33, 9, {7, 5, 3, 1}},
                                   {4, 12, 45, 9, {7, 5, 3, 1}},
                                   {8, 16, 69, 21, {}}});
  // What it is for: transfers as long as half a forward, which 1F1B waits for
  // in every round.
  auto makespan = [](const char *name) {
    Schedule schedule = *makeSchedule(name, {4, 32});
    schedule.channels = neighborChannels(4, true);
    SimulationInput input;
    input.stages = {{1, 1, 1, 0, 0}};
    input.transfers = {.5};
    return simulate(schedule, input)->makespan;
  };
  EXPECT_DOUBLE_EQ(makespan("eager-1f1b"), 3 * (32 + 3) + 2 * 3 * .5);
  EXPECT_GT(makespan("1f1b"), makespan("eager-1f1b") + 10);
}

TEST(GoldenSchedule, vHalf) {
  EXPECT_EQ(toString(*vHalfSchedule({4, 4, 2})),
            "0F0,3F0,3I0,0F1,3W0,3F1,3I1,0F2,0I0,3W1,0W0,3F2,3I2,0F3,0I1,3W2,"
            "0W1,3F3,3I3,0I2,3W3,0I3,0W2,0W3,0U,3U\n"
            "1F0,2F0,2I0,1F1,2F1,1I0,2W0,2I1,1F2,1W0,2F2,1I1,2W1,2I2,1F3,1W1,"
            "2F3,1I2,2W2,2I3,1I3,1W2,2W3,1W3,1U,2U\n");
  expectGolden({"v-half", 2}, {{4, 8, 28, 4, {6, 6, 6, 6}},
                               {4, 12, 40, 4, {6, 6, 6, 6}},
                               {8, 16, 58, 10, {}}});
}

TEST(GoldenSchedule, vMin) {
  EXPECT_EQ(toString(*vMinSchedule({4, 4, 2})),
            "0F0,3F0,3I0,0F1,3W0,0I0,0W0,3F1,3I1,0F2,3W1,0I1,0W1,3F2,3I2,0F3,"
            "3W2,0I2,0W2,3F3,3I3,3W3,0I3,0W3,0U,3U\n"
            "1F0,2F0,2I0,1I0,1F1,2F1,2W0,1W0,2I1,1I1,1F2,2F2,2W1,1W1,2I2,1I2,"
            "1F3,2F3,2W2,1W2,2I3,1I3,2W3,1W3,1U,2U\n");
  expectGolden({"v-min", 2}, {{4, 8, 29.5, 5.5, {4, 4, 4, 4}},
                              {4, 12, 41.5, 5.5, {4, 4, 4, 4}},
                              {8, 16, 61.5, 13.5, {}}});
}

TEST(GoldenSchedule, dualPipeV) {
  EXPECT_EQ(toString(*dualPipeVSchedule({4, 4, 2})),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,0F3,3B1,3F2,0B0,3B2,3F3,0B1,3B3,0I2,"
            "0W2,0I3,0W3,0U,3U\n"
            "1F0,2F0,1F1,2F1,1F2,2B0,2F2,1B0,1F3,2B1,2F3,1B1,2B2,1B2,2I3,1I3,"
            "2W3,1W3,1U,2U\n");
  // Rank 2 of PyTorch's golden file, dualpipev_4rank_10mb.csv.
  EXPECT_NE(
      toString(*dualPipeVSchedule({8, 10, 4}))
          .find(
              "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,2F5,5B1,5F4,2B0,2F6,"
              "5B2,5F5,2B1,2F7,5B3,5F6,2B2,2F8,5B4,5F7,2B3,2F9,5B5,5F8,2B4,5B6,"
              "5F9,2B5,5B7,2B6,5B8,2I7,5I9,2I8,2W7,2I9,5W9,2W8,2W9,2U,5U\n"),
      std::string::npos);
  expectGolden({"dualpipev", 2}, {{4, 8, 25.5, 1.5, {9, 9, 9, 9}},
                                  {4, 12, 37.5, 1.5, {9, 9, 9, 9}},
                                  {8, 16, 51.5, 3.5, {}}});
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m < 2 * p; ++m)
      EXPECT_FALSE(make({"dualpipev", 2}, p, m));
  EXPECT_EQ(dualPipeVSchedule({4, 3, 2}).error(),
            "dualpipev needs at least as many micro-batches as stages, but "
            "there are 3 micro-batches and 4 stages");
  EXPECT_EQ(dualPipeVSchedule({2, 4}).error(),
            "the schedule needs two stages per rank, but there are 2 stages "
            "and 2 ranks");
}

/// The numbers that Generators.h promises beyond the published ones.
TEST(GoldenSchedule, closedForms) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 20; ++m) {
      SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m));
      EXPECT_EQ(peaks(*zeroBubbleH1Schedule({p, m})),
                std::vector<int>(p, std::min(m, p)));
      EXPECT_EQ(peaks(*zeroBubbleH2Schedule({p, m})),
                std::vector<int>(p, std::min(m, 2 * p - 1)));
      Schedule v = *zeroBubbleVSchedule({2 * p, m, p});
      for (int peak : peaks(v))
        EXPECT_LE(peak, std::min(2 * m, 2 * p));
      if (m >= 2 * p - 1) {
        EXPECT_DOUBLE_EQ(simulateUnit(v, 2).bubble(), 0);
      }
      auto vBubble = [](const Schedule &schedule) {
        return std::round(2 * simulateUnit(schedule, 2).bubble());
      };
      Schedule half = *vHalfSchedule({2 * p, m, p});
      for (int peak : peaks(half))
        EXPECT_LE(peak, std::min(2 * m, 2 * ((p + 2) / 2)));
      if (p >= 3 && m >= p) {
        EXPECT_EQ(vBubble(half), 3 * p - 4);
      }
      Schedule least = *vMinSchedule({2 * p, m, p});
      for (int peak : peaks(least))
        EXPECT_LE(peak, std::min(2 * m, 2 * ((p + 4) / 3)));
      if (p >= 2 && m >= p) {
        EXPECT_EQ(vBubble(least), p % 3 ? 4 * p - 5 : 4 * p - 3);
      }
      std::vector<int> eager =
          peaks(*eagerOneForwardOneBackwardSchedule({p, m}));
      for (int rank = 0; rank < p; ++rank)
        EXPECT_EQ(eager[rank], std::min(m, 2 * (p - 1 - rank) + 1));
      if (m >= 2 * p)
        for (int peak : peaks(*dualPipeVSchedule({2 * p, m, p})))
          EXPECT_LE(peak, 2 * p + 1);
      for (int chunks = 1; m >= p && chunks <= 4; ++chunks) {
        Schedule schedule = *interleavedSchedule({p * chunks, m, p});
        // No worse where p does not divide m.
        EXPECT_NEAR(simulateUnit(schedule, chunks).makespan,
                    3 * m + 3.0 * (p - 1) / chunks, 1e-9);
        for (int rank = 0; m % p == 0 && rank < p; ++rank)
          EXPECT_EQ(
              peaks(schedule)[rank],
              std::min(m * chunks, (chunks - 1) * p + 2 * (p - 1 - rank) + 1));
      }
    }
}

TEST(GoldenSchedule, shapesThatDoNotFit) {
  EXPECT_EQ(makeSchedule("1f1b", {4, 4, 2}).error(),
            "the schedule needs one stage per rank, but there are 4 stages and "
            "2 ranks");
  EXPECT_EQ(makeSchedule("gpipe", {4, 4, -1}).error(),
            "a schedule needs at least 1 rank, not -1");
  EXPECT_EQ(makeSchedule("inference", {4, 0, 4}).error(),
            "a schedule needs at least 1 micro-batch, not 0");
}

} // namespace
