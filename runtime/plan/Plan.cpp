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

unsigned Plan::largestLag() const {
  unsigned lag = 0;
  for (const PlanRank &rank : ranks)
    for (const PlanAction &action : rank.actions)
      lag = std::max(lag, action.lag);
  return lag;
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
