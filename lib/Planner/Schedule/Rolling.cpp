//===- Rolling.cpp - Schedules without a flush that a program can run -----===//
#include "pp/Planner/Schedule/Rolling.h"
#include "FloorDivide.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Waves.h"
#include <algorithm>
#include <numeric>
#include <utility>

using namespace pp::planner;

static constexpr std::pair<std::string_view, WeightRule> ruleByName[] = {
    {"pipedream", WeightRule::Stashing},
    {"pipedream-vertical-sync", WeightRule::VerticalSync},
    {"pipedream-2bw", WeightRule::DoubleBuffered},
    {"pipemare", WeightRule::Latest},
    {"wsp", WeightRule::Waves}};

std::vector<std::string_view> pp::planner::rollingScheduleNames() {
  std::vector<std::string_view> names;
  for (auto [name, rule] : ruleByName)
    names.push_back(name);
  return names;
}

std::optional<WeightRule> pp::planner::weightRuleOf(std::string_view name) {
  for (auto [known, rule] : ruleByName)
    if (known == name)
      return rule;
  return std::nullopt;
}

/// Of a step's micro-batch k in F, less the step: what was updated last.
static int forwardVersion(WeightRule rule, int stages, int ahead,
                          int microbatches, int k) {
  if (rule == WeightRule::DoubleBuffered)
    return -1;
  if (rule == WeightRule::VerticalSync)
    return 1 - stages;
  return floorDivide(k - ahead, microbatches);
}

static int backwardVersion(WeightRule rule, int stages, int ahead) {
  switch (rule) {
  case WeightRule::DoubleBuffered:
    return -1;
  case WeightRule::Latest:
    return 0;
  case WeightRule::Stashing:
    return -ahead;
  case WeightRule::VerticalSync:
    return 1 - stages;
  case WeightRule::Waves:
    break; // makeWaveSchedule
  }
  return 0;
}

static int keptBy(WeightRule rule, int stages, int ahead) {
  switch (rule) {
  case WeightRule::DoubleBuffered:
    return 2;
  case WeightRule::Latest:
    return 1;
  case WeightRule::Stashing:
    return ahead + 1;
  case WeightRule::VerticalSync:
    return stages;
  case WeightRule::Waves:
    break;
  }
  return 1;
}

Result<Schedule> pp::planner::makeRollingSchedule(std::string_view name,
                                                  PipelineShape shape) {
  std::optional<WeightRule> rule = weightRuleOf(name);
  if (!rule)
    return Failure{"'" + std::string(name) +
                   "' is no schedule without a flush; known are pipedream, "
                   "pipedream-vertical-sync, pipedream-2bw, pipemare and wsp"};
  int p = shape.stages, m = shape.microbatches;
  if (p < 1 || p > 1 << 10 || m < 1)
    return Failure{std::to_string(p) + " stages and " + std::to_string(m) +
                   " micro-batches make no schedule"};
  if (shape.rankCount() != p)
    return Failure{std::string(name) +
                   " needs a rank for each stage, but there are " +
                   std::to_string(shape.rankCount()) + " ranks and " +
                   std::to_string(p) + " stages"};
  if (*rule == WeightRule::Waves)
    return makeWaveSchedule(shape);
  if ((*rule == WeightRule::Stashing || *rule == WeightRule::VerticalSync) &&
      m != 1)
    return Failure{std::string(name) +
                   " updates the weights after each micro-batch, so a "
                   "step has one, but there are " +
                   std::to_string(m) +
                   "; pipedream-2bw has an update per several"};
  if (*rule == WeightRule::DoubleBuffered && m < p)
    return Failure{"pipedream-2bw keeps two weight versions, which are enough "
                   "only for at least as many micro-batches per update as "
                   "stages, but there are " +
                   std::to_string(m) + " micro-batches and " +
                   std::to_string(p) + " stages"};
  Schedule schedule;
  schedule.stages = p;
  schedule.microbatches = m;
  for (int stage = 0; stage < p; ++stage) {
    int ahead = p - 1 - stage;
    schedule.rankOfStage.push_back(stage);
    schedule.versions.push_back(keptBy(*rule, p, ahead));
    std::vector<Action> &list = schedule.ranks.emplace_back();
    auto add = [&](ActionKind kind, int k, int lag, int version) {
      Action action{kind, stage, k};
      action.lag = lag;
      action.version = version;
      list.push_back(action);
    };
    for (int k = 0; k < m; ++k) {
      add(ActionKind::Forward, k, 0, forwardVersion(*rule, p, ahead, m, k));
      int lag = -floorDivide(k - ahead, m), done = k - ahead + lag * m;
      add(ActionKind::Backward, done, lag, backwardVersion(*rule, p, ahead));
      if (done == m - 1)
        add(ActionKind::Update, -1, lag, 1);
    }
  }
  return schedule;
}

