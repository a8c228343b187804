//===- PipelinePlanTest.cpp - Plans, their cost, and the search for them --===//
#include "pp/Planner/PipelinePlan.h"
#include "pp/Planner/PlanEvaluation.h"
#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/Schedule/Generators.h"
#include "gtest/gtest.h"
#include <cmath>
#include <map>
#include <numeric>
#include <random>

using namespace pp::planner;

namespace {

/// A chain of kernels of `time` each way, with values of `bytes` between.
Graph chain(size_t kernels, double time, int64_t bytes, int64_t parameters) {
  Graph graph;
  for (size_t k = 0; k < kernels; ++k) {
    Kernel kernel;
    kernel.name = "k" + std::to_string(k);
    kernel.forwardTime = kernel.backwardInputTime = time;
    kernel.backwardWeightTime = time;
    kernel.parameterBytes = parameters;
    kernel.savedBytes = 100;
    graph.addKernel(kernel);
    if (k > 0)
      graph.addEdge(k - 1, k, bytes, "v" + std::to_string(k - 1), bytes);
  }
  return graph;
}

Cluster cluster(size_t devices, double bandwidth = 1e9,
                int64_t memory = 1 << 30) {
  Cluster result;
  for (size_t d = 0; d < devices; ++d)
    result.devices.push_back({"d" + std::to_string(d), "cpu", memory, 1});
  result.defaultLink = {bandwidth, 0};
  return result;
}

PlanDraft draftOf(const Graph &graph, const Cluster &devices, int stages,
                  const char *schedule, int microbatches) {
  PlanDraft draft;
  draft.graph = &graph;
  draft.cluster = &devices;
  size_t perStage = graph.kernels.size() / stages;
  for (size_t k = 0; k < graph.kernels.size(); ++k)
    draft.stageOf.push_back(
        static_cast<int>(std::min(k / perStage, size_t(stages) - 1)));
  for (int stage = 0; stage < stages; ++stage)
    draft.devices.push_back({static_cast<size_t>(stage)});
  draft.schedule = *makeSchedule(schedule, {stages, microbatches});
  draft.parameterCopies = 3;
  return draft;
}

TEST(PlanEvaluation, countsTimesAndBytes) {
  Graph graph = chain(4, 1, 0, 10);
  graph.values[1].bytes = graph.values[1].gradientBytes = 1000;
  Cluster devices = cluster(2, 1000);
  PlanDraft draft = draftOf(graph, devices, 2, "1f1b", 2);
  auto evaluation = evaluatePlan(draft);
  ASSERT_TRUE(evaluation) << evaluation.error();
  // Stages of F 2, B 4; a transfer takes 1. Stage 1 starts after F and the
  // transfer, at 3, and works for 6. It has one slot to receive into, so the
  // second value comes only now, and takes 1. After 6 more its last gradient
  // arrives after 1, and stage 0 needs 4 more.
  EXPECT_DOUBLE_EQ(evaluation->simulation.makespan, 3 + 6 + 1 + 6 + 1 + 4);
  EXPECT_LE(evaluation->lowerBound, evaluation->simulation.makespan);
  // That the slot is free is a message too.
  devices.defaultLink.latency = 0.25;
  auto slower = evaluatePlan(draft);
  EXPECT_DOUBLE_EQ(slower->simulation.makespan, 21 + 3 * 0.25 + 0.25);
  devices.defaultLink.latency = 0;
  const StageLoad &first = evaluation->stages[0];
  EXPECT_DOUBLE_EQ(first.times.forward, 2);
  EXPECT_EQ(first.parameterBytes, 20);
  EXPECT_EQ(first.slots, 2);
  // Copies of the parameters, residuals, a send slot and a receive slot.
  EXPECT_EQ(first.memoryBytes, 3 * 20 + 2 * 200 + 1000 + 1000);
  EXPECT_EQ(evaluation->stages[1].slots, 1);
  EXPECT_EQ(evaluation->peakBytes[0], first.memoryBytes);
  EXPECT_FALSE(evaluation->overflow);

  devices.devices[0].memoryBytes = first.memoryBytes - 1;
  evaluation = evaluatePlan(draft);
  EXPECT_EQ(evaluation->overflow.value_or(""),
            "rank 0 needs 2460 bytes, 'd0' has 2459");
}

TEST(PlanEvaluation, overheadTakesTimeOfBothStages) {
  Graph graph = chain(4, 1, 0, 10);
  graph.values[1].bytes = graph.values[1].gradientBytes = 1000;
  Cluster devices = cluster(2, 1000);
  devices.defaultLink.overhead = 2.5e-4;
  PlanDraft draft = draftOf(graph, devices, 2, "1f1b", 2);
  auto evaluation = evaluatePlan(draft);
  ASSERT_TRUE(evaluation) << evaluation.error();
  // As above: stage 1 sends its gradient while it waits for the second value,
  // and stage 0 waits whenever it sends or receives.
  EXPECT_DOUBLE_EQ(evaluation->simulation.makespan, 3 + 6 + 1 + 6 + 1 + 4);
  EXPECT_EQ(evaluation->input.overheads,
            std::vector<double>(evaluation->schedule.channels.size(), 0.25));
  // Where nobody waits for the wire, the time is lost.
  draft.schedule = *makeSchedule("gpipe", {2, 8});
  devices.defaultLink.bandwidth = 1e6;
  double with = evaluatePlan(draft)->simulation.makespan;
  devices.defaultLink.overhead = 0;
  double without = evaluatePlan(draft)->simulation.makespan;
  EXPECT_GE(with, without + 7 * 0.25);
}

TEST(PlanEvaluation, valuesOfOneWayFollowEachOther) {
  // The value of the first kernel that the last one reads goes the same way as
  // that of the second.
  Graph graph = chain(4, 1, 0, 10);
  graph.values[1].bytes = graph.values[1].gradientBytes = 1000;
  graph.addEdge(0, 3, 2000, "skip", 2000);
  Cluster devices = cluster(2, 1000);
  PlanDraft draft = draftOf(graph, devices, 2, "1f1b", 1);
  auto evaluation = evaluatePlan(draft);
  ASSERT_TRUE(evaluation) << evaluation.error();
  EXPECT_EQ(evaluation->input.occupancies, evaluation->input.transfers);
  // F 2, 3 seconds of values, F and B 6, their gradients 3, B 4.
  EXPECT_DOUBLE_EQ(evaluation->simulation.makespan, 2 + 3 + 6 + 3 + 4);
}

TEST(PlanEvaluation, recomputeTradesTimeForMemory) {
  Graph graph = chain(4, 1, 8, 10);
  Cluster devices = cluster(2);
  PlanDraft draft = draftOf(graph, devices, 2, "gpipe", 4);
  auto kept = evaluatePlan(draft);
  draft.checkpoint = CheckpointMode::Always;
  auto again = evaluatePlan(draft);
  EXPECT_EQ(kept->stages[0].slots, 4);
  EXPECT_EQ(again->stages[0].slots, 1);
  EXPECT_LT(again->peakBytes[0], kept->peakBytes[0]);
  EXPECT_GT(again->simulation.makespan, kept->simulation.makespan);
}

TEST(PlanEvaluation, valuesGoDirectlyToTheirReaders) {
  Graph graph = chain(3, 1, 8, 0);
  graph.addEdge(0, 2, 8, "v0", 8); // The same value again: a portal.
  auto channels = crossingChannels(graph, {0, 1, 2}, true);
  ASSERT_EQ(channels.size(), 6u);
  EXPECT_EQ(channels[0].from, 0);
  EXPECT_EQ(channels[0].to, 1);
  EXPECT_EQ(channels[2].from, 0);
  EXPECT_EQ(channels[2].to, 2);
  EXPECT_EQ(channels[3].from, 2); // Its gradient.
  EXPECT_EQ(channels[3].to, 0);
  // One value, one channel, for two readers in a stage.
  EXPECT_EQ(crossingChannels(graph, {0, 1, 1}, false).size(), 1u);
}

TEST(PlanEvaluation, replicasAddTheirGradients) {
  Graph graph = chain(2, 1, 0, 1000);
  Cluster devices = cluster(4, 1000);
  PlanDraft draft = draftOf(graph, devices, 2, "gpipe", 1);
  auto one = evaluatePlan(draft);
  draft.devices = {{0, 1}, {2, 3}};
  auto two = evaluatePlan(draft);
  // A ring of two sends half of the 1000 bytes twice; only the first stage's
  // all-reduce, which is the last, is not hidden.
  EXPECT_DOUBLE_EQ(two->simulation.makespan, one->simulation.makespan + 1);
}

TEST(PipelinePlan, jsonGivesBackAnEqualPlan) {
  Graph graph = chain(5, 0.25, 8, 10);
  Cluster devices = cluster(2);
  PlanDraft draft = draftOf(graph, devices, 2, "zb-h1", 3);
  auto evaluation = evaluatePlan(draft);
  PipelinePlan plan = makePlan(draft, *evaluation, 12, "zb-h1");
  plan.predicted.period = 3;
  plan.model = "chain";
  std::string text = plan.toJson();
  auto read = PipelinePlan::fromJson(text);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->toJson(), text);
  EXPECT_EQ(read->schedule.ranks, plan.schedule.ranks);
  EXPECT_EQ(read->microbatches(), 3);
  EXPECT_DOUBLE_EQ(read->predicted.step, evaluation->simulation.makespan);
  EXPECT_DOUBLE_EQ(read->predicted.period, 3);
}

