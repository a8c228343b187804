//===- SearchTest.cpp - Searched schedules against published ones ---------===//
#include "pp/Planner/Schedule/Search.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace pp::planner;

namespace {

struct Timing {
  int p, m;
  double forward, input, weight, transfer; // Milliseconds.
};

/// Bubble rate of the span; M_W is half of M_B, the limit is `limit` M_B.
double searchedRate(const Timing &timing, int limit) {
  SearchProblem problem;
  problem.shape = {timing.p, timing.m};
  problem.times.stages = {{timing.forward, timing.input, timing.weight, 0, 0}};
  problem.times.transfers = {timing.transfer};
  problem.forwardBytes = {2};
  problem.weightBytes = {1};
  problem.capacity = {int64_t(2) * limit};
  problem.objective = SearchObjective::Span;
  Result<SearchResult> result = searchSchedule(problem);
  EXPECT_TRUE(bool(result)) << result.error();
  double work = timing.m * (timing.forward + timing.input + timing.weight);
  return std::round((result->span - work) / result->span * 1e4) / 1e4;
}

/// Tables 5 and 6 of Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024:
/// no worse than their automatic schedules in any cell.
TEST(Search, zeroBubbleTable) {
  struct Row {
    Timing timing;
    double zb1p, zb2p;
  };
  for (const Row &row :
       {Row{{8, 24, 18.522, 18.086, 9.337, .601}, .1585, .0433},
        Row{{8, 32, 18.513, 18.086, 9.331, .626}, .1242, .0039},
        Row{{8, 64, 18.546, 18.097, 9.321, .762}, .0674, .0026},
        Row{{16, 48, 11.347, 11.248, 8.132, .377}, .1397, .0066},
        Row{{16, 64, 11.307, 11.254, 8.101, .379}, .1088, .0054},
        Row{{16, 128, 11.325, 11.308, 8.109, .378}, .0576, .0028},
        Row{{32, 96, 10.419, 10.207, 7.715, .408}, .1421, .0038},
        Row{{32, 128, 10.408, 10.204, 7.703, .408}, .1106, .0029},
        Row{{32, 256, 10.402, 10.248, 7.698, .460}, .0594, .0018}}) {
    SCOPED_TRACE("p=" + std::to_string(row.timing.p) +
                 " m=" + std::to_string(row.timing.m));
    EXPECT_LE(searchedRate(row.timing, row.timing.p), row.zb1p);
    EXPECT_LE(searchedRate(row.timing, 2 * row.timing.p), row.zb2p);
  }
}

/// The curve of memory and bubble that their heuristic has for the 6.2B model
/// on 8 ranks. (Its times are those with which ZB-H1 has the published .1045.)
TEST(Search, memoryCurve) {
  Timing timing{8, 32, 29.802, 29.428, 19.530, .577};
  std::map<int, double> curve = {
      {8, .1045},  {9, .0820},  {10, .0649}, {11, .0471}, {12, .0366},
      {13, .0255}, {14, .0142}, {15, .0022}, {20, .0022}, {24, .0000}};
  for (auto [limit, rate] : curve)
    EXPECT_LE(searchedRate(timing, limit), rate) << limit;
}

struct Random {
  std::mt19937 engine;
  double around(double value) {
    return value * (.6 + .8 * (engine() % 10001) / 10000.);
  }
  int upTo(int limit) { return 1 + static_cast<int>(engine() % limit); }
};

/// Stages and links that differ; `placement` 0: one per rank, 1: loop, 2: V.
SearchProblem randomProblem(unsigned seed, int placement, int mostRanks,
                            int mostMicrobatches) {
  Random random{std::mt19937(seed)};
  SearchProblem problem;
  int p = 1 + random.upTo(mostRanks - 1), m = random.upTo(mostMicrobatches);
  problem.shape = {placement == 0 ? p : 2 * p, m, p};
  Placement kinds[] = {Placement::OnePerRank, Placement::Loop, Placement::V};
  problem.rankOfStage = *placeStages(problem.shape, kinds[placement]);
  problem.channels = neighborChannels(problem.shape.stages, true);
  int64_t needed = 0;
  std::vector<int64_t> ofRank(p, 0);
  for (int stage = 0; stage < problem.shape.stages; ++stage) {
    problem.times.stages.push_back({random.around(10), random.around(10),
                                    random.around(8), 0, random.around(1)});
    problem.forwardBytes.push_back(50 + random.upTo(50));
    problem.weightBytes.push_back(random.upTo(100));
    ofRank[problem.rankOfStage[stage]] +=
        std::max(problem.forwardBytes.back(), problem.weightBytes.back());
  }
  for (int64_t bytes : ofRank)
    needed = std::max(needed, bytes);
  for (size_t c = 0; c < problem.channels.size(); ++c)
    problem.times.transfers.push_back(random.around(1));
  if (seed % 3)
    problem.capacity = {needed * random.upTo(2 * p)};
  if (seed % 2)
    problem.objective = SearchObjective::Span;
  problem.simulations = 500;
  return problem;
}

bool fits(const SearchProblem &problem, const Schedule &schedule) {
  for (int64_t bytes :
       peakBytes(schedule, problem.forwardBytes, problem.weightBytes))
    if (!problem.capacity.empty() && bytes > problem.capacity[0])
      return false;
  return true;
}

void expectGood(const SearchProblem &problem) {
  Result<SearchResult> found = searchSchedule(problem);
  ASSERT_TRUE(bool(found)) << found.error();
  Schedule schedule = found->schedule;
  EXPECT_TRUE(fits(problem, schedule));
  schedule.channels = problem.channels;
  std::vector<std::string> faults = verifySchedule(schedule);
  ASSERT_TRUE(faults.empty()) << faults.front();
  Result<Schedule> sending = insertTransfers(found->schedule, problem.channels);
  ASSERT_TRUE(bool(sending)) << sending.error();
  EXPECT_TRUE(verifySchedule(*sending).empty());
  EXPECT_EQ(minimalCapacity(*sending), 0);
  // Sums of weight gradients have one order.
  std::map<int, int> next;
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank)
      if (action.performs(Phase::BackwardWeight)) {
        EXPECT_EQ(next[action.stage]++, action.microbatch);
      }
  Simulation simulation = *simulate(schedule, problem.times);
  EXPECT_DOUBLE_EQ(simulation.makespan, found->makespan);
  EXPECT_DOUBLE_EQ(simulation.span, found->span);
  auto objective = [&](const Simulation &of) {
    return problem.objective == SearchObjective::Span ? of.span : of.makespan;
  };
  double value = objective(simulation);
  EXPECT_LE(found->lowerBound, value * (1 + 1e-9));
  for (std::string_view name : trainingScheduleNames()) {
    Result<Schedule> named = makeSchedule(name, problem.shape);
    if (!named || named->rankOfStage != schedule.rankOfStage)
      continue;
    named->channels = problem.channels;
    Simulation other = *simulate(*named, problem.times);
    LowerBounds bounds = lowerBounds(*named, problem.times);
    EXPECT_LE(bounds.makespan, other.makespan * (1 + 1e-9)) << name;
    EXPECT_LE(bounds.span, other.span * (1 + 1e-9)) << name;
    if (fits(problem, *named)) {
      EXPECT_LE(value, objective(other) * (1 + 1e-9)) << name;
    }
  }
}

