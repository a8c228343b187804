//===- Rolling.cpp - Schedules without a flush that a program can run -----===//
#include "pp/Planner/Schedule/Rolling.h"
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

static int floorDivide(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }

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

double pp::planner::gradientDelay(const Schedule &schedule, WeightRule rule,
                                  int stage) {
  switch (rule) {
  case WeightRule::DoubleBuffered:
    return 1;
  case WeightRule::Latest:
    return static_cast<double>(schedule.stages - 1 - stage) /
           schedule.microbatches;
  case WeightRule::Stashing:
    return schedule.stages - 1 - stage;
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

Schedule pp::planner::unroll(const Schedule &schedule, int steps) {
  Schedule result = schedule;
  result.versions.clear();
  result.clockDistance.reset();
  result.microbatches = schedule.microbatches * steps;
  int lag = largestLag(schedule);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<Action> &list = result.ranks[rank];
    list.clear();
    std::vector<bool> updates(schedule.stages, false);
    forEachRun(schedule.ranks[rank], lag, steps,
               [&](const Action &action, int step) {
                 if (action.kind == ActionKind::Update)
                   updates[action.stage] = true;
                 if (action.isPerStep())
                   return;
                 Action own = action;
                 own.microbatch += step * schedule.microbatches;
                 own.lag = own.version = 0;
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
  int updates = schedule.updatesPerStep();
  result.microbatchesPerUpdate = schedule.microbatches / updates;
  result.microbatchesInFlight = schedule.microbatches;
  for (int stage = 0; stage < schedule.stages; ++stage)
    result.ranksOfStage.push_back({stage});
  int lag = largestLag(schedule);
  // Ranks with several stages are as many with one: that they complete is for
  // verifySchedule.
  for (const std::vector<Action> &list : listsOfStages(schedule)) {
    std::vector<VersionedAction> &own = result.ranks.emplace_back();
    forEachRun(list, lag, steps, [&](const Action &action, int step) {
      int first = step * schedule.microbatches;
      int version = std::max(step * updates + action.version, 0);
      if (action.kind == ActionKind::Update)
        own.push_back({action.kind, action.stage,
                       version * result.microbatchesPerUpdate - 1, version});
      else if (action.kind == ActionKind::Forward ||
               action.kind == ActionKind::Backward)
        own.push_back(
            {action.kind, action.stage, first + action.microbatch, version});
    });
  }
  return result;
}

Result<Schedule>
pp::planner::insertRollingTransfers(const Schedule &schedule,
                                    std::vector<Channel> channels) {
  int lag = largestLag(schedule), m = schedule.microbatches;
  // A step in whose time the warm-up is over and the end has not begun.
  int middle = lag + 1, steps = 2 * lag + 4;
  Result<Schedule> sent =
      insertTransfers(unroll(schedule, steps), std::move(channels));
  if (!sent)
    return sent;
  Schedule result = schedule;
  result.channels = sent->channels;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action> &run = sent->ranks[rank];
    const std::vector<Action> &compute = schedule.ranks[rank];
    auto firstOf = [&](int step) {
      return std::find_if(run.begin(), run.end(), [&](const Action &a) {
        return a.microbatch >= step * m;
      });
    };
    std::vector<Action> &list = result.ranks[rank];
    list.clear();
    size_t next = 0;
    for (auto it = firstOf(middle), end = firstOf(middle + 1); it != end;
         ++it) {
      Action action = *it;
      action.lag = middle - action.microbatch / m;
      action.microbatch %= m;
      if (action.isTransfer()) {
        list.push_back(action);
        continue;
      }
      // With P and U, which the long list does not have, before it.
      for (bool found = false; !found && next < compute.size(); ++next) {
        list.push_back(compute[next]);
        found = compute[next].kind == action.kind &&
                compute[next].stage == action.stage &&
                compute[next].lag == action.lag &&
                compute[next].microbatch == action.microbatch;
      }
    }
    list.insert(list.end(), compute.begin() + next, compute.end());
  }
  return result;
}

SlotAssignment pp::planner::assignRollingSlots(const Schedule &schedule) {
  SlotAssignment slots =
      assignSlots(unroll(schedule, 2 * largestLag(schedule) + 4));
  auto count = [](std::vector<int> &table, int slots, int length) {
    table.resize(length);
    for (int i = 0; i < length; ++i)
      table[i] = i % slots;
  };
  for (StageSlots &stage : slots.stages) {
    count(stage.forward, stage.count, stage.count);
    stage.backward = stage.forward;
  }
  for (ChannelSlots &channel : slots.channels) {
    if (!channel.receiveCount)
      continue;
    if (!channel.sendCount) {
      // The value is made in its receive slot.
      count(channel.receive, channel.receiveCount, channel.receiveCount);
      continue;
    }
    int length = std::lcm(channel.sendCount, channel.receiveCount);
    count(channel.send, channel.sendCount, length);
    count(channel.receive, channel.receiveCount, length);
  }
  return slots;
}