struct JsonFault {
  const char *from, *to, *expected;
};

TEST(PipelinePlan, jsonFaultsNameTheirPath) {
  Graph graph = chain(2, 0.25, 8, 10);
  Cluster devices = cluster(2);
  PlanDraft draft = draftOf(graph, devices, 2, "gpipe", 1);
  std::string good = makePlan(draft, *evaluatePlan(draft), 4, "gpipe").toJson();
  const JsonFault faults[] = {
      {"\"version\": 1", "\"version\": 2", "$.version: "},
      {"\"train\"", "\"both\"", "$.mode: expected train or infer"},
      {"\"never\"", "\"maybe\"", "$.checkpoint: expected always"},
      {"\"microbatches\": 1", "\"microbatches\": 2",
       "$.microbatches: 2, but the schedule has 1 for each of 1 replicas"},
      {"\"rank\": 1", "\"rank\": 0", "$.stages[1].rank: 0, but"},
      {"0F0", "0X0", "$.schedule.ranks: "},
      {"0F0,", "0F0,0SEND_F0,", "$.schedule.ranks: "},
      {"\"k1\",\n      1", "\"k1\",\n      2", "$.kernels[1]: expected"},
      {"\"kernels\"", "\"kernles\"", "$: 'kernels' is missing"},
      {"\"d1\"", "\"d1\", \"d2\"", "$.stages[1].devices: 2 for 1 replicas"},
      {"\"batch\": 4", "\"batch\": 0", "$.batch: expected a whole number"},
  };
  for (const JsonFault &fault : faults) {
    std::string text = good;
    size_t at = text.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from << " in\n" << text;
    text.replace(at, std::string(fault.from).size(), fault.to);
    auto read = PipelinePlan::fromJson(text);
    ASSERT_FALSE(read) << fault.to;
    EXPECT_EQ(read.error().rfind(fault.expected, 0), 0u)
        << read.error() << " instead of " << fault.expected;
  }
  EXPECT_FALSE(PipelinePlan::fromJson("{"));
}