TEST(Search, neverWorseThanNamed) {
  for (unsigned seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE(seed);
    expectGood(randomProblem(seed, static_cast<int>(seed % 4) % 3, 6, 16));
  }
}

/// All orders of a tiny pipeline: no order may undercut the bound, and the
/// search must find the best one.
class AllOrders {
public:
  explicit AllOrders(const SearchProblem &problem) : problem(problem) {
    schedule.stages = problem.shape.stages;
    schedule.microbatches = problem.shape.microbatches;
    schedule.rankOfStage = problem.rankOfStage;
    schedule.channels = problem.channels;
    schedule.ranks.resize(problem.shape.rankCount());
  }
  double best() {
    fill(0);
    return least;
  }

private:
  void fill(size_t rank) {
    if (rank == schedule.ranks.size()) {
      if (!fits(problem, schedule))
        return;
      if (Result<Simulation> result = simulate(schedule, problem.times)) {
        least = std::min(least, problem.objective == SearchObjective::Span
                                    ? result->span
                                    : result->makespan);
        LowerBounds bounds = lowerBounds(schedule, problem.times);
        EXPECT_LE(bounds.makespan, result->makespan * (1 + 1e-9));
        EXPECT_LE(bounds.span, result->span * (1 + 1e-9));
      }
      return;
    }
    std::vector<Action> &list = schedule.ranks[rank];
    int stage = static_cast<int>(rank);
    int done[3] = {0, 0, 0};
    for (const Action &action : list)
      ++done[action.kind == ActionKind::Forward         ? 0
             : action.kind == ActionKind::BackwardInput ? 1
                                                        : 2];
    if (done[2] == schedule.microbatches) {
      list.push_back({ActionKind::Update, stage});
      fill(rank + 1);
      list.pop_back();
      return;
    }
    constexpr ActionKind kinds[] = {ActionKind::Forward,
                                    ActionKind::BackwardInput,
                                    ActionKind::BackwardWeight};
    for (int kind = 0; kind < 3; ++kind)
      if (done[kind] < (kind == 0 ? schedule.microbatches : done[kind - 1])) {
        list.push_back({kinds[kind], stage, done[kind]});
        fill(rank);
        list.pop_back();
      }
  }