Result<Schedule> pp::planner::makeRollingReplicas(
    std::string_view name, const std::vector<int> &replicas, int microbatches) {
  if (name != "pipedream")
    return Failure{"'" + std::string(name) +
                   "' has no replicas of stages; without a flush, pipedream "
                   "has them"};
  Result<Schedule> dealt = dealtSchedule("1f1b", replicas, microbatches);
  if (!dealt)
    return dealt;
  for (size_t part = 0; part < replicas.size(); ++part)
    if (microbatches % replicas[part] != 0)
      return Failure{"the " + std::to_string(replicas[part]) +
                     " replicas of part " + std::to_string(part) +
                     " cannot share " + std::to_string(microbatches) +
                     " micro-batches equally; without a flush, they have to"};
  Schedule schedule = std::move(*dealt);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    auto [part, number, count] = schedule.replicas[stage];
    int kept = pipeDreamVersions(replicas, part), ahead = kept - 1;
    int own = microbatches / count;
    schedule.versions.push_back(kept);
    std::vector<Action> &list = schedule.ranks[stage];
    list.clear();
    auto add = [&](ActionKind kind, int k, int lag, int version) {
      Action action{kind, stage, k < 0 ? -1 : k * count + number};
      action.lag = lag;
      action.version = version;
      list.push_back(action);
    };
    for (int k = 0; k < own; ++k) {
      add(ActionKind::Forward, k, 0, k - ahead);
      int lag = -floorDivide(k - ahead, own), done = k - ahead + lag * own;
      add(ActionKind::Backward, done, lag, done - ahead);
      add(ActionKind::Update, -1, lag, done + 1);
    }
  }
  return schedule;
}

double pp::planner::gradientDelay(const Schedule &schedule, WeightRule rule,
                                  int stage) {
  switch (rule) {
  case WeightRule::DoubleBuffered:
    return 1;
  case WeightRule::Latest:
    return static_cast<double>(schedule.stages - 1 - stage) /
           schedule.microbatches;
  case WeightRule::Stashing:
    return schedule.versions[stage] - 1;
  case WeightRule::VerticalSync:
    return schedule.stages - 1;
  case WeightRule::Waves:
    return schedule.microbatches - 1;
  }
  return 0;
}

int pp::planner::largestLag(const Schedule &schedule) {
  int lag = 0;
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank)
      lag = std::max(lag, action.lag);
  return lag;
}

/// Calls `visit(action, step)` for what a rank runs in a run of `steps` steps.
template <typename Visit>
static void forEachRun(const std::vector<Action> &list, int lag, int steps,
                       Visit visit) {
  for (int handedIn = 0; handedIn < steps + lag; ++handedIn)
    for (const Action &action : list) {
      int step = handedIn - action.lag;
      if (step >= 0 && step < steps)
        visit(action, step);
    }
}

