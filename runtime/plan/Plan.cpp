//===- Plan.cpp -----------------------------------------------------------===//
#include "plan/Plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

using namespace pp::runtime;

bool pp::runtime::isLossScale(double value) {
  return value >= std::numeric_limits<float>::min() &&
         value <= std::numeric_limits<float>::max();
}

const PlanScalar *Plan::findLossScale() const {
  for (const PlanScalar &scalar : optimizer.scalars)
    if (scalar.kind == PlanScalar::Kind::LossScale)
      return &scalar;
  return nullptr;
}

unsigned Plan::replicasOfLoss() const {
  for (const PlanStage &stage : stages)
    if (stage.areas.loss.bytes)
      return replicasOf(stage.code);
  return 1;
}

uint64_t Plan::samplesOfUpdate(const PlanStage &stage, int version,
                               uint64_t samples) const {
  if (!clockDistance && !dealsUpdates())
    return samples;
  uint64_t first = uint64_t(microbatchOf(stage, version)) * microbatchSize();
  uint64_t most =
      uint64_t(dealsUpdates() ? stage.replicas : 1) * microbatchSize();
  return samples > first ? std::min(samples - first, most) : 0;
}

unsigned Plan::ranksWithStages() const {
  return static_cast<unsigned>(
      std::count_if(ranks.begin(), ranks.end(),
                    [](const PlanRank &rank) { return !rank.shardOf; }));
}

std::vector<unsigned> Plan::workersOfRanks() const {
  std::vector<unsigned> workers;
  std::vector<bool> seen(stages.size());
  unsigned worker = 0;
  for (const PlanRank &rank : ranks) {
    bool isNext = std::any_of(rank.stages.begin(), rank.stages.end(),
                              [&](unsigned stage) { return seen[stage]; });
    if (clockDistance && isNext) {
      ++worker;
      seen.assign(stages.size(), false);
    }
    for (unsigned stage : rank.stages)
      seen[stage] = true;
    workers.push_back(worker);
  }
  return workers;
}

unsigned Plan::largestLag() const {
  unsigned lag = 0;
  for (const PlanRank &rank : ranks)
    for (const PlanAction &action : rank.actions)
      lag = std::max(lag, action.lag);
  return lag;
}

const PlanPort *Plan::findTarget() const {
  auto found = std::find_if(feeds.begin(), feeds.end(), [](const auto &feed) {
    return feed.role == "target";
  });
  return found == feeds.end() ? nullptr : &*found;
}

bool Plan::scalesLoss() const {
  const PlanScalar *scale = findLossScale();
  bool isDynamic =
      std::any_of(optimizer.scalars.begin(), optimizer.scalars.end(),
                  [](const PlanScalar &scalar) {
                    return scalar.name == "growth_interval";
                  });
  return scale && (isDynamic || scale->value != 1);
}

std::string pp::runtime::toString(const Plan &plan, const PlanAction &action) {
  ActionText text{action.kind, static_cast<int>(action.stage)};
  if (isTransfer(action.kind)) {
    const PlanChannel &channel = plan.channels[action.channel];
    if (channel.isReduction())
      return fmt::format("{}{}_GRAD", action.stage, nameOf(action.kind));
    if (channel.isOfWaves())
      return fmt::format("{}{}_{}", action.stage, nameOf(action.kind),
                         channel.release == ActionKind::Pull ? "PULL" : "PUSH");
    text.isForward = channel.fromPhase == Phase::Forward;
  }
  if (!isPerStep(action.kind))
    text.microbatch = static_cast<int>(action.microbatch);
  return pp::toString(text);
}

bool pp::runtime::releases(ActionKind action, ActionKind release,
                           bool recomputed) {
  if (release == ActionKind::Recompute && !recomputed)
    release = ActionKind::Forward;
  if (action == release)
    return true;
  // B is I then W, so it ends whatever one of the three ends; where the
  // backward pass is split, its last part is W.
  if (action == ActionKind::Backward)
    return release == ActionKind::BackwardInput ||
           release == ActionKind::BackwardWeight;
  return action == ActionKind::BackwardWeight &&
         release == ActionKind::Backward;
}