PlanSpace spaceOf(const Graph &graph, const Cluster &devices,
                  std::vector<int> counts) {
  PlanSpace space;
  space.cluster = &devices;
  space.batch = 16;
  space.parameterCopies = 3;
  for (int count : counts) {
    Graph scaled = graph;
    for (Kernel &kernel : scaled.kernels) {
      kernel.forwardTime /= count;
      kernel.backwardInputTime /= count;
      kernel.backwardWeightTime /= count;
      kernel.savedBytes /= count;
    }
    for (Value &value : scaled.values) {
      value.bytes /= count;
      value.gradientBytes /= count;
    }
    space.graphs.push_back({count, scaled});
  }
  return space;
}

TEST(PlanSearch, isNotWorseThanAnySinglePlan) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    Graph graph = chain(6 + round % 5, 1, 1000, 100);
    for (Kernel &kernel : graph.kernels) {
      kernel.forwardTime = 0.5 + random() % 100 * 0.01;
      kernel.backwardInputTime = 0.5 + random() % 100 * 0.01;
    }
    Cluster devices = cluster(3, 1e4);
    PlanSpace space = spaceOf(graph, devices, {1, 4, 8});
    space.refined = 0; // From here on, plans are compared as they were found.
    auto best = searchPlans(space);
    ASSERT_TRUE(best) << best.error();
    double step = best->candidates.front().plan.predicted.step;
    EXPECT_GE(step, best->lowerBound * (1 - 1e-9));
    for (const PlanCandidate &candidate : best->candidates) {
      EXPECT_GE(candidate.plan.predicted.step, step * (1 - 1e-9));
      EXPECT_GE(candidate.plan.predicted.step,
                candidate.plan.predicted.lowerBound * (1 - 1e-9));
      // What the plan states is what its draft costs.
      auto again = evaluatePlan(candidate.draft);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->step, candidate.plan.predicted.step);
    }
    for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
      PlanSpace one = space;
      one.schedules = {name};
      auto single = searchPlans(one);
      ASSERT_TRUE(single) << single.error();
      EXPECT_LE(step,
                single->candidates.front().plan.predicted.step * (1 + 1e-9))
          << name;
    }
    space.refined = 4;
    EXPECT_LE(searchPlans(space)->candidates.front().plan.predicted.step, step);
  }
}

