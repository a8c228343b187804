//===- ParameterGroups.cpp ------------------------------------------------===//
#include "exec/ParameterGroups.h"
#include "plan/ParameterScalars.h"
#include "support/Error.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

using namespace pp::runtime;

bool pp::runtime::fitsPattern(std::string_view name, std::string_view pattern) {
  // Goes back to the last star only: what came before it fits as it is.
  size_t n = 0, p = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

static std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

ParameterGroup ParameterGroup::parse(const std::string &text) {
  ParameterGroup group;
  group.text = text;
  // Names of parameters may have colons.
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    failUsage("--group {}: expected PATTERNS:NAME=NUMBER,... or "
              "PATTERNS:frozen",
              text);
  group.patterns = split(text.substr(0, colon));
  for (const std::string &what : split(text.substr(colon + 1))) {
    if (what == "frozen") {
      group.isFrozen = true;
      continue;
    }
    size_t equals = what.find('=');
    std::string name = what.substr(0, equals);
    std::string digits =
        equals == std::string::npos ? "" : what.substr(equals + 1);
    char *end = nullptr;
    double value = std::strtod(digits.c_str(), &end);
    if (name.empty() || digits.empty() || *end ||
        !std::isfinite(static_cast<float>(value)))
      failUsage("--group {}: '{}' is not NAME=NUMBER", text, what);
    if (name == "lr_factor")
      group.learningRateFactor = value;
    else
      group.values[name] = value;
  }
  return group;
}

/// Of scaled losses and skipped steps.
static bool isOfAllParameters(const PlanOptimizer &optimizer,
                              const std::string &name) {
  std::optional<size_t> found = findScalar(optimizer, name);
  return (found && isSetByKernel(optimizer.scalars[*found])) ||
         name == "growth_interval" || name == "skip_limit";
}

ParameterGroups::ParameterGroups(const std::vector<std::string> &texts,
                                 const Plan &plan) {
  std::set<std::string> names;
  for (const PlanStage &stage : plan.stages)
    for (const PlanTensor &parameter : stage.parameters)
      names.insert(parameter.name);
  std::vector<std::string> faults;
  for (const std::string &text : texts) {
    ParameterGroup group = ParameterGroup::parse(text);
    for (const auto &[name, value] : group.values) {
      OptimizerScalars scalars(plan.optimizer);
      scalars.set(name, value); // throws
      if (isOfAllParameters(plan.optimizer, name))
        failUsage("--group {}: '{}' is one for all parameters; --set {}={} "
                  "changes it",
                  text, name, name, value);
    }
    for (const std::string &pattern : group.patterns) {
      bool isUsed = false;
      for (const std::string &name : names)
        if (fitsPattern(name, pattern)) {
          isUsed = true;
          numbers.try_emplace(name, groups.size());
        }
      if (!isUsed)
        faults.push_back(pattern);
    }
    groups.push_back(std::move(group));
  }
  if (!faults.empty())
    failUsage("--group: no parameter is called '{}'; `info` lists them",
              fmt::join(faults, "', nor '"));
}

std::optional<size_t>
ParameterGroups::groupOf(const std::string &parameter) const {
  auto found = numbers.find(parameter);
  if (found == numbers.end())
    return std::nullopt;
  return found->second;
}

std::set<std::string> ParameterGroups::frozen() const {
  std::set<std::string> names;
  for (const auto &[name, number] : numbers)
    if (groups[number].isFrozen)
      names.insert(name);
  return names;
}

size_t ParameterGroups::countOf(size_t group) const {
  size_t count = 0;
  for (const auto &[name, number] : numbers)
    count += number == group;
  return count;
}

void ParameterGroups::setIn(Step &step, const Plan &plan, uint64_t number,
                            const OptimizerScalars &scalars) const {
  std::vector<OptimizerScalars> ofGroups;
  for (const ParameterGroup &group : groups) {
    OptimizerScalars &own = ofGroups.emplace_back(scalars);
    for (const auto &[name, value] : group.values)
      own.set(name, value);
    if (std::optional<double> rate = own.find("lr"))
      own.set("lr", *rate * group.learningRateFactor);
  }
  step.setScalars(plan, number, [&](uint64_t step, uint64_t update) {
    UpdateScalars values = scalars.evaluate(step, update);
    for (const OptimizerScalars &own : ofGroups)
      values.groups.push_back(own.evaluate(step, update));
    return values;
  });
}
