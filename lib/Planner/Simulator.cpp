//===- Simulator.cpp - When each action of a schedule runs ----------------===//
#include "pp/Planner/Simulator.h"
#include "Schedule/Replay.h"
#include "SharedLinks.h"
#include <algorithm>

using namespace pp::planner;

std::vector<double> pp::planner::transferTimes(const Schedule &schedule,
                                               const Cluster &cluster) {
  std::vector<double> times;
  for (const Channel &channel : schedule.channels)
    times.push_back(schedule.crossesRanks(channel)
                        ? cluster
                              .link(schedule.rankOfStage[channel.from],
                                    schedule.rankOfStage[channel.to])
                              .transferTime(channel.bytes)
                        : 0);
  return times;
}

double pp::planner::ringAllReduceTime(const Cluster &cluster,
                                      const std::vector<size_t> &devices,
                                      int64_t bytes) {
  size_t count = devices.size();
  if (count < 2 || bytes == 0)
    return 0;
  double slowest = 0;
  for (size_t i = 0; i < count; ++i) {
    Link link = cluster.link(devices[i], devices[(i + 1) % count]);
    slowest = std::max(
        slowest, 2.0 * static_cast<double>(count - 1) *
                     link.transferTime(bytes / static_cast<int64_t>(count)));
  }
  return slowest;
}

std::vector<double> pp::planner::collectiveTimes(const Schedule &schedule,
                                                 const Cluster &cluster) {
  std::vector<double> times;
  for (const RankGroup &group : schedule.groups) {
    std::vector<int> ranks = schedule.ranksOf(group);
    times.push_back(ringAllReduceTime(
        cluster, std::vector<size_t>(ranks.begin(), ranks.end()), group.bytes));
  }
  return times;
}

double Simulation::bubble() const {
  double largest = 0;
  for (const RankSummary &rank : summary)
    largest = std::max(largest, rank.bubble());
  return largest;
}

double Simulation::makespanBubble() const {
  double largest = 0;
  for (const RankSummary &rank : summary)
    largest = std::max(largest, makespan - rank.busy);
  return largest;
}

double Simulation::utilization() const {
  double busy = 0;
  for (const RankSummary &rank : summary)
    busy += rank.busy;
  return makespan > 0 ? busy / (makespan * static_cast<double>(summary.size()))
                      : 0;
}

Result<Simulation> pp::planner::simulate(const Schedule &schedule,
                                         const SimulationInput &input) {
  if (input.stages.size() != 1 &&
      input.stages.size() != static_cast<size_t>(schedule.stages))
    return Failure{"there are times for " +
                   std::to_string(input.stages.size()) + " stages, not " +
                   std::to_string(schedule.stages)};
  if (input.transfers.size() > 1 &&
      input.transfers.size() != schedule.channels.size())
    return Failure{"there are times for " +
                   std::to_string(input.transfers.size()) + " channels, not " +
                   std::to_string(schedule.channels.size())};
  if (input.releases.size() > 1 &&
      input.releases.size() != schedule.channels.size())
    return Failure{"there are release times for " +
                   std::to_string(input.releases.size()) + " channels, not " +
                   std::to_string(schedule.channels.size())};
  if (input.overheads.size() > 1 &&
      input.overheads.size() != schedule.channels.size())
    return Failure{"there are overheads for " +
                   std::to_string(input.overheads.size()) + " channels, not " +
                   std::to_string(schedule.channels.size())};
  if (input.occupancies.size() > 1 &&
      input.occupancies.size() != schedule.channels.size())
    return Failure{"there are occupancies for " +
                   std::to_string(input.occupancies.size()) +
                   " channels, not " +
                   std::to_string(schedule.channels.size())};
  if (input.collectives.size() > 1 &&
      input.collectives.size() != schedule.groups.size())
    return Failure{"there are times for " +
                   std::to_string(input.collectives.size()) + " groups, not " +
                   std::to_string(schedule.groups.size())};
  Replay replay(schedule, input.sends, &input);
  if (!replay.run())
    return Failure{replay.explain()};
  Simulation result;
  result.ranks = replay.times();
  if (!input.linkOfChannel.empty()) {
    if (input.linkOfChannel.size() != schedule.channels.size())
      return Failure{
          "there are links for " + std::to_string(input.linkOfChannel.size()) +
          " channels, not " + std::to_string(schedule.channels.size())};
    if (!input.overheads.empty() || !input.occupancies.empty())
      return Failure{
          "channels that share a link can have no overheads or occupancies"};
    if (input.sends.kind != SendRule::Kind::Unbounded)
      return Failure{"channels can share a link only if sends wait for nobody"};
    result.ranks = simulateSharedLinks(schedule, input);
  }
  for (const std::vector<TimedAction> &rank : result.ranks) {
    RankSummary &summary = result.summary.emplace_back();
    double first = 0;
    bool seen = false;
    for (const TimedAction &timed : rank) {
      result.makespan = std::max(result.makespan, timed.end);
      if (timed.action.isTransfer() || timed.action.isCollective())
        continue;
      if (!seen)
        first = timed.start;
      seen = true;
      summary.busy += timed.end - timed.start;
      summary.span = timed.end - first;
    }
    result.span = std::max(result.span, summary.span);
  }
  return result;
}

Result<double> pp::planner::stepPeriod(const Schedule &schedule,
                                       const SimulationInput &input) {
  if (!schedule.replicas.empty())
    return Failure{"the period of a schedule with replicas is not known"};
  constexpr int steps = 4;
  // Micro-batch m of step n is number n * microbatches + m.
  Schedule repeated = schedule;
  repeated.microbatches *= steps;
  for (std::vector<Action> &list : repeated.ranks) {
    std::vector<Action> once = list;
    for (int step = 1; step < steps; ++step)
      for (Action action : once) {
        if (action.microbatch >= 0)
          action.microbatch += step * schedule.microbatches;
        list.push_back(action);
      }
  }
  SlotAssignment slots;
  SimulationInput own = input;
  if (input.sends.slots) {
    slots = *input.sends.slots;
    own.sends.slots = &slots;
    for (ChannelSlots &channel : slots.channels)
      for (std::vector<int> *numbers : {&channel.send, &channel.receive}) {
        std::vector<int> once = *numbers;
        for (int step = 1; step < steps; ++step)
          numbers->insert(numbers->end(), once.begin(), once.end());
      }
  }
  auto simulation = simulate(repeated, own);
  if (!simulation)
    return Failure{simulation.error()};
  // From the second step on: the first finds all ranks idle.
  double ends[steps] = {};
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    size_t actions = schedule.ranks[rank].size();
    for (size_t i = 0; i < actions * steps; ++i)
      ends[i / actions] =
          std::max(ends[i / actions], simulation->ranks[rank][i].end);
  }
  return (ends[steps - 1] - ends[1]) / (steps - 2);
}

SimulationInput pp::planner::scaleRank(const Schedule &schedule,
                                       SimulationInput input, int rank,
                                       double factor) {
  if (input.stages.size() == 1)
    input.stages.resize(schedule.stages, input.stages.front());
  for (size_t stage = 0; stage < input.stages.size(); ++stage)
    if (schedule.rankOfStage[stage] == rank) {
      StageTimes &times = input.stages[stage];
      for (double *time :
           {&times.forward, &times.backwardInput, &times.backwardWeight,
            &times.recompute, &times.update, &times.prepare})
        *time *= factor;
    }
  return input;
}
