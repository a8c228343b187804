//===- Replicas.cpp - Data parallelism around and inside a pipeline -------===//
#include "pp/Planner/Schedule/Replicas.h"
#include <algorithm>
#include <numeric>

using namespace pp::planner;

static constexpr int mostReplicas = 1 << 16;
static constexpr int64_t mostForwards = 100'000'000;

Result<Schedule> pp::planner::replicatePipeline(const Schedule &pipeline,
                                                int replicas) {
  if (replicas < 1 || replicas > mostReplicas)
    return Failure{"a pipeline cannot have " + std::to_string(replicas) +
                   " replicas; expected 1 to " + std::to_string(mostReplicas)};
  if (!pipeline.replicas.empty())
    return Failure{"the schedule has replicas already"};
  if (int64_t(pipeline.stages) * pipeline.microbatches * replicas >
      mostForwards)
    return Failure{std::to_string(replicas) + " replicas of " +
                   std::to_string(pipeline.stages) + " stages and " +
                   std::to_string(pipeline.microbatches) +
                   " micro-batches are too many"};
  Schedule result;
  result.stages = pipeline.stages * replicas;
  result.microbatches = pipeline.microbatches * replicas;
  for (int stage = 0; stage < pipeline.stages; ++stage)
    for (int copy = 0; copy < replicas; ++copy) {
      result.rankOfStage.push_back(pipeline.rankOfStage[stage] * replicas +
                                   copy);
      result.replicas.push_back({stage, copy, replicas});
    }
  for (const std::vector<Action> &rank : pipeline.ranks)
    for (int copy = 0; copy < replicas; ++copy) {
      std::vector<Action> &list = result.ranks.emplace_back(rank);
      for (Action &action : list) {
        action.stage = action.stage * replicas + copy;
        if (action.microbatch >= 0)
          action.microbatch = action.microbatch * replicas + copy;
        if (action.channel >= 0)
          action.channel = action.channel * replicas + copy;
      }
    }
  // Copies have no micro-batch in common, so each channel leads to its own
  // copy.
  result.channels = replicateChannels(result, pipeline.channels);
  for (const RankGroup &group : pipeline.groups) {
    RankGroup &all = result.groups.emplace_back(group);
    all.stages.clear();
    for (int stage : group.stages)
      for (int copy = 0; copy < replicas; ++copy)
        all.stages.push_back(stage * replicas + copy);
  }
  return result;
}

std::vector<RankGroup> pp::planner::gradientGroups(int stages) {
  std::vector<RankGroup> groups;
  for (int stage = 0; stage < stages; ++stage)
    groups.push_back({"gradients of stage " + std::to_string(stage),
                      RankGroup::Kind::Gradients,
                      {stage},
                      0});
  return groups;
}

Result<Schedule>
pp::planner::insertGradientReductions(const Schedule &pipeline) {
  if (!pipeline.isTraining())
    return Failure{"a schedule for inference has no gradients to add up"};
  if (!pipeline.groups.empty())
    return Failure{"the schedule has collectives already"};
  Schedule result = pipeline;
  result.groups = gradientGroups(pipeline.stages);
  for (std::vector<Action> &list : result.ranks) {
    std::vector<int> left(pipeline.stages, 0);
    for (const Action &action : list)
      left[action.stage] += action.performs(Phase::BackwardWeight);
    std::vector<Action> actions, updates;
    for (const Action &action : list) {
      bool isUpdate = action.kind == ActionKind::Update;
      (isUpdate ? updates : actions).push_back(action);
      if (!action.performs(Phase::BackwardWeight) || --left[action.stage])
        continue;
      Action reduce{ActionKind::ReduceGradients, action.stage};
      reduce.group = action.stage;
      actions.push_back(reduce);
    }
    actions.insert(actions.end(), updates.begin(), updates.end());
    list = std::move(actions);
  }
  return result;
}

/// The parts with their replicas, whose lists are empty.
static Result<Schedule> dealMicrobatches(const std::vector<int> &replicas,
                                         int microbatches) {
  int parts = static_cast<int>(replicas.size());
  if (parts == 0)
    return Failure{"a schedule needs at least one part"};
  for (int part = 0; part < parts; ++part) {
    int count = replicas[part];
    if (count < 1 || count > mostReplicas)
      return Failure{"part " + std::to_string(part) + " cannot have " +
                     std::to_string(count) + " replicas; expected 1 to " +
                     std::to_string(mostReplicas)};
    if (microbatches < count)
      return Failure{"replica " + std::to_string(std::max(microbatches, 0)) +
                     " of part " + std::to_string(part) +
                     " has nothing to do: there are only " +
                     std::to_string(microbatches) + " micro-batches"};
  }
  if (int64_t(parts) * microbatches > mostForwards)
    return Failure{std::to_string(parts) + " parts and " +
                   std::to_string(microbatches) +
                   " micro-batches are too many"};
  Schedule result;
  result.microbatches = microbatches;
  for (int part = 0; part < parts; ++part)
    for (int number = 0; number < replicas[part]; ++number) {
      result.rankOfStage.push_back(result.stages++);
      result.replicas.push_back({part, number, replicas[part]});
      result.ranks.emplace_back();
    }
  return result;
}

