//===- WeightsTogetherTest.cpp - W for several micro-batches --------------===//
#include "pp/Planner/Schedule/WeightsTogether.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Slots.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Verify.h"
#include "gtest/gtest.h"

#include <map>

using namespace pp::planner;

namespace {

std::string joined(Schedule schedule, int together) {
  joinWeights(schedule, together);
  return toString(schedule);
}

TEST(WeightsTogether, splitsAndDelays) {
  Schedule one = *oneForwardOneBackwardSchedule({1, 5});
  EXPECT_EQ(joined(one, 1), toString(one));
  EXPECT_EQ(joined(one, 2), "0F0,0I0,0F1,0I1,0W0,0W1,0F2,0I2,0F3,0I3,0W2,0W3,"
                            "0F4,0I4,0W4,0U\n");
  EXPECT_EQ(joined(one, 16),
            "0F0,0I0,0F1,0I1,0F2,0I2,0F3,0I3,0F4,0I4,0W0,0W1,0W2,0W3,0W4,0U\n");
  EXPECT_EQ(joined(*oneForwardOneBackwardSchedule({2, 3}), 2),
            "0F0,0F1,0I0,0F2,0I1,0W0,0W1,0I2,0W2,0U\n"
            "1F0,1I0,1F1,1I1,1W0,1W1,1F2,1I2,1W2,1U\n");
}

TEST(WeightsTogether, keepsWhatIsSplitAlready) {
  EXPECT_EQ(joined(*zeroBubbleH1Schedule({2, 4}), 2),
            "0F0,0F1,0I0,0F2,0I1,0W0,0W1,0F3,0I2,0I3,0W2,0W3,0U\n"
            "1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1F3,1I3,1W2,1W3,1U\n");
}

/// The order of each stage's W, and how many stand side by side at most.
struct Weights {
  std::map<int, std::vector<int>> order;
  int together = 0;
};
Weights findWeights(const Schedule &schedule) {
  Weights result;
  for (const std::vector<Action> &rank : schedule.ranks) {
    int run = 0, stage = -1;
    for (const Action &action : rank) {
      if (!action.performs(Phase::BackwardWeight)) {
        run = 0;
        continue;
      }
      result.order[action.stage].push_back(action.microbatch);
      run = action.stage == stage ? run + 1 : 1;
      stage = action.stage;
      result.together = std::max(result.together, run);
    }
  }
  return result;
}

/// Every schedule stays provable, with its W in their order, and each stage
/// keeps at most `together` - 1 micro-batches more.
TEST(WeightsTogether, everyScheduleStaysRight) {
  for (std::string_view name : trainingScheduleNames())
    for (int stages : {1, 2, 4})
      for (int microbatches : {1, 4, 9})
        for (int together : {2, 3, 16})
          for (CheckpointMode mode :
               {CheckpointMode::Never, CheckpointMode::Always}) {
            PipelineShape shape{stages, microbatches};
            if (placementOf(name) == Placement::V)
              shape.ranks = std::max(stages / 2, 1);
            auto made = makeSchedule(name, shape);
            if (!made)
              continue; // not for this shape
            SCOPED_TRACE(testing::Message()
                         << name << " of " << stages << " stages and "
                         << microbatches << " micro-batches, " << together);
            Schedule schedule = *made;
            joinWeights(schedule, together);
            EXPECT_EQ(findWeights(schedule).order, findWeights(*made).order);
            EXPECT_GE(findWeights(schedule).together,
                      std::min(together, microbatches));
            auto complete = [&](Schedule order) {
              insertRecompute(order, mode);
              return insertTransfers(order, neighborChannels(stages, true));
            };
            auto before = complete(*made), after = complete(schedule);
            ASSERT_TRUE(before) << before.error();
            ASSERT_TRUE(after) << after.error();
            for (const std::string &fault : verifySchedule(*after))
              ADD_FAILURE() << fault;
            SlotAssignment old = assignSlots(*before),
                           slots = assignSlots(*after);
            for (int stage = 0; stage < stages; ++stage)
              EXPECT_LE(slots.stages[stage].count,
                        old.stages[stage].count + together - 1);
          }
}

} // namespace
