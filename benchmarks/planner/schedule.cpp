//===- schedule.cpp - Searched schedules on unequal pipelines -------------===//
//
// 1,000 random pipelines: times of stages and links 40 % up and down, 2 to 8
// ranks, 1 to 32 micro-batches, half of them with a limit of memory. Prints how
// far each schedule is above the lower bound where it keeps to the limit, and
// how long searches take.
//
//===----------------------------------------------------------------------===//
#include "pp/Planner/Schedule/Search.h"
#include "pp/Planner/Schedule/Transfers.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

using namespace pp::planner;

namespace {

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

struct Gaps {
  std::string_view name;
  int cases = 0;
  double sum = 0, worst = 0;
  /// Of the search, in the same cases.
  double searchedSum = 0, searchedWorst = 0;

  void add(double gap, double searched) {
    ++cases;
    sum += gap;
    worst = std::max(worst, gap);
    searchedSum += searched;
    searchedWorst = std::max(searchedWorst, searched);
  }
  void print() const {
    if (cases)
      std::printf(
          "  %-12.*s %5d cases  gap mean %6.2f %%  worst %6.2f %%   auto "
          "in these: mean %6.2f %%  worst %6.2f %%\n",
          static_cast<int>(name.size()), name.data(), cases, 100 * sum / cases,
          100 * worst, 100 * searchedSum / cases, 100 * searchedWorst);
  }
};

SearchProblem randomProblem(std::mt19937 &random, Placement placement) {
  auto around = [&](double value) {
    return value * (.6 + .8 * (random() % 10001) / 10000.);
  };
  SearchProblem problem;
  int p = 2 + static_cast<int>(random() % 7);
  int m = 1 + static_cast<int>(random() % 32);
  int chunks = placement == Placement::OnePerRank ? 1 : 2;
  problem.shape = {p * chunks, m, p};
  problem.rankOfStage = *placeStages(problem.shape, placement);
  problem.channels = neighborChannels(problem.shape.stages, true);
  for (int stage = 0; stage < problem.shape.stages; ++stage)
    problem.times.stages.push_back({around(10), around(10), around(8), 0, 0});
  for (size_t c = 0; c < problem.channels.size(); ++c)
    problem.times.transfers.push_back(around(1));
  problem.forwardBytes = {2};
  problem.weightBytes = {1};
  if (random() % 2)
    problem.capacity = {int64_t(2) * chunks *
                        (p / 2 + 1 + static_cast<int>(random() % 16))};
  return problem;
}

bool fits(const SearchProblem &problem, const Schedule &schedule) {
  for (int64_t bytes :
       peakBytes(schedule, problem.forwardBytes, problem.weightBytes))
    if (!problem.capacity.empty() && bytes > problem.capacity[0])
      return false;
  return true;
}

/// Returns the number of faults.
int runCases(const char *title, Placement placement, SearchObjective objective,
             int cases) {
  // The same cases each time.
  std::mt19937 random(2024); // NOLINT(bugprone-random-generator-seed)
  Gaps searched{"auto"};
  std::vector<Gaps> named;
  for (std::string_view name : trainingScheduleNames())
    named.push_back({name});
  int invalid = 0, worse = 0;
  double longest = 0, total = 0;
  for (int i = 0; i < cases; ++i) {
    SearchProblem problem = randomProblem(random, placement);
    problem.objective = objective;
    auto value = [&](const Simulation &simulation) {
      return objective == SearchObjective::Span ? simulation.span
                                                : simulation.makespan;
    };
    double begin = seconds();
    Result<SearchResult> result = searchSchedule(problem);
    double taken = seconds() - begin;
    total += taken;
    longest = std::max(longest, taken);
    if (!result) {
      std::printf("  case %d: %s\n", i, result.error().c_str());
      ++invalid;
      continue;
    }
    Result<Schedule> sending =
        insertTransfers(result->schedule, problem.channels);
    if (!sending || !verifySchedule(*sending).empty() ||
        !fits(problem, result->schedule))
      ++invalid;
    Schedule schedule = result->schedule;
    schedule.channels = problem.channels;
    double found = value(*simulate(schedule, problem.times));
    double gap = found / result->lowerBound - 1;
    searched.add(gap, gap);
    for (Gaps &gaps : named) {
      Result<Schedule> other = makeSchedule(gaps.name, problem.shape);
      if (!other || other->rankOfStage != problem.rankOfStage ||
          !fits(problem, *other))
        continue;
      other->channels = problem.channels;
      double theirs = value(*simulate(*other, problem.times));
      gaps.add(theirs / result->lowerBound - 1, gap);
      worse += found > theirs * (1 + 1e-9);
    }
  }
  std::printf("%s: %d cases, %d invalid, %d worse than a named schedule; "
              "search mean %.3f s, longest %.3f s\n",
              title, cases, invalid, worse, total / cases, longest);
  searched.print();
  for (const Gaps &gaps : named)
    gaps.print();
  return invalid + worse;
}

void runLarge() {
  for (int limit : {32, 64, 0}) {
    SearchProblem problem;
    problem.shape = {32, 256};
    problem.times.stages = {{11, 11, 8, 0, 0}};
    problem.times.transfers = {.4};
    problem.forwardBytes = {2};
    problem.weightBytes = {1};
    if (limit)
      problem.capacity = {int64_t(2) * limit};
    problem.objective = SearchObjective::Span;
    double begin = seconds();
    Result<SearchResult> result = searchSchedule(problem);
    std::printf("p=32 m=256 memory %2d M_B: bubble rate %.4f in %.2f s (%s)\n",
                limit, 1 - 256 * 30 / result->span, seconds() - begin,
                result->origin.c_str());
  }
}

} // namespace

int main(int argc, char **argv) {
  int cases =
      argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 1000;
  int faults = 0;
  faults += runCases("one stage per rank, makespan", Placement::OnePerRank,
                     SearchObjective::Makespan, cases);
  faults += runCases("one stage per rank, span", Placement::OnePerRank,
                     SearchObjective::Span, cases);
  faults += runCases("two stages per rank (V), makespan", Placement::V,
                     SearchObjective::Makespan, cases / 10);
  faults += runCases("two stages per rank (loop), makespan", Placement::Loop,
                     SearchObjective::Makespan, cases / 10);
  runLarge();
  return faults != 0;
}