TEST(PlanSearch, dataParallelismCanWin) {
  // Few parameters and large activations, as in ResNet-50, where PipeDream's
  // planner chooses plain data parallelism too.
  Cluster devices = cluster(4, 1e6);
  Graph convolutions = chain(8, 1, 4000000, 1000);
  PlanSpace space = spaceOf(convolutions, devices, {4, 8});
  auto result = searchPlans(space);
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(result->candidates.front().plan.replicas, 4);
  EXPECT_EQ(result->candidates.front().plan.schedule.stages, 1);
  // Large layers with small activations: a pipeline.
  Graph dense = chain(8, 1, 4000, 4000000);
  space = spaceOf(dense, devices, {4, 8});
  result = searchPlans(space);
  EXPECT_EQ(result->candidates.front().plan.replicas, 1);
  EXPECT_GE(result->candidates.front().plan.schedule.ranks.size(), 3u);
}

/// Steps of inference follow each other, and what they prepare is there before
/// the first.
TEST(PlanSearch, inferenceIsAsFastAsItsPeriod) {
  Graph graph = chain(4, 1, 10, 1000);
  for (Kernel &kernel : graph.kernels) {
    kernel.prepareTime = 100;
    kernel.preparedBytes = 1;
  }
  Cluster devices = cluster(2, 1e9);
  PlanSpace space = spaceOf(graph, devices, {1});
  space.training = false;
  auto result = searchPlans(space);
  ASSERT_TRUE(result) << result.error();
  const PlanCandidate &best = result->candidates.front();
  EXPECT_EQ(best.plan.schedule.ranks.size(), 2u);
  EXPECT_NEAR(best.plan.predicted.step, 2, 1e-3);
  EXPECT_NEAR(best.plan.predicted.latency, 4, 1e-3);
  EXPECT_NEAR(best.plan.predicted.bubble, 0, 1e-3);
  EXPECT_NEAR(best.plan.predicted.throughput, 8, 1e-2);
  EXPECT_LE(best.plan.predicted.lowerBound, best.plan.predicted.step);
  // A kernel of another size is moved for the period, not for the latency,
  // which no cut changes.
  graph.kernels[1].forwardTime = 2;
  space = spaceOf(graph, devices, {1});
  space.training = false;
  result = searchPlans(space);
  EXPECT_NEAR(result->candidates.front().plan.predicted.step, 3, 1e-3);
  // Micro-batches of their own on each device need no cut.
  space = spaceOf(graph, devices, {1, 2});
  space.training = false;
  result = searchPlans(space);
  EXPECT_EQ(result->candidates.front().plan.replicas, 2);
  EXPECT_NEAR(result->candidates.front().plan.predicted.step, 2.5, 1e-3);
}

