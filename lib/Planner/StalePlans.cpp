//===- StalePlans.cpp - Plans without a flush -----------------------------===//
#include "pp/Planner/StalePlans.h"
#include "PlanMemory.h"
#include "plan/SharePlan.h"
#include "pp/Planner/AsynchronousSimulator.h"
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"
#include <algorithm>
#include <numeric>

using namespace pp::planner;

/// From each part to the next, both ways: the longest of the values' times.
static std::vector<double> borderTimes(const PlanDraft &draft,
                                       const std::vector<Channel> &channels) {
  std::vector<double> all = channelTimes(draft, channels);
  std::vector<double> borders(draft.devices.size() - 1, 0);
  for (size_t c = 0; c < channels.size(); ++c) {
    auto [first, last] = std::minmax(draft.partOf(channels[c].from),
                                     draft.partOf(channels[c].to));
    for (int border = first; border < last; ++border)
      borders[border] = std::max(borders[border], all[c]);
  }
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
  AsynchronousInput input;
  std::vector<StageLoad> parts = stageLoads(draft);
  std::vector<Channel> channels =
      crossingChannels(*draft.graph, draft.stageOf, /*training=*/true);
  Schedule computations = draft.schedule;
  if (!computations.replicas.empty())
    channels = replicateChannels(computations, channels);
  std::vector<bool> prepares;
  for (int stage = 0; stage < computations.stages; ++stage) {
    plan.stages.push_back(parts[draft.partOf(stage)]);
    prepares.push_back(plan.stages.back().preparedBytes > 0);
  }
  insertPreparation(computations, prepares);
  Result<Schedule> complete = insertRollingTransfers(computations, channels);
  if (!complete)
    return Failure{complete.error()};
  plan.peakBytes =
      countMemory(draft, *complete, assignRollingSlots(*complete), plan.stages);
  if (draft.schedule.clockDistance)
    addSharing(plan);
  plan.overflow = findOverflow(draft, plan.peakBytes);

  input.transfers = borderTimes(draft, channels);
  // Of the replicas of a part, the first stands for all.
  for (int stage = 0; stage < draft.schedule.stages; ++stage) {
    if (draft.schedule.replicaOf(stage).number > 0)
      continue;
    StageTimes times = plan.stages[stage].times;
    // Once per update, too.
    times.update += times.prepare;
    input.stages.push_back(times);
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

/// The cut of a graph into so many stages whose slowest is shortest, where a
/// stage may have several of all devices; nothing if there is none.
static std::optional<PlanDraft> cut(const PlanSpace &space, const Graph &graph,
                                    int stages, bool withReplicas) {
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = space.cluster;
  problem.maxStages = stages;
  problem.exactStageCount = true;
  problem.replicate = withReplicas;
  problem.useAllDevices = withReplicas;
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
  size_t ranks = 0;
  for (const PlannedStage &stage : solution->stages) {
    std::vector<size_t> &devices = draft.devices.emplace_back(stage.devices);
    // These are alike, and the runtime's ranks are in the order of stages.
    if (withReplicas)
      std::iota(devices.begin(), devices.end(), ranks);
    ranks += devices.size();
  }
  draft.parameterCopies = space.parameterCopies;
  draft.updateSecondsPerByte = space.updateSecondsPerByte;
  return draft;
}

/// Replicas of stages, and virtual workers, need devices that are alike.
static bool areInterchangeable(const std::vector<Device> &devices) {
  return std::all_of(devices.begin(), devices.end(), [&](const Device &device) {
    return device.kind == devices[0].kind && device.speed == devices[0].speed &&
           device.memoryBytes == devices[0].memoryBytes;
  });
}

/// Numbers of virtual workers that a schedule may have; 1: it has none.
static std::vector<int> workersOf(const PlanSpace &space, std::string_view name,
                                  int most, int microbatches) {
  if (weightRuleOf(name) != WeightRule::Waves)
    return {1};
  std::vector<int> workers;
  if (areInterchangeable(space.cluster->devices))
    for (int count = 2; count <= std::min(most, microbatches); ++count)
      if (microbatches % count == 0)
        workers.push_back(count);
  return workers;
}

namespace {

/// The best plan of a schedule without a flush so far.
class BestPlan {
public:
  BestPlan(const PlanSpace &space, std::string_view name)
      : space(space), name(name) {}

  static bool isWorse(const StalePlan &a, const StalePlan &b) {
    return std::pair(a.overflow.has_value(), a.step) >
           std::pair(b.overflow.has_value(), b.step);
  }

  void consider(PlanDraft draft, Schedule schedule, size_t graph,
                int workers = 1) {
    draft.schedule = std::move(schedule);
    Result<StalePlan> plan =
        evaluateStalePlan(draft, *weightRuleOf(name), workers);
    if (!plan || (found && !isWorse(*found, *plan)))
      return;
    found = std::move(*plan);
    found->scheduleName = name;
    found->graph = graph;
  }

  /// One stage per rank.
  void tryRanks(size_t graph, int ranks, int workers, int clockDistance) {
    const MicrobatchGraph &entry = space.graphs[graph];
    Result<Schedule> schedule = makeRollingSchedule(
        name, {ranks, entry.microbatches / workers, 0, clockDistance});
    if (!schedule || entry.graph.kernels.size() < size_t(ranks))
      return;
    if (std::optional<PlanDraft> draft =
            cut(space, entry.graph, ranks, /*withReplicas=*/false))
      consider(std::move(*draft), std::move(*schedule), graph, workers);
  }

  /// Of the devices, each stage several.
  void tryReplicas(size_t graph, int stages) {
    const MicrobatchGraph &entry = space.graphs[graph];
    if (entry.graph.kernels.size() < size_t(stages))
      return;
    std::optional<PlanDraft> draft =
        cut(space, entry.graph, stages, /*withReplicas=*/true);
    if (!draft)
      return;
    std::vector<int> counts;
    for (const std::vector<size_t> &devices : draft->devices)
      counts.push_back(static_cast<int>(devices.size()));
    if (Result<Schedule> schedule =
            makeRollingReplicas(name, counts, entry.microbatches))
      consider(std::move(*draft), std::move(*schedule), graph);
  }

  std::optional<StalePlan> found;

private:
  const PlanSpace &space;
  std::string_view name;
};

} // namespace

std::vector<StalePlan> pp::planner::findStalePlans(const PlanSpace &space,
                                                   int clockDistance) {
  int devices = static_cast<int>(space.cluster->devices.size());
  int most = space.maxRanks > 0 ? std::min(devices, space.maxRanks) : devices;
  // As the search for plans with a flush does.
  constexpr int mostReplicated = 8;
  bool canReplicate = space.replicate && space.maxRanks == 0 &&
                      space.mixing.empty() &&
                      areInterchangeable(space.cluster->devices);
  std::vector<StalePlan> best;
  for (std::string_view name : rollingScheduleNames()) {
    BestPlan plan(space, name), replicated(space, name);
    for (size_t graph = 0; graph < space.graphs.size(); ++graph) {
      for (int workers :
           workersOf(space, name, most, space.graphs[graph].microbatches)) {
        // Workers may have one stage each.
        int least = workers > 1 ? 1 : 2;
        for (int ranks = least; ranks * workers <= most; ++ranks)
          if (ranks * workers >= std::max(2, space.minRanks))
            plan.tryRanks(graph, ranks, workers, clockDistance);
      }
      if (canReplicate && name == "pipedream")
        for (int stages = 2; stages < std::min(devices, mostReplicated);
             ++stages)
          replicated.tryReplicas(graph, stages);
    }
    for (BestPlan *each : {&plan, &replicated})
      if (each->found)
        best.push_back(std::move(*each->found));
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const StalePlan &a, const StalePlan &b) {
                     return BestPlan::isWorse(b, a);
                   });
  return best;
}
