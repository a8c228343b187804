//===- PlanEvaluation.cpp - What a plan costs -----------------------------===//
#include "pp/Planner/PlanEvaluation.h"
#include "PlanMemory.h"
#include "pp/Planner/Schedule/Preparation.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Slots.h"
#include "pp/Planner/Schedule/Transfers.h"
#include <algorithm>
#include <map>

using namespace pp::planner;

std::vector<Channel>
pp::planner::crossingChannels(const Graph &graph,
                              const std::vector<int> &stageOf, bool training) {
  std::vector<Channel> channels;
  for (const Value &value : graph.values) {
    int from = stageOf[value.producer];
    std::vector<int> readers;
    for (size_t consumer : value.consumers)
      if (stageOf[consumer] != from)
        readers.push_back(stageOf[consumer]);
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (int to : readers) {
      Phase last = training ? Phase::BackwardWeight : Phase::Forward;
      if (value.bytes > 0)
        channels.push_back({from, to, Phase::Forward, Phase::Forward, last,
                            value.name, value.bytes});
      if (training && value.gradientBytes > 0)
        channels.push_back({to, from, Phase::BackwardInput,
                            Phase::BackwardInput, Phase::BackwardWeight,
                            value.name, value.gradientBytes});
    }
  }
  return channels;
}

KernelTimes pp::planner::timesOn(const Kernel &kernel, const Device &device) {
  for (const MeasuredTimes &measured : kernel.measured)
    if (measured.kind == device.kind)
      return measured.times;
  return {kernel.forwardTime / device.speed,
          kernel.backwardInputTime / device.speed,
          kernel.backwardWeightTime / device.speed};
}

std::vector<StageLoad> pp::planner::stageLoads(const PlanDraft &draft) {
  std::vector<StageLoad> loads(draft.devices.size());
  // Replicas are most often alike.
  std::vector<std::vector<const Device *>> distinct(loads.size());
  for (size_t stage = 0; stage < loads.size(); ++stage)
    for (size_t index : draft.devices[stage]) {
      const Device &device = draft.cluster->devices[index];
      bool isKnown = std::any_of(distinct[stage].begin(), distinct[stage].end(),
                                 [&](const Device *other) {
                                   return other->speed == device.speed &&
                                          other->kind == device.kind;
                                 });
      if (!isKnown)
        distinct[stage].push_back(&device);
    }
  for (size_t k = 0; k < draft.graph->kernels.size(); ++k) {
    const Kernel &kernel = draft.graph->kernels[k];
    StageLoad &load = loads[draft.stageOf[k]];
    // The replica that is slowest over all phases counts in each.
    KernelTimes times;
    for (const Device *device : distinct[draft.stageOf[k]]) {
      KernelTimes here = timesOn(kernel, *device);
      if (here.total() >= times.total())
        times = here;
    }
    load.times.forward += times.forward;
    load.times.backwardInput += times.backwardInput;
    load.times.backwardWeight += times.backwardWeight;
    double prepare = 0;
    for (const Device *device : distinct[draft.stageOf[k]])
      prepare = std::max(prepare, kernel.prepareTime / device->speed);
    load.times.prepare += prepare;
    load.preparedBytes += kernel.preparedBytes;
    load.parameterBytes += kernel.parameterBytes;
    load.savedBytes += kernel.savedBytes;
    load.workspaceBytes = std::max(load.workspaceBytes, kernel.workspaceBytes);
  }
  for (size_t stage = 0; stage < loads.size(); ++stage) {
    StageTimes &times = loads[stage].times;
    times.recompute = times.forward;
    times.update = ringAllReduceTime(*draft.cluster, draft.devices[stage],
                                     loads[stage].parameterBytes) +
                   draft.updateSecondsPerByte *
                       static_cast<double>(loads[stage].parameterBytes);
  }
  return loads;
}