TEST(PlanSearch, keepsToTheMemory) {
  Graph graph = chain(8, 1, 10, 1000);
  Cluster roomy = cluster(4);
  PlanSpace space = spaceOf(graph, roomy, {1, 4});
  space.checkpoints = {CheckpointMode::Never, CheckpointMode::Always};
  auto free = searchPlans(space);
  ASSERT_TRUE(free);
  // Parameters alone take 24,000 bytes: four ranks are needed, and little is
  // left for activations.
  Cluster tight = cluster(4, 1e9, 6300);
  space.cluster = &tight;
  auto bound = searchPlans(space);
  ASSERT_TRUE(bound) << bound.error();
  const PlanCandidate &best = bound->candidates.front();
  ASSERT_FALSE(best.overflow) << *best.overflow;
  EXPECT_EQ(best.plan.schedule.ranks.size(), 4u);
  for (int64_t bytes : best.plan.predicted.peakBytes)
    EXPECT_LE(bytes, 6300);
  // Nothing fits: the answer says so and by how much.
  Cluster tiny = cluster(4, 1e9, 1000);
  space.cluster = &tiny;
  auto none = searchPlans(space);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->candidates.front().overflow);
}

TEST(PlanSearch, slowDevicesGetLess) {
  Graph graph = chain(12, 1, 10, 100);
  Cluster mixed = cluster(2);
  mixed.devices[1].speed = 2;
  PlanSpace space = spaceOf(graph, mixed, {8});
  space.minRanks = 2;
  auto result = searchPlans(space);
  ASSERT_TRUE(result) << result.error();
  const PipelinePlan &plan = result->candidates.front().plan;
  int count[2] = {};
  for (const PlacedKernel &kernel : plan.kernels)
    ++count[plan.stages[kernel.stage].devices.front() == "d1"];
  EXPECT_EQ(count[0], 4);
  EXPECT_EQ(count[1], 8);
}

TEST(PlanSearch, cutsAreMovedWhereThatShortensTheStep) {
  std::mt19937 random(11);
  bool moved = false;
  for (int round = 0; round < 30; ++round) {
    Graph graph = chain(12, 1, 1000, 100);
    for (Kernel &kernel : graph.kernels)
      kernel.forwardTime = 0.5 + random() % 100 * 0.02;
    Cluster devices = cluster(4, 1e4);
    PlanSpace space = spaceOf(graph, devices, {2});
    space.minRanks = 4;
    space.maxStagesPerRank = 1;
    space.schedules = {"1f1b"};
    space.refined = 0;
    auto plain = searchPlans(space);
    space.refined = 4;
    auto refined = searchPlans(space);
    ASSERT_TRUE(plain && refined);
    const PlanCandidate &before = plain->candidates.front();
    const PlanCandidate &after = refined->candidates.front();
    EXPECT_LE(after.plan.predicted.step, before.plan.predicted.step);
    if (after.movedKernels > 0) {
      moved = true;
      EXPECT_LT(after.plan.predicted.step, before.plan.predicted.step);
      EXPECT_EQ(evaluatePlan(after.draft)->simulation.makespan,
                after.plan.predicted.step);
    }
  }
  EXPECT_TRUE(moved);
}

TEST(PlanSearch, noPlanIsListedTwice) {
  // All that makes a plan, but not its name.
  auto textOf = [](const PlanCandidate &candidate) {
    PipelinePlan plan = candidate.plan;
    plan.scheduleName = "any";
    return plan.toJson();
  };
  std::mt19937 random(5);
  size_t duplicates = 0;
  for (int round = 0; round < 10; ++round) {
    Graph graph = chain(6, 1, 1000, 100);
    for (Kernel &kernel : graph.kernels)
      kernel.forwardTime = 0.5 + random() % 100 * 0.02;
    Cluster devices = cluster(3, 1e4);
    PlanSpace space = spaceOf(graph, devices, {1, 2, 4});
    space.refined = round % 2 ? 4 : 0;
    auto result = searchPlans(space);
    ASSERT_TRUE(result) << result.error();
    duplicates += result->duplicates;
    std::map<std::string, std::string> names;
    for (const PlanCandidate &candidate : result->candidates) {
      const std::string &name = candidate.plan.scheduleName;
      auto [known, isNew] = names.try_emplace(textOf(candidate), name);
      EXPECT_TRUE(isNew) << name << " is " << known->second;
    }
    // What a schedule by name finds keeps its name.
    space.schedules = {"1f1b"};
    auto named = searchPlans(space);
    ASSERT_TRUE(named) << named.error();
    if (space.refined == 0)
      for (const PlanCandidate &candidate : named->candidates) {
        auto listed = names.find(textOf(candidate));
        if (listed != names.end())
          EXPECT_NE(listed->second.rfind("auto", 0), 0u) << listed->second;
      }
  }
  EXPECT_GT(duplicates, 0u);
}

