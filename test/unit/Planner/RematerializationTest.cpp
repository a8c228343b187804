//===- RematerializationTest.cpp - Beside all choices ---------------------===//
#include "pp/Planner/Rematerialization.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <random>

using namespace pp::planner;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of having what is read, if the chosen values are recomputed where they are
/// needed, and the others kept.
static double costOf(const RematerializationProblem &problem, size_t chosen) {
  std::vector<bool> isNeeded(problem.values.size());
  double cost = 0;
  // Values come behind their operands.
  for (size_t v = problem.values.size(); v-- > 0;) {
    const RematerializationProblem::Value &value = problem.values[v];
    if (!value.isRead && !isNeeded[v])
      continue;
    if (!(chosen >> v & 1)) {
      cost += value.keep;
      continue;
    }
    cost += value.recompute;
    for (size_t operand : value.operands)
      isNeeded[operand] = true;
  }
  return cost;
}

static double leastCost(const RematerializationProblem &problem) {
  double least = infinity;
  for (size_t chosen = 0; chosen < size_t(1) << problem.values.size(); ++chosen)
    least = std::min(least, costOf(problem, chosen));
  return least;
}

TEST(Rematerialization, IsTheBestOfAllOnRandomGraphs) {
  std::mt19937 random(11);
  auto below = [&](size_t limit) { return random() % limit; };
  size_t mixed = 0;
  for (int round = 0; round < 600; ++round) {
    RematerializationProblem problem;
    const size_t count = 2 + below(10);
    for (size_t v = 0; v < count; ++v) {
      RematerializationProblem::Value value{
          double(1 + below(8)), double(below(6)), {}, below(3) == 0};
      if (v == 0 || below(4) == 0)
        value.recompute = infinity;
      else if (below(6) == 0)
        value.keep = infinity;
      for (size_t operand = 0; operand < v; ++operand)
        if (below(3) == 0)
          value.operands.push_back(operand);
      problem.values.push_back(value);
    }
    Rematerialization found = rematerialize(problem);
    EXPECT_EQ(found.cost, leastCost(problem)) << "round " << round;
    size_t chosen = 0;
    for (size_t v = 0; v < count; ++v)
      chosen |= size_t(found.isRecomputed[v]) << v;
    EXPECT_EQ(found.cost, costOf(problem, chosen)) << "round " << round;
    mixed += std::ranges::count(found.isRecomputed, true) != 0 &&
             std::ranges::count(found.isKept, true) != 0;
  }
  EXPECT_GT(mixed, 200u);
}

TEST(Rematerialization, KeepsWhatSeveralAreMadeOf) {
  // x of 2 bytes makes three values of 4: it is kept in place of them.
  RematerializationProblem problem;
  problem.values = {{2, infinity, {}, false},
                    {4, 1, {0}, true},
                    {4, 1, {1}, true},
                    {4, 1, {2}, true}};
  Rematerialization found = rematerialize(problem);
  EXPECT_EQ(found.cost, 5);
  EXPECT_EQ(found.isKept, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(found.isRecomputed, (std::vector<bool>{false, true, true, true}));
}

TEST(Rematerialization, RecomputesNothingThatCostsAsMuch) {
  RematerializationProblem problem;
  problem.values = {{3, infinity, {}, false}, {4, 1, {0}, true}};
  EXPECT_EQ(rematerialize(problem).isKept, (std::vector<bool>{false, true}));
}
