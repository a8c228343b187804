//===- LayoutAssignmentTest.cpp - Layouts beside all assignments ----------===//
#include "pp/Planner/LayoutAssignment.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <random>

using namespace pp::planner;

static constexpr double infinity = std::numeric_limits<double>::infinity();

static double costOf(const LayoutProblem &problem,
                     const std::vector<bool> &isOther) {
  double cost = 0;
  for (size_t i = 0; i < problem.operations.size(); ++i)
    cost +=
        isOther[i] ? problem.operations[i].other : problem.operations[i].plain;
  for (const LayoutProblem::Value &value : problem.values)
    if (std::ranges::any_of(value.readers, [&](size_t reader) {
          return isOther[reader] != isOther[value.maker];
        }))
      cost += value.reorder;
  return cost;
}

static double leastCost(const LayoutProblem &problem) {
  size_t count = problem.operations.size();
  double least = infinity;
  for (size_t choice = 0; choice < size_t(1) << count; ++choice) {
    std::vector<bool> isOther;
    for (size_t i = 0; i < count; ++i)
      isOther.push_back(choice >> i & 1);
    least = std::min(least, costOf(problem, isOther));
  }
  return least;
}

TEST(LayoutAssignment, IsTheBestOfAllOnRandomGraphs) {
  std::mt19937 random(7);
  auto below = [&](size_t limit) { return random() % limit; };
  size_t mixed = 0;
  for (int round = 0; round < 600; ++round) {
    LayoutProblem problem;
    size_t count = 2 + below(10);
    for (size_t i = 0; i < count; ++i) {
      LayoutProblem::Operation op{double(below(8)), double(below(8))};
      if (below(6) == 0)
        op.other = infinity;
      else if (below(10) == 0)
        op.plain = infinity;
      problem.operations.push_back(op);
    }
    for (size_t maker = 0; maker + 1 < count; ++maker) {
      LayoutProblem::Value value{maker, {}, double(below(6))};
      for (size_t reader = maker + 1; reader < count; ++reader)
        if (below(3) == 0)
          value.readers.push_back(reader);
      problem.values.push_back(value);
    }
    LayoutAssignment found = assignLayouts(problem);
    EXPECT_EQ(found.cost, leastCost(problem)) << "round " << round;
    EXPECT_EQ(found.cost, costOf(problem, found.isOther)) << "round " << round;
    mixed += std::ranges::count(found.isOther, true) != 0 &&
             std::ranges::count(found.isOther, false) != 0;
  }
  EXPECT_GT(mixed, 300u);
}

TEST(LayoutAssignment, ReordersOnceForAllReaders) {
  // One plain value, three readers that save 2 each: 5 is paid once.
  LayoutProblem problem;
  problem.operations = {{0, infinity}, {2, 0}, {2, 0}, {2, 0}};
  problem.values = {{0, {1, 2, 3}, 5}};
  LayoutAssignment found = assignLayouts(problem);
  EXPECT_EQ(found.cost, 5);
  EXPECT_EQ(found.isOther, (std::vector<bool>{false, true, true, true}));
}

TEST(LayoutAssignment, StaysPlainWhereNothingIsGained) {
  LayoutProblem problem;
  problem.operations = {{0, 0}, {3, 3}};
  problem.values = {{0, {1}, 1}};
  EXPECT_EQ(assignLayouts(problem).isOther, (std::vector<bool>{false, false}));
}