TEST(PlanSearch, faultsAreNamed) {
  Graph graph = chain(2, 1, 10, 100);
  Cluster devices = cluster(2);
  PlanSpace space = spaceOf(graph, devices, {1});
  space.schedules = {"fastest"};
  EXPECT_EQ(
      searchPlans(space).error().rfind("there is no schedule 'fastest'", 0),
      0u);
  space.schedules.clear();
  space.minRanks = 3;
  EXPECT_FALSE(searchPlans(space));
  space.minRanks = 2;
  space.maxRanks = 1;
  EXPECT_EQ(searchPlans(space).error(),
            "at most 1 ranks are less than at least 2");
  space.graphs.clear();
  EXPECT_EQ(searchPlans(space).error(), "there is no graph to plan");
}

TEST(ExplainCuts, noMoveOfABalancedChainIsBetter) {
  Graph graph = chain(8, 1, 10, 100);
  Cluster devices = cluster(2);
  PlanSpace space = spaceOf(graph, devices, {4});
  space.schedules = {"1f1b"};
  space.minRanks = 2;
  auto result = searchPlans(space);
  ASSERT_TRUE(result);
  const PlanCandidate &best = result->candidates.front();
  auto alternatives = explainCuts(best);
  // One or two kernels in either direction.
  ASSERT_EQ(alternatives.size(), 4u);
  EXPECT_EQ(alternatives[0].kernels, std::vector<size_t>({3}));
  EXPECT_EQ(alternatives[1].kernels, std::vector<size_t>({3, 2}));
  EXPECT_EQ(alternatives[2].kernels, std::vector<size_t>({4}));
  for (const CutAlternative &alternative : alternatives)
    EXPECT_GT(alternative.step, best.plan.predicted.step);
}

/// Two machines of two devices: what crosses the slow link depends on the
/// sizes.
TEST(PlanSearch, replicasLieWhereLinksAreFast) {
  Cluster devices = cluster(4, 1e3);
  devices.groups = {{"m0", {1e9, 0}, std::nullopt},
                    {"m1", {1e9, 0}, std::nullopt}};
  devices.groupOf = {0, 0, 1, 1};
  auto best = [&](int64_t bytes, int64_t parameters) {
    PlanSpace space;
    space.batch = 4;
    space.graphs = {{4, chain(4, 1, bytes, parameters)}};
    space.cluster = &devices;
    space.minRanks = space.maxRanks = 2;
    space.maxStagesPerRank = 1;
    space.schedules = {"1f1b"};
    auto result = searchPlans(space);
    EXPECT_TRUE(bool(result)) << result.error();
    const PlanCandidate &first = result->candidates.front();
    EXPECT_TRUE(first.assumesAlikeLinks);
    return first.draft.devices;
  };
  using Devices = std::vector<std::vector<size_t>>;
  // Large activations: a pipeline in each machine. Large parameters: the
  // replicas of a stage in one.
  EXPECT_EQ(best(3000, 10), (Devices{{0, 2}, {1, 3}}));
  EXPECT_EQ(best(10, 3000), (Devices{{0, 1}, {2, 3}}));
}

TEST(PlanSearch, endsAtItsDeadline) {
  Cluster devices = cluster(4);
  PlanSpace space;
  space.batch = 8;
  space.graphs = {{4, chain(20, 1e-3, 100, 10)}, {8, chain(20, 5e-4, 50, 10)}};
  space.cluster = &devices;
  space.deadline = std::chrono::steady_clock::now();
  auto result = searchPlans(space);
  ASSERT_TRUE(bool(result)) << result.error();
  EXPECT_TRUE(result->outOfTime);
  EXPECT_GT(result->skipped, 0u);
  EXPECT_GE(result->candidates.front().plan.predicted.step, result->lowerBound);
  space.deadline.reset();
  result = searchPlans(space);
  EXPECT_FALSE(result->outOfTime);
  EXPECT_EQ(result->skipped, 0u);
}

} // namespace