/// Gives each update of replicas of a part a group of its own; returns the
/// first group of each part, or -1.
static std::vector<int> addUpdateGroups(const Schedule &schedule, int steps,
                                        Schedule &run) {
  std::vector<int> first(schedule.parts(), -1);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    auto [part, number, count] = schedule.replicaOf(stage);
    if (count == 1)
      continue;
    int updates = schedule.updatesOf(stage) * steps;
    if (number == 0) {
      first[part] = static_cast<int>(run.groups.size());
      for (int update = 0; update < updates; ++update)
        run.groups.push_back({"gradients of update " + std::to_string(update) +
                                  " of stage " + std::to_string(part),
                              RankGroup::Kind::Gradients,
                              {},
                              0});
    }
    for (int update = 0; update < updates; ++update)
      run.groups[first[part] + update].stages.push_back(stage);
  }
  return first;
}

Schedule pp::planner::unroll(const Schedule &schedule, int steps,
                             bool withReductions) {
  Schedule result = schedule;
  result.versions.clear();
  result.groups.clear();
  result.clockDistance.reset();
  result.microbatches = schedule.microbatches * steps;
  std::vector<int> groups;
  if (withReductions)
    groups = addUpdateGroups(schedule, steps, result);
  int lag = largestLag(schedule);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<Action> &list = result.ranks[rank];
    list.clear();
    std::vector<bool> updates(schedule.stages, false);
    forEachRun(schedule.ranks[rank], lag, steps,
               [&](const Action &action, int step) {
                 if (action.kind == ActionKind::Update)
                   updates[action.stage] = true;
                 Action own = action;
                 own.lag = own.version = 0;
                 if (action.isCollective() && withReductions) {
                   own.group = groups[schedule.replicaOf(action.stage).part] +
                               step * schedule.updatesOf(action.stage) +
                               action.version - 1;
                   list.push_back(own);
                 }
                 if (action.isPerStep())
                   return;
                 own.microbatch += step * schedule.microbatches;
                 list.push_back(own);
               });
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (updates[stage])
        list.push_back({ActionKind::Update, stage});
  }
  return result;
}

AsynchronousSchedule pp::planner::unrollVersions(const Schedule &schedule,
                                                 WeightRule rule, int steps) {
  AsynchronousSchedule result;
  result.rule = rule;
  result.stages = schedule.stages;
  result.microbatches = schedule.microbatches * steps;
  result.microbatchesInFlight = schedule.microbatches;
  result.stages = schedule.parts();
  result.ranksOfStage.resize(result.stages);
  for (int stage = 0; stage < schedule.stages; ++stage)
    result.ranksOfStage[schedule.replicaOf(stage).part].push_back(stage);
  int lag = largestLag(schedule);
  // Ranks with several stages are as many with one: that they complete is for
  // verifySchedule.
  for (const std::vector<Action> &list : listsOfStages(schedule)) {
    std::vector<VersionedAction> &own = result.ranks.emplace_back();
    forEachRun(list, lag, steps, [&](const Action &action, int step) {
      int first = step * schedule.microbatches;
      int updates = schedule.updatesOf(action.stage);
      auto [part, number, count] = schedule.replicaOf(action.stage);
      // Of this replica.
      int perUpdate = schedule.microbatches / updates / count;
      int version = std::max(step * updates + action.version, 0);
      result.microbatchesPerUpdate = perUpdate;
      if (action.kind == ActionKind::Update)
        own.push_back({action.kind, part,
                       (version * perUpdate - 1) * count + number, version});
      else if (action.kind == ActionKind::Forward ||
               action.kind == ActionKind::Backward)
        own.push_back({action.kind, part, first + action.microbatch, version});
    });
  }
  return result;
}

namespace {

/// A rank's run with its transfers.
class FoldedList {
public:
  /// `run` has the passes, transfers and collectives of `list` in `steps` steps
  /// of `microbatches`.
  FoldedList(const std::vector<Action> &list, const std::vector<Action> &run,
             int lag, int steps, int microbatches)
      : starts(steps + 1, 0), microbatches(microbatches) {
    for (int round = 0; round < steps + lag; ++round)
      for (const Action &action : list)
        if (int step = round - action.lag; step >= 0 && step < steps)
          computed.push_back({action, step, round});
    for (const Action &action : run)
      add(action);
  }