/// Per channel the largest timeOf(link, bytes) of the replicas' links, from the
/// sender to the receiver or back; 0 on one rank.
template <typename TimeOfLink>
static std::vector<double> worstTimes(const PlanDraft &draft,
                                      const std::vector<Channel> &channels,
                                      TimeOfLink timeOf, bool isBack = false) {
  std::vector<double> times;
  for (const Channel &channel : channels) {
    std::vector<size_t> senders = draft.devicesOf(channel.from),
                        receivers = draft.devicesOf(channel.to);
    if (isBack)
      std::swap(senders, receivers);
    double &worst = times.emplace_back(0);
    if (draft.schedule.crossesRanks(channel))
      for (size_t i = 0; i < senders.size(); ++i)
        worst = std::max(worst,
                         timeOf(draft.cluster->link(senders[i], receivers[i]),
                                channel.bytes));
  }
  return times;
}

std::vector<double>
pp::planner::channelTimes(const PlanDraft &draft,
                          const std::vector<Channel> &channels) {
  return worstTimes(draft, channels, [](const Link &link, int64_t bytes) {
    return link.transferTime(bytes);
  });
}

std::vector<double>
pp::planner::overheadTimes(const PlanDraft &draft,
                           const std::vector<Channel> &channels) {
  return worstTimes(draft, channels, [](const Link &link, int64_t bytes) {
    return link.overheadTime(bytes);
  });
}

/// Per channel, how long its way carries nothing else.
static std::vector<double>
occupancyTimes(const PlanDraft &draft, const std::vector<Channel> &channels) {
  return worstTimes(draft, channels, [](const Link &link, int64_t bytes) {
    return link.occupancyTime(bytes);
  });
}

std::vector<double>
pp::planner::releaseTimes(const PlanDraft &draft,
                          const std::vector<Channel> &channels) {
  return worstTimes(
      draft, channels, [](const Link &link, int64_t) { return link.latency; },
      /*isBack=*/true);
}

Result<PlanEvaluation> pp::planner::evaluatePlan(const PlanDraft &draft) {
  PlanEvaluation evaluation;
  bool training = draft.schedule.isTraining();
  evaluation.stages = stageLoads(draft);
  Schedule computations = draft.schedule;
  // By stage of the schedule.
  std::vector<StageLoad> each;
  std::vector<bool> prepares;
  for (int stage = 0; stage < computations.stages; ++stage) {
    each.push_back(evaluation.stages[draft.partOf(stage)]);
    prepares.push_back(each.back().preparedBytes > 0);
  }
  insertPreparation(computations, prepares);
  if (training)
    insertRecompute(computations, draft.checkpoint);
  std::vector<Channel> channels =
      crossingChannels(*draft.graph, draft.stageOf, training);
  if (!computations.replicas.empty())
    channels = replicateChannels(computations, channels);
  auto schedule = insertTransfers(computations, channels);
  if (!schedule)
    return Failure{schedule.error()};
  evaluation.slots = std::make_shared<SlotAssignment>(chooseSlots(*schedule));
  evaluation.peakBytes = countMemory(draft, *schedule, *evaluation.slots, each);
  evaluation.schedule = sendEarly(*schedule);
  for (const StageLoad &load : each) {
    StageTimes &times = evaluation.input.stages.emplace_back(load.times);
    // Parameters that nobody changes are prepared before the first step.
    if (!training)
      times.prepare = 0;
  }
  evaluation.input.transfers =
      channelTimes(draft, evaluation.schedule.channels);
  evaluation.input.releases = releaseTimes(draft, evaluation.schedule.channels);
  evaluation.input.overheads =
      overheadTimes(draft, evaluation.schedule.channels);
  evaluation.input.occupancies =
      occupancyTimes(draft, evaluation.schedule.channels);
  evaluation.input.sends = {SendRule::Kind::Slots, {}, evaluation.slots.get()};
  auto simulation = simulate(evaluation.schedule, evaluation.input);
  if (!simulation) {
    // A send waits for a slot that a receive behind it would free.
    evaluation.schedule = *schedule;
    simulation = simulate(evaluation.schedule, evaluation.input);
  }
  if (!simulation)
    return Failure{simulation.error()};
  evaluation.simulation = *simulation;
  evaluation.step = simulation->makespan;
  evaluation.lowerBound =
      makespanLowerBound(evaluation.schedule, evaluation.input);
  if (!training) {
    if (auto period = stepPeriod(evaluation.schedule, evaluation.input))
      evaluation.step = *period;
    evaluation.lowerBound = 0;
    for (const RankSummary &rank : simulation->summary)
      evaluation.lowerBound = std::max(evaluation.lowerBound, rank.busy);
  }
  for (int stage = 0; stage < computations.stages; ++stage) {
    StageLoad &largest = evaluation.stages[draft.partOf(stage)];
    if (each[stage].memoryBytes > largest.memoryBytes)
      largest = each[stage];
  }
  evaluation.overflow = findOverflow(draft, evaluation.peakBytes);
  return evaluation;
}

