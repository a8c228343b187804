//===- StalePlans.cpp - Plans without a flush -----------------------------===//
#include "pp/Planner/StalePlans.h"
#include "PlanMemory.h"
#include "plan/SharePlan.h"
#include "pp/Planner/AsynchronousSimulator.h"
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Rolling.h"
#include <algorithm>

using namespace pp::planner;

/// From each stage to the next, both ways: the longest of the values' times.
static std::vector<double> borderTimes(const PlanDraft &draft,
                                       const std::vector<Channel> &channels) {
  std::vector<double> all = channelTimes(draft, channels);
  std::vector<double> borders(draft.devices.size() - 1, 0);
  for (size_t c = 0; c < channels.size(); ++c)
    for (int border = std::min(channels[c].from, channels[c].to);
         border < std::max(channels[c].from, channels[c].to); ++border)
      borders[border] = std::max(borders[border], all[c]);
  return borders;
}

/// What a virtual worker of several adds to each of its stages.
static void addSharing(StalePlan &plan) {
  const Schedule &schedule = plan.draft.schedule;
  Link link = plan.draft.cluster->slowestLink(
      schedule.ranks.size() * static_cast<size_t>(plan.workers));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageLoad &load = plan.stages[stage];
    auto bytes = static_cast<int64_t>(
        pp::runtime::SharedLayout(
            pp::runtime::alignUp(static_cast<uint64_t>(load.parameterBytes)),
            static_cast<unsigned>(plan.workers),
            static_cast<unsigned>(*schedule.clockDistance))
            .bytes());
    load.memoryBytes += bytes;
    plan.peakBytes[schedule.rankOfStage[stage]] += bytes;
    // All parts but the own, there and back, once per wave.
    int64_t sent = load.parameterBytes - load.parameterBytes / plan.workers;
    if (plan.workers > 1)
      load.times.update += 2 * link.transferTime(sent) / schedule.microbatches;
  }
}

Result<StalePlan> pp::planner::evaluateStalePlan(const PlanDraft &draft,
                                                 WeightRule rule, int workers) {
  StalePlan plan;
  plan.draft = draft;
  plan.workers = workers;
  plan.stages = stageLoads(draft);
  std::vector<Channel> channels =
      crossingChannels(*draft.graph, draft.stageOf, /*training=*/true);
  Schedule computations = draft.schedule;
  std::vector<bool> prepares;
  for (const StageLoad &load : plan.stages)
    prepares.push_back(load.preparedBytes > 0);
  insertPreparation(computations, prepares);
  Result<Schedule> complete = insertRollingTransfers(computations, channels);
  if (!complete)
    return Failure{complete.error()};
  plan.peakBytes =
      countMemory(draft, *complete, assignRollingSlots(*complete), plan.stages);
  if (draft.schedule.clockDistance)
    addSharing(plan);
  plan.overflow = findOverflow(draft, plan.peakBytes);

  AsynchronousInput input;
  input.transfers = borderTimes(draft, channels);
  for (const StageLoad &load : plan.stages) {
    input.stages.push_back(load.times);
    // Once per update, too.
    input.stages.back().update += load.times.prepare;
  }
  // The second half is measured, but for the last micro-batches.
  int ranks = static_cast<int>(draft.schedule.ranks.size());
  int steps = 4 + 4 * ranks / draft.schedule.microbatches +
              2 * largestLag(draft.schedule);
  Result<AsynchronousSimulation> steady =
      simulateAsynchronous(unrollVersions(draft.schedule, rule, steps), input);
  if (!steady)
    return Failure{steady.error()};
  plan.step = draft.schedule.microbatches / steady->throughput;
  for (double share : steady->utilization)
    plan.utilization += share / static_cast<double>(steady->utilization.size());
  for (int stage = 0; stage < draft.schedule.stages; ++stage)
    plan.delays.push_back(gradientDelay(draft.schedule, rule, stage));
  return plan;
}

/// The cut of a graph into as many stages as ranks whose slowest is shortest;
/// nothing if there is none.
static std::optional<PlanDraft> cut(const PlanSpace &space, const Graph &graph,
                                    int ranks) {
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = space.cluster;
  problem.maxStages = ranks;
  problem.exactStageCount = true;
  problem.memory.parameterCopies = space.parameterCopies;
  // Some seconds: there are many shapes.
  problem.limits.steps = 100'000'000;
  problem.limits.deadline = space.deadline;
  Result<PartitionSolution> solution = partitionGraph(problem);
  if (!solution)
    return std::nullopt;
  PlanDraft draft;
  draft.graph = &graph;
  draft.cluster = space.cluster;
  draft.stageOf = solution->stageOf;
  for (int stage = 0; stage < ranks; ++stage)
    draft.devices.push_back({solution->stages[stage].devices.front()});
  draft.parameterCopies = space.parameterCopies;
  draft.updateSecondsPerByte = space.updateSecondsPerByte;
  return draft;
}

/// Numbers of virtual workers that a schedule may have; 1: it has none.
static std::vector<int> workersOf(const PlanSpace &space, std::string_view name,
                                  int most, int microbatches) {
  if (weightRuleOf(name) != WeightRule::Waves)
    return {1};
  const std::vector<Device> &devices = space.cluster->devices;
  auto isLikeFirst = [&](const Device &device) {
    return device.kind == devices[0].kind && device.speed == devices[0].speed &&
           device.memoryBytes == devices[0].memoryBytes;
  };
  std::vector<int> workers;
  if (std::all_of(devices.begin(), devices.end(), isLikeFirst))
    for (int count = 2; count <= std::min(most, microbatches); ++count)
      if (microbatches % count == 0)
        workers.push_back(count);
  return workers;
}

std::vector<StalePlan> pp::planner::findStalePlans(const PlanSpace &space,
                                                   int clockDistance) {
  int most = static_cast<int>(space.cluster->devices.size());
  if (space.maxRanks > 0)
    most = std::min(most, space.maxRanks);
  auto isWorse = [](const StalePlan &a, const StalePlan &b) {
    return std::pair(a.overflow.has_value(), a.step) >
           std::pair(b.overflow.has_value(), b.step);
  };
  std::vector<StalePlan> best;
  for (std::string_view name : rollingScheduleNames()) {
    std::optional<StalePlan> found;
    auto consider = [&](size_t g, int workers, int ranks) {
      const MicrobatchGraph &entry = space.graphs[g];
      Result<Schedule> schedule = makeRollingSchedule(
          name, {ranks, entry.microbatches / workers, 0, clockDistance});
      if (!schedule || entry.graph.kernels.size() < size_t(ranks))
        return;
      std::optional<PlanDraft> draft = cut(space, entry.graph, ranks);
      if (!draft)
        return;
      draft->schedule = *schedule;
      Result<StalePlan> plan =
          evaluateStalePlan(*draft, *weightRuleOf(name), workers);
      if (!plan || (found && !isWorse(*found, *plan)))
        return;
      found = std::move(*plan);
      found->scheduleName = name;
      found->graph = g;
    };
    for (size_t g = 0; g < space.graphs.size(); ++g)
      for (int workers :
           workersOf(space, name, most, space.graphs[g].microbatches)) {
        // Workers may have one stage each.
        int least = workers > 1 ? 1 : 2;
        for (int ranks = least; ranks * workers <= most; ++ranks)
          if (ranks * workers >= std::max(2, space.minRanks))
            consider(g, workers, ranks);
      }
    if (found)
      best.push_back(std::move(*found));
  }
  std::stable_sort(
      best.begin(), best.end(),
      [&](const StalePlan &a, const StalePlan &b) { return isWorse(b, a); });
  return best;
}
