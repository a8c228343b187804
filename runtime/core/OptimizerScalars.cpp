//===- OptimizerScalars.cpp -----------------------------------------------===//
#include "core/OptimizerScalars.h"
#include "support/Error.h"

#include <cmath>

using namespace pp::runtime;

void OptimizerScalars::set(const std::string &name, double value) {
  std::string known;
  for (PlanScalar &scalar : scalars) {
    bool settable =
        scalar.kind != PlanScalar::Kind::IsFirstStep && scalar.baseOf.empty();
    if (scalar.name == name && settable) {
      scalar.value = value;
      return;
    }
    if (settable)
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

std::vector<float> OptimizerScalars::evaluate(uint64_t step) const {
  std::vector<float> values;
  for (const PlanScalar &scalar : scalars)
    switch (scalar.kind) {
    case PlanScalar::Kind::Value:
      values.push_back(static_cast<float>(scalar.value));
      break;
    case PlanScalar::Kind::OneMinusPowerOf:
      values.push_back(static_cast<float>(
          1.0 - std::pow(baseOf(scalar), static_cast<double>(step))));
      break;
    case PlanScalar::Kind::IsFirstStep:
      values.push_back(step == 1 ? 1.0f : 0.0f);
      break;
    }
  return values;
}

std::vector<std::pair<std::string, double>> OptimizerScalars::settings() const {
  std::vector<std::pair<std::string, double>> result;
  for (const PlanScalar &scalar : scalars)
    if (scalar.kind != PlanScalar::Kind::IsFirstStep && scalar.baseOf.empty())
      result.emplace_back(scalar.name, scalar.value);
  return result;
}