double PlanEvaluation::idleShare() const {
  double busy = 0;
  for (const RankSummary &rank : simulation.summary)
    busy += rank.busy;
  double all = step * static_cast<double>(simulation.summary.size());
  return all > 0 ? std::max(1 - busy / all, 0.0) : 0;
}

double pp::planner::stepLowerBound(const PlanDraft &draft) {
  SimulationInput input;
  for (const StageLoad &load : stageLoads(draft))
    input.stages.push_back(load.times);
  Schedule outline = draft.schedule;
  outline.channels = crossingChannels(*draft.graph, draft.stageOf, true);
  input.transfers = channelTimes(draft, outline.channels);
  // Reads from the actions whether the schedule trains.
  outline.ranks[outline.rankOfStage[0]].push_back({ActionKind::Backward, 0, 0});
  return makespanLowerBound(outline, input);
}

PipelinePlan pp::planner::makePlan(const PlanDraft &draft,
                                   const PlanEvaluation &evaluation,
                                   int64_t batch, std::string scheduleName) {
  PipelinePlan plan;
  plan.training = draft.schedule.isTraining();
  plan.batch = batch;
  plan.checkpoint = draft.checkpoint;
  plan.scheduleName = std::move(scheduleName);
  plan.schedule = draft.schedule;
  plan.schedule.channels.clear();
  if (draft.schedule.replicas.empty())
    plan.replicas = static_cast<int>(draft.devices.front().size());
  for (size_t k = 0; k < draft.stageOf.size(); ++k)
    plan.kernels.push_back({draft.graph->kernels[k].name, draft.stageOf[k]});
  for (size_t s = 0; s < evaluation.stages.size(); ++s) {
    const StageLoad &load = evaluation.stages[s];
    PlanStage &stage = plan.stages.emplace_back();
    for (size_t device : draft.devices[s])
      stage.devices.push_back(draft.cluster->devices[device].name);
    stage.forward = load.times.forward;
    stage.backwardInput = load.times.backwardInput;
    stage.backwardWeight = load.times.backwardWeight;
    stage.parameterBytes = load.parameterBytes;
    stage.savedBytes = load.savedBytes;
  }
  const Simulation &simulation = evaluation.simulation;
  PlanPrediction &predicted = plan.predicted;
  predicted.step = evaluation.step;
  predicted.latency = simulation.makespan;
  predicted.span = simulation.span;
  predicted.bubble = evaluation.idleShare();
  for (const RankSummary &rank : simulation.summary)
    if (rank.span > 0)
      predicted.spanBubble =
          std::max(predicted.spanBubble, rank.bubble() / rank.span);
  predicted.throughput =
      predicted.step > 0 ? static_cast<double>(batch) / predicted.step : 0;
  predicted.peakBytes = evaluation.peakBytes;
  predicted.lowerBound = evaluation.lowerBound;
  return plan;
}