  const SearchProblem &problem;
  Schedule schedule;
  double least = std::numeric_limits<double>::infinity();
};

TEST(Search, optimalWhereAllOrdersCanBeTried) {
  int optimal = 0, all = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    SearchProblem problem = randomProblem(seed, 0, 2, 3);
    problem.simulations = 2000;
    double best = AllOrders(problem).best();
    double found = problem.objective == SearchObjective::Span
                       ? searchSchedule(problem)->span
                       : searchSchedule(problem)->makespan;
    EXPECT_GE(found, best * (1 - 1e-9)) << seed;
    EXPECT_LE(found, best * 1.02) << seed;
    optimal += found <= best * (1 + 1e-9);
    ++all;
  }
  // The method is a heuristic: it may miss one.
  EXPECT_GE(optimal, all - 1);
}

TEST(Search, wholeBackward) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SearchProblem problem = randomProblem(seed, seed % 2 ? 2 : 0, 5, 12);
    problem.splitBackward = false;
    // Tight, and with more bytes in the backward pass than before.
    for (int64_t &bytes : problem.weightBytes)
      bytes += 40;
    if (!problem.capacity.empty())
      problem.capacity[0] = problem.capacity[0] * 5 / 4 + 100;
    Result<SearchResult> found = searchSchedule(problem);
    ASSERT_TRUE(bool(found)) << found.error();
    Schedule schedule = found->schedule;
    schedule.channels = problem.channels;
    EXPECT_TRUE(verifySchedule(schedule).empty());
    EXPECT_TRUE(fits(problem, schedule));
    for (const std::vector<Action> &rank : schedule.ranks)
      for (const Action &action : rank)
        EXPECT_TRUE(action.kind == ActionKind::Forward ||
                    action.kind == ActionKind::Backward ||
                    action.kind == ActionKind::Update);
  }
}

TEST(Search, portals) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SearchProblem problem = randomProblem(seed, 0, 5, 10);
    int last = problem.shape.stages - 1;
    problem.channels.push_back(
        {0, last, Phase::Forward, Phase::Forward, Phase::Forward, "skip", 1});
    problem.channels.push_back({last, 0, Phase::BackwardInput,
                                Phase::BackwardInput, Phase::BackwardWeight,
                                "skip back", 1});
    problem.times.transfers.resize(problem.channels.size(), 3);
    SCOPED_TRACE(seed);
    expectGood(problem);
  }
}

TEST(Search, sameInputSameSchedule) {
  SearchProblem problem = randomProblem(7, 2, 6, 20);
  EXPECT_EQ(toString(searchSchedule(problem)->schedule),
            toString(searchSchedule(problem)->schedule));
}

TEST(Search, errors) {
  auto error = [](const auto &change) {
    SearchProblem problem;
    problem.shape = {2, 4};
    problem.times.stages = {{1, 1, 1, 0, 0}};
    problem.forwardBytes = {10};
    change(problem);
    Result<SearchResult> result = searchSchedule(problem);
    return result ? "none" : result.error();
  };
  EXPECT_EQ(error([](SearchProblem &) {}), "none");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.capacity = {10, 9}; }),
            "rank 1 may keep 9 bytes, but one micro-batch needs 10; recompute, "
            "or put fewer layers on it");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.shape = {0, 4}; }),
            "a schedule cannot be searched for 0 stages, 4 micro-batches and 0 "
            "ranks");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.rankOfStage = {0}; }),
            "there are ranks for 1 stages, not 2");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.rankOfStage = {0, 2}; }),
            "a stage is on rank 2, which does not exist");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.rankOfStage = {0, 0}; }),
            "rank 1 has no stage");
  EXPECT_EQ(error([](SearchProblem &problem) {
              problem.channels = {{0, 5, Phase::Forward, Phase::Forward,
                                   Phase::Forward, "far"}};
            }),
            "channel 'far' does not connect two stages");
  EXPECT_EQ(
      error([](SearchProblem &problem) { problem.forwardBytes = {1, 2, 3}; }),
      "bytes from F to I: there are 3 entries, not 2");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.weightBytes = {-1}; }),
            "a stage keeps -1 bytes");
  EXPECT_EQ(error([](SearchProblem &problem) { problem.times.stages = {}; }),
            "times of stages: there are 0 entries, not 2");
  EXPECT_NE(error([](SearchProblem &problem) {
              problem.times.stages[0].forward = std::nan("");
            }).find("a stage takes"),
            std::string::npos);
}

} // namespace