  /// What stands between the first action of step `middle` and that of the next
  /// one.
  std::vector<Action> listOf(int middle) const {
    std::vector<Action> result;
    for (size_t i = starts[middle]; i < starts[middle + 1]; ++i) {
      result.push_back(all[i].action);
      result.back().lag = middle - all[i].step;
    }
    return result;
  }

private:
  struct Placed {
    Action action;
    int step, round; // of the action, and the one that was handed in
  };

  void add(const Action &action) {
    if (action.kind == ActionKind::Update)
      return; // at the end of the run
    int step = action.microbatch / microbatches;
    if (action.microbatch >= 0 && step > newest) {
      newest = step;
      // P and U, which the run does not have, stay in their round.
      while (next < computed.size() && computed[next].round < newest &&
             computed[next].action.isPerStep() &&
             !computed[next].action.isCollective())
        all.push_back(computed[next++]);
      starts[newest] = all.size();
    }
    if (action.isTransfer()) {
      all.push_back({action, step, newest});
      all.back().action.microbatch %= microbatches;
      return;
    }
    for (bool found = false; !found && next < computed.size();) {
      const Placed &other = computed[next++];
      all.push_back(other);
      found = other.action.kind == action.kind &&
              other.action.stage == action.stage &&
              (action.isCollective() ||
               other.step * microbatches + other.action.microbatch ==
                   action.microbatch);
    }
  }

  std::vector<Placed> computed, all;
  std::vector<size_t> starts; // in `all`, by step
  int microbatches, newest = -1;
  size_t next = 0;
};

} // namespace

Result<Schedule>
pp::planner::insertRollingTransfers(const Schedule &schedule,
                                    std::vector<Channel> channels) {
  int lag = largestLag(schedule);
  // A step in whose time the warm-up is over and the end has not begun.
  int middle = lag + 1, steps = 2 * lag + 4;
  Result<Schedule> sent = insertTransfers(
      unroll(schedule, steps, /*withReductions=*/true), std::move(channels));
  if (!sent)
    return sent;
  Schedule result = schedule;
  result.channels = sent->channels;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    result.ranks[rank] = FoldedList(schedule.ranks[rank], sent->ranks[rank],
                                    lag, steps, schedule.microbatches)
                             .listOf(middle);
  return result;
}

SlotAssignment pp::planner::assignRollingSlots(const Schedule &schedule) {
  SlotAssignment slots =
      assignSlots(unroll(schedule, 2 * largestLag(schedule) + 4));
  // By number of a micro-batch, of which every `distance`-th takes a slot.
  auto count = [](std::vector<int> &table, int slots, int distance,
                  int length) {
    table.resize(length);
    for (int i = 0; i < length; ++i)
      table[i] = i / distance % slots;
  };
  for (int number = 0; number < schedule.stages; ++number) {
    StageSlots &stage = slots.stages[number];
    int distance = schedule.replicaOf(number).count;
    count(stage.forward, stage.count, distance, stage.count * distance);
    stage.backward = stage.forward;
  }
  for (size_t c = 0; c < slots.channels.size(); ++c) {
    ChannelSlots &channel = slots.channels[c];
    if (!channel.receiveCount)
      continue;
    int distance = std::lcm(schedule.replicaOf(schedule.channels[c].from).count,
                            schedule.replicaOf(schedule.channels[c].to).count);
    if (!channel.sendCount) {
      // The value is made in its receive slot.
      count(channel.receive, channel.receiveCount, distance,
            channel.receiveCount * distance);
      continue;
    }
    int length = std::lcm(channel.sendCount, channel.receiveCount) * distance;
    count(channel.send, channel.sendCount, distance, length);
    count(channel.receive, channel.receiveCount, distance, length);
  }
  return slots;
}
