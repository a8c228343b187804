//===- OptimizerScalars.cpp -----------------------------------------------===//
#include "exec/OptimizerScalars.h"
#include "plan/ParameterScalars.h"
#include "support/Error.h"

#include <cmath>
#include <string_view>

using namespace pp::runtime;

static constexpr std::string_view learningRateName = "lr";

static bool isSettable(const PlanScalar &scalar) {
  return scalar.kind != PlanScalar::Kind::IsFirstStep &&
         scalar.kind != PlanScalar::Kind::IsSkipped && scalar.baseOf.empty() &&
         scalar.name != trustRatioName && scalar.name != directionName;
}

std::optional<double> OptimizerScalars::find(const std::string &name) const {
  for (const PlanScalar &scalar : scalars)
    if (scalar.name == name && isSettable(scalar))
      return scalar.value;
  return std::nullopt;
}

void OptimizerScalars::set(const std::string &name, double value) {
  std::string known;
  for (PlanScalar &scalar : scalars) {
    if (scalar.name == name && isSettable(scalar)) {
      if (scalar.kind == PlanScalar::Kind::LossScale && !isLossScale(value))
        failUsage("{}: {} is not a positive number of f32", name, value);
      scalar.value = value;
      return;
    }
    if (isSettable(scalar))
      known += (known.empty() ? "" : ", ") + scalar.name;
  }
  failUsage("optimizer has no value '{}' that can be set; it has: {}", name,
            known.empty() ? "none" : known);
}

double OptimizerScalars::baseOf(const PlanScalar &scalar) const {
  for (const PlanScalar &other : scalars)
    if (!scalar.baseOf.empty() && other.name == scalar.baseOf)
      return other.value;
  return scalar.value;
}

double OptimizerScalars::valueOf(const PlanScalar &scalar, uint64_t step,
                                 uint64_t update) const {
  switch (scalar.kind) {
  case PlanScalar::Kind::Value:
    return scalar.name == learningRateName && schedule
               ? scalar.value * schedule->factor(step - 1)
               : scalar.value;
  case PlanScalar::Kind::LossScale:
    return scalar.value;
  case PlanScalar::Kind::OneMinusPowerOf:
    return 1.0 -
           std::pow(baseOf(scalar), static_cast<double>(stepsBefore + update));
  case PlanScalar::Kind::PowerOfStep:
    return std::pow(static_cast<double>(stepsBefore + update), scalar.value);
  case PlanScalar::Kind::IsFirstStep:
    return stepsBefore + update == 1 ? 1 : 0;
  case PlanScalar::Kind::IsSkipped:
    // The kernel `loss_scale` reads it before it sets it.
    return isStopping ? 1 : 0;
  }
  return 0;
}

double OptimizerScalars::learningRate(uint64_t step) const {
  for (const PlanScalar &scalar : scalars)
    if (scalar.name == learningRateName)
      return valueOf(scalar, step, step);
  return 0;
}

NumberArray OptimizerScalars::evaluate(uint64_t step, uint64_t update) const {
  NumberArray values(type, scalars.size());
  for (size_t i = 0; i < scalars.size(); ++i)
    values.set(i, valueOf(scalars[i], step, update));
  return values;
}

void OptimizerScalars::setIn(Step &step, const Plan &plan,
                             uint64_t number) const {
  step.setScalars(plan, number, [&](uint64_t step, uint64_t update) {
    return evaluate(step, update);
  });
}

std::vector<std::pair<std::string, double>> OptimizerScalars::settings() const {
  std::vector<std::pair<std::string, double>> result;
  for (const PlanScalar &scalar : scalars)
    if (isSettable(scalar))
      result.emplace_back(scalar.name, scalar.value);
  return result;
}
