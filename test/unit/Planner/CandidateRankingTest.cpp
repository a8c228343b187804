//===- CandidateRankingTest.cpp - The order in which plans are listed -----===//
#include "../../../lib/Planner/PlanSearch/CandidateRanking.h"
#include "gtest/gtest.h"

using namespace pp::planner;

namespace {

PlanCandidate candidate(const char *schedule, size_t stages, double step,
                        int64_t bytes) {
  PlanCandidate result;
  result.plan.scheduleName = schedule;
  result.plan.predicted.step = step;
  result.plan.predicted.peakBytes = {bytes};
  result.draft.schedule.rankOfStage.assign(stages, 0);
  // Plans differ in something, or they would be one.
  result.draft.stageOf = {static_cast<int>(bytes)};
  return result;
}

std::vector<std::string> rank(std::vector<PlanCandidate> candidates) {
  rankCandidates(candidates);
  std::vector<std::string> names;
  for (const PlanCandidate &each : candidates)
    names.push_back(each.plan.scheduleName);
  return names;
}

using Names = std::vector<std::string>;

TEST(CandidateRanking, ofEquallyFastPlansTheSimplestIsFirst) {
  // Their times differ by the order in which they were added up.
  double more = 0.1 + 0.2, less = 0.3;
  ASSERT_LT(less, more);
  EXPECT_EQ(
      rank({candidate("interleaved", 2, less, 1),
            candidate("gpipe", 1, more, 9),
            candidate("auto (improved)", 1, less, 2),
            candidate("1f1b", 1, more, 3), candidate("slow", 1, 0.31, 1)}),
      (Names{"1f1b", "gpipe", "auto (improved)", "interleaved", "slow"}));
}

TEST(CandidateRanking, whatIsFasterComesFirst) {
  EXPECT_EQ(
      rank({candidate("simple", 1, 1, 1), candidate("fast", 4, 1 - 1e-6, 9)}),
      (Names{"fast", "simple"}));
}

TEST(CandidateRanking, whatDoesNotFitComesLast) {
  PlanCandidate large = candidate("large", 1, 0.5, 9);
  large.overflow = "too large";
  EXPECT_EQ(rank({large, candidate("fits", 2, 1, 1)}),
            (Names{"fits", "large"}));
}

TEST(CandidateRanking, copiesOfAPlanAreLeftOut) {
  PlanCandidate first = candidate("1f1b", 2, 1, 5), copy = first;
  copy.plan.scheduleName = "auto (list scheduling)";
  std::vector<PlanCandidate> candidates{copy, candidate("other", 2, 1, 6),
                                        first};
  EXPECT_EQ(rankCandidates(candidates), 1U);
  EXPECT_EQ(rank(candidates), (Names{"1f1b", "other"}));
}

} // namespace