/// Those of one replica, in order.
static std::vector<int> microbatchesOf(const Schedule &schedule, int stage) {
  std::vector<int> own;
  Replica replica = schedule.replicaOf(stage);
  for (int k = replica.number; k < schedule.microbatches; k += replica.count)
    own.push_back(k);
  return own;
}

Result<Schedule>
pp::planner::roundRobinSchedule(const std::vector<int> &replicas,
                                int microbatches) {
  Result<Schedule> result = dealMicrobatches(replicas, microbatches);
  if (!result)
    return result;
  int64_t rest = std::accumulate(replicas.begin(), replicas.end(), int64_t(0));
  for (int stage = 0; stage < result->stages; ++stage) {
    Replica replica = result->replicaOf(stage);
    std::vector<int> own = microbatchesOf(*result, stage);
    auto ahead = static_cast<size_t>(std::min<int64_t>(
        (rest - 1) / replica.count, static_cast<int64_t>(own.size())));
    std::vector<Action> &list = result->ranks[stage];
    for (size_t k = 0; k < own.size() + ahead; ++k) {
      if (k < own.size())
        list.push_back({ActionKind::Forward, stage, own[k]});
      if (k >= ahead)
        list.push_back({ActionKind::Backward, stage, own[k - ahead]});
    }
    list.push_back({ActionKind::Update, stage});
    if (replica.number + 1 == replica.count)
      rest -= replica.count;
  }
  return result;
}

Result<Schedule> pp::planner::dealtSchedule(std::string_view name,
                                            const std::vector<int> &replicas,
                                            int microbatches) {
  if (name == "1f1b")
    return roundRobinSchedule(replicas, microbatches);
  bool trains = name == "gpipe";
  if (!trains && name != "inference")
    return Failure{"schedule '" + std::string(name) +
                   "' needs the same number of replicas of all stages; with "
                   "others there are 1f1b and gpipe"};
  Result<Schedule> result = dealMicrobatches(replicas, microbatches);
  for (int stage = 0; result && stage < result->stages; ++stage) {
    std::vector<Action> &list = result->ranks[stage];
    for (int k : microbatchesOf(*result, stage))
      list.push_back({ActionKind::Forward, stage, k});
    if (!trains)
      continue;
    for (int k : microbatchesOf(*result, stage))
      list.push_back({ActionKind::Backward, stage, k});
    list.push_back({ActionKind::Update, stage});
  }
  return result;
}

void pp::planner::insertDealtReductions(Schedule &schedule) {
  std::vector<int> groupOf(schedule.stages, -1);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    Replica replica = schedule.replicaOf(stage);
    if (replica.count == 1)
      continue;
    if (replica.number == 0)
      schedule.groups.push_back(
          {"gradients of stage " + std::to_string(replica.part),
           RankGroup::Kind::Gradients,
           {},
           0});
    groupOf[stage] = static_cast<int>(schedule.groups.size()) - 1;
    schedule.groups.back().stages.push_back(stage);
  }
  for (std::vector<Action> &list : schedule.ranks)
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].kind == ActionKind::Update && groupOf[list[i].stage] >= 0) {
        Action reduce{ActionKind::ReduceGradients, list[i].stage};
        reduce.group = groupOf[list[i].stage];
        reduce.lag = list[i].lag;
        reduce.version = list[i].version;
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(i++), reduce);
      }
}

std::vector<Channel>
pp::planner::replicateChannels(const Schedule &schedule,
                               const std::vector<Channel> &channels) {
  std::vector<std::vector<int>> stagesOf(schedule.parts());
  for (int stage = 0; stage < schedule.stages; ++stage)
    stagesOf[schedule.replicaOf(stage).part].push_back(stage);
  std::vector<Channel> result;
  for (const Channel &channel : channels)
    for (int from : stagesOf[channel.from])
      for (int to : stagesOf[channel.to]) {
        Replica a = schedule.replicaOf(from), b = schedule.replicaOf(to);
        int64_t shared = a.number, period = int64_t(a.count) * b.count;
        while (shared < period && shared % b.count != b.number)
          shared += a.count;
        if (shared >= std::min<int64_t>(period, schedule.microbatches))
          continue;
        Channel copy = channel;
        copy.from = from;
        copy.to = to;
        if (a.count > 1 || b.count > 1)
          copy.name +=
              "." + std::to_string(a.number) + "." + std::to_string(b.number);
        result.push_back(std::move(copy));
      }
  return result;
}

std::vector<int>
pp::planner::findCopiedChannels(const Schedule &schedule,
                                const std::vector<Channel> &channels) {
  std::vector<int> result;
  for (size_t c = 0; c < channels.size(); ++c)
    result.insert(result.end(),
                  replicateChannels(schedule, {channels[c]}).size(),
                  static_cast<int>(c));
  return result;
}
